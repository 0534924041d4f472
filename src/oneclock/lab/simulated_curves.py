"""Simulated validation curves with a known useful horizon, to test how often an interval contains it. Pure Python.

Losses fall as a power of time, exponentially or with the logarithm, and a rise may be added to them. Half of the curves
turn before the end of the plan. The noise is 0.3 to 20 % of the fall; in a third of the curves neighbours share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from oneclock.horizon import Curve

PLAN = 10_000


@dataclass(frozen=True)
class Simulated:
    """A curve over `PLAN` steps, and its useful horizon without noise: the turn, or the plan."""

    curve: Curve
    horizon: float

    def until(self, share: float) -> Curve:
        """The part of the curve up to that share of the plan."""
        count = sum(step <= share * PLAN for step in self.curve.steps)
        return Curve(self.curve.steps[:count], self.curve.losses[:count])


def simulate(random: Random, evaluations: int) -> Simulated:
    """One curve, with evaluations at equal distances.

    >>> made = simulate(Random(0), evaluations=10)
    >>> len(made.curve.steps), made.horizon <= PLAN
    (10, True)
    """
    turn = _turn(random)
    falls, slope = _fall(random, turn)
    power = random.choice((1.0, 1.0, 1.5, 2.0))
    rise = 0.0 if turn == math.inf else -slope(turn) / (power * turn ** (power - 1))

    def loss(time: float) -> float:
        return falls(time) + rise * time**power

    later = [loss(at / 50) for at in range(3, 51)]
    noise = (loss(0.05) - min(later)) * 10 ** random.uniform(-2.5, -0.7)
    shared = random.choice((0.0, 0.0, 0.4))
    error, losses = 0.0, []
    times = [(at + 1) / evaluations for at in range(evaluations)]
    for time in times:
        error = shared * error + math.sqrt(1 - shared**2) * random.gauss(0, noise)
        losses.append(loss(time) + error)
    return Simulated(Curve([PLAN * time for time in times], losses), PLAN * min(turn, 1.0))


def slow_waves(random: Random, evaluations: int) -> Curve:
    """A curve without a turn: it falls, quickly or slowly or not at all, with noise that many neighbours share.

    >>> len(slow_waves(Random(0), evaluations=64).steps)
    64
    """
    fall = random.choice((lambda time: max(0.0, 1 - 3 * time), lambda time: 0.2 * time**-0.5, lambda time: 0.0))
    shared, error, losses = random.uniform(0.8, 0.95), random.gauss(0, 0.03), []
    times = [(at + 1) / evaluations for at in range(evaluations)]
    for time in times:
        error = shared * error + math.sqrt(1 - shared**2) * random.gauss(0, 0.03)
        losses.append(1 + fall(time) + error)
    return Curve([PLAN * time for time in times], losses)


def _turn(random: Random) -> float:
    """As a share of the plan: before its end in half of the cases, else after it or never."""
    if random.random() < 0.5:
        return 10 ** random.uniform(-1, 0) if random.random() < 0.5 else random.uniform(0.1, 1)
    return math.inf if random.random() < 0.5 else 10 ** random.uniform(0.02, 0.7)


def _fall(random: Random, turn: float) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """A falling loss over time, and its slope."""
    kind = random.choice(("power", "exponential", "logarithm"))
    if kind == "power":
        power, start = random.uniform(0.2, 1.5), 10 ** random.uniform(-2.5, -1)
        return lambda time: (time + start) ** -power, lambda time: -power * (time + start) ** (-power - 1)
    if kind == "exponential":
        rate = 10 ** random.uniform(0.2, 1.3)
        if turn < math.inf and random.random() < 0.7:
            rate = min(rate, 6 / max(turn, 0.15))  # otherwise the loss stops falling long before the turn
        return lambda time: math.exp(-rate * time), lambda time: -rate * math.exp(-rate * time)
    start = 10 ** random.uniform(-3, -1)
    return lambda time: -math.log(time + start), lambda time: -1 / (time + start)
