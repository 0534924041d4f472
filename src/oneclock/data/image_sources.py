"""Where the images of an experiment come from: a local folder first, else torchvision's download or the hub.

Every source may lie in ROOT/SOURCE as train/CLASS/IMAGE and val/CLASS/IMAGE. Beside that, each is found in the layout
in which it is distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from oneclock.data import bundled
from oneclock.data.order import SPLIT, generator
from oneclock.data.places import ABSENT, missing, offline, prepare_hub
from oneclock.experiments.overrides import did_you_mean
from oneclock.experiments.spec import Images
from oneclock.models import torchvision_guard  # noqa: F401  before torchvision

from torchvision import datasets as zoo  # isort: skip
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader  # isort: skip


class Pictures(Protocol):
    """A map-style data set of (PIL image or uint8 tensor, class number)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Any, int]: ...


@dataclass(frozen=True)
class TensorImages:
    """Images in memory: uint8 (samples, 3, height, width) and class numbers (samples,)."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


@dataclass(frozen=True)
class FileImages:
    """Image files and their class numbers."""

    paths: Sequence[Path]
    labels: Sequence[int]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return default_loader(self.paths[index]), self.labels[index]


Sets = tuple[Pictures, Pictures]
"""Training and validation images."""


@dataclass(frozen=True)
class ImageSource:
    """How to find a source below a root folder: `marker` is there if it is; `fetch` and `put` are for people."""

    marker: str
    read: Callable[[Path, Images], Sets]
    fetch: str
    download: Callable[[Path, Images], Sets] | None = None


def open_images(spec: Images, root: Path) -> Sets:
    """Training and validation images of a source."""
    if spec.source in BUNDLED:
        return _in_memory(*BUNDLED[spec.source](root), spec)
    if spec.source not in SOURCES:
        names = [*SOURCES, *BUNDLED]
        raise ValueError(f"there is no image source {spec.source!r}" + did_you_mean(spec.source, names))
    source = SOURCES[spec.source]
    if (root / spec.source / "train").is_dir():
        return _class_folders(root / spec.source)
    problem: BaseException | None = None
    try:
        if (root / source.marker).exists():
            return source.read(root, spec)
        if source.download is not None:
            return source.download(root, spec)
    except RuntimeError as error:  # torchvision's word for a damaged copy or a missing package
        raise ValueError(f"{root / source.marker}: {error}") from None
    except OSError as error:
        problem = error
    put = f"{root / source.marker}, or as {root / spec.source}/train/CLASS/IMAGE and val/CLASS/IMAGE"
    raise missing(spec.source, source.fetch, put, problem)


def _in_memory(images: np.ndarray, labels: np.ndarray, spec: Images) -> Sets:
    """Grey images (samples, height, width) as three equal channels, split by class."""
    if spec.train_per_class is None:
        raise ValueError(f"{spec.source} has no split of its own: set data.train_per_class")
    train, validation = (
        TensorImages(torch.from_numpy(images[part])[:, None].expand(-1, 3, -1, -1), torch.from_numpy(labels[part]))
        for part in split_per_class(labels, spec.train_per_class, spec.split_seed)
    )
    return train, validation


def _class_folders(folder: Path) -> Sets:
    found = [folder / name for name in ("val", "validation", "valid", "test") if (folder / name).is_dir()]
    if not found:
        raise ValueError(f"{folder} has images to train on and none to validate with: add {folder}/val/CLASS/IMAGE")
    try:
        train, validation = zoo.ImageFolder(folder / "train"), zoo.ImageFolder(found[0])
    except FileNotFoundError as error:
        raise ValueError(str(error)) from None
    if train.classes != validation.classes:
        odd = sorted(set(train.classes) ^ set(validation.classes))
        raise ValueError(f"{folder}: train and {found[0].name} differ in their classes, first {odd[0]!r}")
    return train, validation


def _cifar100(root: Path, spec: Images, download: bool = False) -> Sets:
    def part(train: bool) -> TensorImages:
        data = zoo.CIFAR100(root, train=train, download=download)
        return TensorImages(torch.from_numpy(data.data).permute(0, 3, 1, 2), torch.tensor(data.targets))

    return part(True), part(False)


def _food101(root: Path, spec: Images, download: bool = False) -> Sets:
    return zoo.Food101(root, "train", download=download), zoo.Food101(root, "test", download=download)


def _cars(root: Path, spec: Images) -> Sets:
    return zoo.StanfordCars(root, "train"), zoo.StanfordCars(root, "test")


def _tinyimagenet(root: Path, spec: Images) -> Sets:
    folder = root / "tiny-imagenet-200"
    train = zoo.ImageFolder(folder / "train")
    lines = [line.split("\t") for line in (folder / "val" / "val_annotations.txt").read_text().splitlines()]
    paths = [folder / "val" / "images" / line[0] for line in lines]
    return train, FileImages(paths, [train.class_to_idx[line[1]] for line in lines])


def _imagenet100(root: Path, spec: Images) -> Sets:
    folder = root / "imagenet100"
    parts = {name: sorted(folder.glob(f"{name}.X*/*/*")) for name in ("train", "val")}
    parts = {name: [path for path in paths if path.suffix.lower() in IMG_EXTENSIONS] for name, paths in parts.items()}
    classes = {name: number for number, name in enumerate(sorted({path.parent.name for path in parts["train"]}))}
    train, validation = (FileImages(paths, [classes[path.parent.name] for path in paths]) for paths in parts.values())
    return train, validation


def _caltech256(root: Path, spec: Images, download: bool = False) -> Sets:
    if download:
        zoo.Caltech256(root, download=True)
    everything = zoo.ImageFolder(root / "caltech256" / "256_ObjectCategories")
    train, validation = split_per_class(np.array(everything.targets), spec.train_per_class or 60, spec.split_seed)
    return Subset(everything, train.tolist()), Subset(everything, validation.tolist())


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


def hub_images(
    repository: str, validation: str, image: str = "image", label: str = "label"
) -> Callable[[Path, Images], Sets]:
    """A function that loads a repository of the hub, whose validation split has the name `validation`."""

    def read(root: Path, spec: Images) -> Sets:
        from datasets import load_dataset

        prepare_hub()
        try:
            parts = [load_dataset(repository, split=split) for split in ("train", validation)]
        except ABSENT as error:
            raise OSError(error) from None
        train, held_out = (HubImages(part, image, label) for part in parts)
        return train, held_out

    return read


@dataclass(frozen=True)
class HubImages:
    """A data set of the hub with an image and a label column."""

    rows: Any
    image: str
    label: str

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        row = self.rows[int(index)]
        return row[self.image].convert("RGB"), int(row[self.label])


def _downloading(read: Callable[..., Sets]) -> Callable[[Path, Images], Sets]:
    def fetch(root: Path, spec: Images) -> Sets:
        if offline():
            raise OSError("HF_HUB_OFFLINE is set")
        return read(root, spec, download=True)

    return fetch


BUNDLED: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {
    "digits": lambda root: bundled.digits(),
    "mnist-sample": lambda root: bundled.mnist_sample(),
    "fashion-mnist": bundled.fashion_mnist,
}
SOURCES = {
    "cifar100": ImageSource(
        "cifar-100-python", _cifar100, "cifar-100-python.tar.gz of www.cs.toronto.edu/~kriz", _downloading(_cifar100)
    ),
    "food101": ImageSource("food-101", _food101, "food-101.tar.gz of data.vision.ee.ethz.ch", _downloading(_food101)),
    "tinyimagenet": ImageSource(
        "tiny-imagenet-200",
        _tinyimagenet,
        "tiny-imagenet-200.zip of cs231n.stanford.edu",
        hub_images("zh-plus/tiny-imagenet", "valid"),
    ),
    "imagenet100": ImageSource("imagenet100", _imagenet100, "ambityga/imagenet100 (130,000 training images) of Kaggle"),
    "cars": ImageSource(
        "stanford_cars",
        _cars,
        "Stanford Cars (cars_train, cars_test, devkit, cars_test_annos_withlabels.mat)",
        hub_images("tanganke/stanford_cars", "test"),
    ),
    "caltech256": ImageSource(
        "caltech256/256_ObjectCategories",
        _caltech256,
        "256_ObjectCategories.tar of data.caltech.edu",
        _downloading(_caltech256),
    ),
}
