"""Published rules of others, which need more than a horizon: they take a `Training`. Pure Python, no torch.

They are here for comparison (`benchmarks/rules_of_others.py`). Nothing else uses them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from oneclock.rule import Rule, positive


@dataclass(frozen=True)
class Training:
    """The facts about a training before it starts: useful optimizer steps, and samples and tokens per step.

    >>> Training(steps=20_000, batch=480, tokens=480 * 1024).tokens
    491520
    """

    steps: float
    batch: float | None = None
    tokens: float | None = None
    parameters: float | None = None


class TrainingRule(Protocol):
    """A way to choose beta from a training; ValueError if a needed fact is missing."""

    @property
    def name(self) -> str: ...

    def __call__(self, training: Training) -> float: ...


@dataclass(frozen=True)
class BySteps:
    """One of our rules, which uses the steps alone.

    >>> from oneclock.rule import Refresh
    >>> BySteps(Refresh())(Training(steps=20_000))
    0.95
    """

    rule: Rule

    @property
    def name(self) -> str:
        return self.rule.name

    def __call__(self, training: Training) -> float:
        return self.rule(training.steps)


@dataclass(frozen=True)
class HalfLife:
    """A gradient counts half after so many tokens, whatever the batch (arXiv 2507.07101, there for beta2 alone).

    >>> round(HalfLife(10e6)(Training(steps=20_000, tokens=491_520)), 4)
    0.9665
    """

    half_life: float

    def __post_init__(self) -> None:
        positive(self.half_life, "half_life")

    @property
    def name(self) -> str:
        return f"Half-life {self.half_life:.3g} tokens"

    def __call__(self, training: Training) -> float:
        if training.tokens is None:
            raise ValueError(f"{self.name} needs the tokens per optimizer step")
        return 2.0 ** (-positive(training.tokens, "tokens") / self.half_life)


def half_lives(low: float = 1e2, high: float = 1e9, per_decade: int = 8) -> tuple[HalfLife, ...]:
    """Candidates to calibrate among, evenly spaced by their logarithm.

    >>> [rule.name for rule in half_lives(1e3, 1e5, per_decade=1)]
    ['Half-life 1e+03 tokens', 'Half-life 1e+04 tokens', 'Half-life 1e+05 tokens']
    """
    count = round(per_decade * math.log10(high / low))
    return tuple(HalfLife(low * 10 ** (place / per_decade)) for place in range(count + 1))
