"""What the recommended beta was measured to be worth: at tuned learning rates, by task and length. Pure Python.

`scripts/gains.py` makes `gains.csv` from the records of two studies; a test makes it again and compares.
"""

from __future__ import annotations

import csv
import functools
import math
from dataclasses import dataclass
from importlib import resources

NEAR = 2.0
"""A training of this factor fewer or more steps is near enough to be shown."""

ALIKE = 1.25
"""Lengths within this factor of one another are shown together."""


@dataclass(frozen=True)
class Gain:
    """One task at one length, every beta at its own best learning rate; gaps are shares of the best tied beta's loss.

    `beta` is the swept one nearest to what is recommended there, `gap` what it costs; `usual` is what (0.9, 0.999)
    costs, below zero where it is better than any tied beta. Intervals are 95 %, None where seeds do not allow one.
    `held_out` says that this task and length chose nothing. Where the row stands for several tasks (`trials`), gaps are
    those of their pooled mean; `each` is the mean of what it cost in each of them, and `largest` the gap of the worst.
    """

    task: str
    steps: int
    held_out: bool
    best_beta: float
    beta: float
    gap: float
    gap_interval: tuple[float, float] | None
    usual: float
    usual_interval: tuple[float, float] | None
    trials: int
    each: float
    largest: float


@functools.cache
def gains() -> tuple[Gain, ...]:
    """All that was measured, shortest trainings first.

    >>> gains()[0].steps
    250
    """
    text = resources.files("oneclock").joinpath("gains.csv").read_text()
    return tuple(_gain(row) for row in csv.DictReader(text.splitlines()))


def gains_near(horizon: float) -> tuple[Gain, ...]:
    """What was measured at about the length nearest to `horizon`; nothing where that is more than a factor of two away.

    >>> [sorted({gain.steps for gain in gains_near(horizon)}) for horizon in (10, 200, 1_200)]
    [[], [250, 300], [1000]]
    """
    distances = {gain.steps: abs(math.log(gain.steps / horizon)) for gain in gains()}
    nearest = min(distances, key=lambda steps: distances[steps])
    if distances[nearest] > math.log(NEAR):
        return ()
    return tuple(gain for gain in gains() if nearest / ALIKE <= gain.steps <= nearest * ALIKE)


def in_percent(share: float, interval: tuple[float, float] | None) -> str:
    """A gap in per cent, with its interval.

    >>> in_percent(0.0123, (0.0, 0.021)), in_percent(-0.004, None)
    ('1.2 % (0.0 to 2.1)', '-0.4 %')
    """
    beside = "" if interval is None else f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"
    return f"{100 * share:.1f} %{beside}"


def _gain(row: dict[str, str]) -> Gain:
    def interval(name: str) -> tuple[float, float] | None:
        return (float(row[f"{name}_low"]), float(row[f"{name}_high"])) if row[f"{name}_low"] else None

    return Gain(
        task=row["task"],
        steps=int(row["steps"]),
        held_out=row["held_out"] == "yes",
        best_beta=float(row["best_beta"]),
        beta=float(row["beta"]),
        gap=float(row["gap"]),
        gap_interval=interval("gap"),
        usual=float(row["usual"]),
        usual_interval=interval("usual"),
        trials=int(row["trials"]),
        each=float(row["each"]),
        largest=float(row["largest"]),
    )
