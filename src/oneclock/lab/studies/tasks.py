"""What an ensemble trains on: real data in memory, batches that follow a seed, and a fixed validation set.

The batch of a step depends on the seed and the step alone. All members of a seed see the same batches, so their losses
are paired by seed; a resumed training sees the same batches as an uninterrupted one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneclock.lab.data import bundled
from oneclock.lab.data.data_dirs import data_root

_CHUNK = 256
"""Steps whose batches are drawn at once."""

_SPLIT_SEED = 123
_OTHER = 127
"""The id of all bytes outside ASCII: the vocabulary is 128."""


@dataclass(frozen=True)
class TextTask:
    """Next-byte prediction: random windows of a training text, evenly spaced windows of a held-out one."""

    source: str
    length: int = 32
    characters: int | None = None
    """Train on the first so many characters only; None is all."""
    validation_windows: int = 512

    @property
    def validation_size(self) -> int:
        """Predicted tokens of one evaluation."""
        return self.validation_windows * self.length

    @property
    def training_size(self) -> int:
        """Tokens to train on."""
        return len(_corpus(self.source)[0][: self.characters])

    def validation(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets (N, T)."""
        ids = _corpus(self.source)[1]
        starts = np.linspace(0, len(ids) - self.length - 1, self.validation_windows).astype(np.int64)
        return _windows(ids, torch.from_numpy(starts), self.length)

    def batch(self, seed: int, step: int, rows: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets (rows, T) of the update after `step` updates."""
        ids = _corpus(self.source)[0][: self.characters]
        return _windows(ids, _drawn(seed, step, rows, len(ids) - self.length), self.length)


@dataclass(frozen=True)
class ImageTask:
    """Images, time series or rows of a table to classify: a share of the training data, with some wrong labels if asked
    for, and all validation data.
    """

    source: str
    share: float = 1.0
    label_noise: float = 0.0
    """Share of training labels that are replaced by random ones; validation labels stay right."""

    @property
    def validation_size(self) -> int:
        """Images of one evaluation."""
        return len(_images(self.source)[1][0])

    @property
    def training_size(self) -> int:
        """Images to train on."""
        return round(self.share * len(_images(self.source)[0][0]))

    def validation(self) -> tuple[Tensor, Tensor]:
        """Inputs (N, pixels) and classes (N,)."""
        return _images(self.source)[1]

    def batch(self, seed: int, step: int, rows: int) -> tuple[Tensor, Tensor]:
        """Inputs (rows, pixels) and classes (rows,) of the update after `step` updates."""
        inputs, classes = _noisy(self.source, self.training_size, self.label_noise)
        chosen = _drawn(seed, step, rows, self.training_size)
        return inputs[chosen], classes[chosen]


Task = TextTask | ImageTask


def task_as_data(task: Task) -> dict[str, Any]:
    """A task as plain data for a record, with its sizes and the hash of its text."""
    facts = asdict(task) | {"training_size": task.training_size, "validation_size": task.validation_size}
    return facts | ({"hash": bundled.text_hash(task.source)} if isinstance(task, TextTask) else {})


def _windows(ids: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
    windows = ids[starts[:, None] + torch.arange(length + 1)].long()
    return windows[:, :-1], windows[:, 1:]


def _drawn(seed: int, step: int, rows: int, count: int) -> Tensor:
    chunk = _chunk(seed, step // _CHUNK, rows, count)
    return chunk[step % _CHUNK]


@lru_cache(maxsize=256)
def _chunk(seed: int, chunk: int, rows: int, count: int) -> Tensor:
    random = np.random.default_rng([seed, chunk])
    return torch.from_numpy(random.integers(0, count, (_CHUNK, rows)))


@lru_cache(maxsize=4)
def _corpus(source: str) -> tuple[Tensor, Tensor]:
    """Training and validation bytes of a bundled text; a tenth of its documents validates."""
    documents = bundled.TEXTS[source]()
    held_out = np.zeros(len(documents), dtype=bool)
    random = np.random.default_rng(_SPLIT_SEED)
    held_out[random.choice(len(documents), len(documents) // 10, replace=False)] = True
    return _bytes([d for d, out in zip(documents, held_out, strict=True) if not out]), _bytes(
        [d for d, out in zip(documents, held_out, strict=True) if out]
    )


def _bytes(documents: list[str]) -> Tensor:
    values = np.frombuffer("".join(documents).encode(), dtype=np.uint8)
    return torch.from_numpy(np.minimum(values, _OTHER))


def _fashion() -> tuple[np.ndarray, np.ndarray]:
    """The first 6,000 images of Fashion-MNIST."""
    pixels, classes = bundled.fashion_mnist(data_root())
    return pixels[:6_000], classes[:6_000]


_IMAGES = {"digits": bundled.digits, "mnist-sample": bundled.mnist_sample, "fashion-mnist": _fashion}


@lru_cache(maxsize=4)
def _images(source: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and validation data as vectors with their classes; 30 % validate.

    Pixels lie between -1 and 1. Each column of a table has mean 0 and standard deviation 1, and so have all time
    series of a source together.
    """
    if source in bundled.TABLES:
        rows, classes = bundled.TABLES[source]()
        values = torch.from_numpy(((rows - rows.mean(0)) / rows.std(0)).astype(np.float32))
    elif source in bundled.SERIES:
        rows, classes = bundled.SERIES[source]()
        values = torch.from_numpy(((rows - rows.mean()) / rows.std()).astype(np.float32))
    else:
        pixels, classes = _IMAGES[source]()
        values = torch.from_numpy(pixels.astype(np.float32)) / 127.5 - 1
    if values.shape[1:] == (28, 28):  # half the resolution: the mean of 2 x 2 pixels
        values = values.view(-1, 14, 2, 14, 2).mean((2, 4))
    order = torch.from_numpy(np.random.default_rng(_SPLIT_SEED).permutation(len(values)))
    values, labels = values.flatten(1)[order], torch.from_numpy(classes)[order]
    cut = len(values) * 3 // 10
    return (values[cut:], labels[cut:]), (values[:cut], labels[:cut])


@lru_cache(maxsize=16)
def _noisy(source: str, count: int, label_noise: float) -> tuple[Tensor, Tensor]:
    inputs, classes = (one[:count] for one in _images(source)[0])
    kinds = int(_images(source)[0][1].max()) + 1
    random = np.random.default_rng([_SPLIT_SEED, count])
    wrong = torch.from_numpy(random.random(count) < label_noise)
    return inputs, torch.where(wrong, torch.from_numpy(random.integers(0, kinds, count)), classes)
