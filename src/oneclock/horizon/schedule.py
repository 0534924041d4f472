"""The learning rate over a plan, as far as the horizon needs it: one of four shapes, and a guess from a log."""

from __future__ import annotations

import math
from collections.abc import Callable

SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "wsd": lambda done: min(1.0, 5 * (1 - done)),
}
"""The learning rate as a share of its peak after a share of the plan; `wsd` is constant and falls in the last fifth."""

_SETTLED = 0.3  # of the plan: before it, a learning rate at its peak may still warm up, or be about to fall


def guess_schedule(left: float | None, done: float) -> str | None:
    """The shape nearest to a learning rate that is `left` of its peak after the share `done` of the plan, if known."""
    if left is None or not 0 <= left <= 1 or (left > 0.99 and done < _SETTLED):
        return None
    return min(SHAPES, key=lambda name: abs(SHAPES[name](min(done, 1.0)) - left))
