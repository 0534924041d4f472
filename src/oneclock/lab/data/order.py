"""Which samples form which batch: a pure function of seed and position, the same for every beta of a seed.

Each use of randomness has its own key of whole numbers. No global generator is read or changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Batch = dict[str, Tensor]
Split = Literal["train", "validation"]

ORDER, NOISE, EVALUATION, SPLIT, DRAWN_AT = range(5)
"""Parts of a key that say what the randomness is for."""


def generator(*key: int) -> np.random.Generator:
    """A numpy generator of its own for each key of whole numbers, none of them negative."""
    return np.random.default_rng(_sequence(key))


@contextmanager
def torch_seeded(*key: int) -> Iterator[None]:
    """A context in which torch's global CPU generator depends only on the key; afterwards its state is restored."""
    before = torch.default_generator.get_state()
    try:
        # torch.manual_seed would seed every device too, which costs more than a whole batch of a small model.
        torch.default_generator.manual_seed(int(_sequence(key).generate_state(1, np.uint64)[0]))
        yield
    finally:
        torch.default_generator.set_state(before)


@dataclass(frozen=True)
class Order:
    """`size` samples in batches, in a new order each epoch; a last partial batch counts unless `drop_last`.

    >>> order = Order(size=10, batch_size=4, drop_last=True)
    >>> order.batches, order.indices(seed=1, position=0).tolist() == order.indices(seed=1, position=0).tolist()
    (2, True)
    """

    size: int
    batch_size: int
    drop_last: bool

    @property
    def batches(self) -> int:
        """Batches in one epoch."""
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)

    def indices(self, seed: int, position: int) -> np.ndarray:
        """The samples of batch number `position`, counted from 0 over all epochs."""
        epoch, batch = divmod(position, self.batches)
        return _permutation(self.size, seed, epoch)[batch * self.batch_size : (batch + 1) * self.batch_size]


@dataclass(frozen=True)
class Draws:
    """Batches of `batch_size` of `size` samples, each sample drawn anew from all of them.

    >>> Draws(size=10, batch_size=4).indices(seed=1, position=0).shape
    (4,)
    """

    size: int
    batch_size: int

    @property
    def batches(self) -> int:
        """Unlimited if there is a sample, else 0."""
        return int(self.size > 0)

    def indices(self, seed: int, position: int) -> np.ndarray:
        """The samples of batch number `position`."""
        return generator(ORDER, seed, position).integers(self.size, size=self.batch_size)


class EvaluationBatches(Sequence[Batch]):
    """The evaluation batches of one split, each made when asked for, by `make(samples, key)`.

    `batches` of them are drawn from `size` samples, the same at every call with the same `drawn_at`; None means all
    samples, in their order.
    """

    def __init__(
        self,
        split: Split,
        size: int,
        batch_size: int,
        batches: int | None,
        make: Callable[[np.ndarray, tuple[int, ...]], Batch],
        drawn_at: int | None = None,
    ) -> None:
        self.key, self.batch_size, self.make = (EVALUATION, int(split == "train")), batch_size, make
        if batches is None or batches * batch_size >= size:
            self.samples = np.arange(size)
            return
        key = self.key if drawn_at is None else (*self.key, DRAWN_AT, drawn_at)
        self.samples = np.sort(generator(*key).choice(size, batches * batch_size, replace=False))

    def __len__(self) -> int:
        return math.ceil(len(self.samples) / self.batch_size)

    def __getitem__(self, number: int) -> Batch:  # type: ignore[override]
        if not 0 <= number < len(self):
            raise IndexError(number)
        samples = self.samples[number * self.batch_size : (number + 1) * self.batch_size]
        return self.make(samples, (*self.key, number))


def _sequence(key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence((len(key), *key))  # numpy takes (1,) and (1, 0) for the same


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> np.ndarray:
    indices = np.arange(size, dtype=np.uint32 if size < 2**32 else np.uint64)
    generator(ORDER, seed, epoch).shuffle(indices)
    indices.flags.writeable = False
    return indices
