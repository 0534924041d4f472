"""What a protocol works with: the cells it asks for, their losses, and what to do now. Plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from oneclock.study.identity import Beta

SEEDS = (1, 2, 3)
"""The seeds of a target that does not say its own."""

ARMS = ((0.9, 0.999), (0.9, 0.95))
"""What people have today: torch's default betas, and the usual pair for language models."""


class Cell(NamedTuple):
    """One run of a protocol: a tied beta (or an untied pair, a baseline arm), a seed, and a rate where it is swept."""

    beta: Beta
    seed: int
    rate: float | None = None


Losses = Mapping[Cell, float]
"""Best validation loss of every run that ended, lower is better: inf where it diverged, NaN where it failed."""


@dataclass(frozen=True)
class Step:
    """What to do now: `runs`, or none and the `reason` why the protocol is done.

    `at_most` bounds how many runs are left, these included.
    """

    runs: tuple[Cell, ...]
    at_most: int
    reason: str | None = None


def ranked(losses: Mapping[Any, float]) -> list[Any]:
    """Betas from the best loss to the worst; what has no finite loss comes last, a tie goes to the smaller beta."""
    return sorted(losses, key=lambda beta: (losses[beta] if math.isfinite(losses[beta]) else math.inf, beta))


def mean(values: Sequence[float]) -> float:
    kept = [value for value in values if not math.isnan(value)]
    return math.fsum(kept) / len(kept) if kept else math.nan
