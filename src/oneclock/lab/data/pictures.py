"""Images with their class numbers: in memory, in files, or in the rows of a table; and how they are split."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from oneclock import torchvision_guard  # noqa: F401  before torchvision
from oneclock.lab.data.data_dirs import shortened
from oneclock.lab.data.order import SPLIT, generator

from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader  # isort: skip


class Pictures(Protocol):
    """A map-style data set of (PIL image or uint8 tensor, class number); `labels` are known without decoding.

    `digest` is a hash that identifies the set without decoding it.
    """

    @property
    def labels(self) -> Any: ...

    @property
    def digest(self) -> str: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Any, int]: ...


Sets = tuple[Pictures, Pictures]
"""Training and validation images."""


@dataclass(frozen=True)
class TensorImages:
    """Images in memory: uint8 (samples, 3, height, width) and class numbers (samples,)."""

    images: Tensor
    labels: Tensor

    @property
    def digest(self) -> str:
        """Of every pixel and class."""
        pixels = self.images if self.images.stride(1) else self.images[:, :1]  # grey, its channels one and the same
        return _digest([np.ascontiguousarray(pixels), np.ascontiguousarray(self.labels)])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


@dataclass(frozen=True)
class FileImages:
    """Image files and their class numbers."""

    paths: Sequence[Path]
    labels: Sequence[int]

    @property
    def digest(self) -> str:
        """Of the files' names and classes, in their order; a hash of the pixels would need decoding."""
        names = (f"{path.parent.name}/{path.name} {label}" for path, label in zip(self.paths, self.labels, strict=True))
        return _digest(["\n".join(names).encode()])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with _named(f"the image {self.paths[index]}"):
            return default_loader(self.paths[index]), self.labels[index]


@dataclass(frozen=True)
class TableImages:
    """The rows of a data set of the hub: a column of images, and their class numbers."""

    rows: Any
    column: str
    labels: Sequence[int]

    @property
    def digest(self) -> str:
        """Of the classes in the order of the rows."""
        return _digest([np.asarray(self.labels, np.int64)])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with _named(f"the image of row {index}"):
            return self.rows[int(index)][self.column].convert("RGB"), self.labels[index]


@contextmanager
def _named(image: str) -> Iterator[None]:
    """Turn any error of the decoder into a one-line ValueError that names the damaged image."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{image} cannot be decoded ({shortened(error)}): fetch it again") from None


def _digest(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def images_below(folder: Path) -> dict[str, list[Path]]:
    """The image files below each folder of `folder`, sorted, by the folder's name, which is their class."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    by_class = {
        path.name: sorted(file for file in path.rglob("*") if file.suffix.lower() in IMG_EXTENSIONS) for path in classes
    }
    if not by_class:
        raise ValueError(f"{folder} holds no class folders")
    if empty := [name for name, files in by_class.items() if not files]:
        raise ValueError(f"{folder / empty[0]} holds no images")
    return by_class


def by_class(files: dict[str, list[Path]], classes: Sequence[str]) -> FileImages:
    """The files of all classes, numbered in the order of `classes`."""
    pairs = [(path, number) for number, name in enumerate(classes) for path in files.get(name, [])]
    return FileImages([path for path, _ in pairs], [number for _, number in pairs])


def split_per_class(labels: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sample numbers: `count` of each class drawn with `seed`, and all the others.

    >>> train, validation = split_per_class(np.array([0, 0, 0, 1, 1]), count=1, seed=123)
    >>> len(train), len(validation)
    (2, 3)
    """
    rng = generator(SPLIT, seed)
    train = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) <= count:
            raise ValueError(f"class {label} has {len(members)} images: {count} for training leave none to validate")
        train.append(rng.permutation(members)[:count])
    chosen = np.sort(np.concatenate(train))
    return chosen, np.setdiff1d(np.arange(len(labels)), chosen)


def split_files(files: dict[str, list[Path]], count: int, seed: int) -> Sets:
    """`count` files of each class, and the others.

    Python's own generator draws them, class by class in order. If a class has at most `count` files, four fifths of
    them train.
    """
    draw, train, validation = random.Random(seed), {}, {}
    for name in sorted(files):
        shuffled = list(files[name])
        draw.shuffle(shuffled)
        here = count if len(shuffled) > count else max(1, int(0.8 * len(shuffled)))
        train[name], validation[name] = shuffled[:here], shuffled[here:]
    return by_class(train, sorted(files)), by_class(validation, sorted(files))
