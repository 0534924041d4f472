"""A validation curve: losses at increasing steps. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import lt


@dataclass(frozen=True)
class Curve:
    """A validation curve: losses at strictly increasing steps, lower is better, at least one of them finite.

    NaN and infinite losses are never an improvement.

    >>> curve = Curve([100, 200, 300], [2.0, 1.5, 1.7])
    >>> curve.best_step, curve.best_loss
    (200, 1.5)
    """

    steps: tuple[float, ...]
    losses: tuple[float, ...]

    def __init__(self, steps: Sequence[float], losses: Sequence[float]) -> None:
        object.__setattr__(self, "steps", tuple(steps))
        object.__setattr__(self, "losses", tuple(map(float, losses)))
        if len(self.steps) != len(self.losses):
            raise ValueError(f"a curve needs one loss per step, got {len(self.steps)} and {len(self.losses)}")
        if not any(map(math.isfinite, self.losses)):
            raise ValueError("a curve needs at least one finite loss")
        if not all(map(math.isfinite, self.steps)) or min(self.steps) < 0:
            raise ValueError("steps must be finite numbers of at least 0")
        if not all(map(lt, self.steps, self.steps[1:])):
            before, after = next(pair for pair in pairwise(self.steps) if not pair[0] < pair[1])
            raise ValueError(f"steps must increase, but {after:g} follows {before:g}; keep one loss per step")

    @property
    def best_loss(self) -> float:
        """The smallest finite loss of the whole curve."""
        return min(filter(math.isfinite, self.losses))

    @property
    def best_step(self) -> float:
        """The first step with that loss."""
        return self.steps[self.losses.index(self.best_loss)]
