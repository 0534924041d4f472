"""How sure an early stop is: one run's stop and best, and how far noise and sparse evaluations could move them.

Plain Python, as a browser has it: the same curve has the same interval wherever it is read.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

from oneclock.horizon import Curve, EarlyStop, early_stop

FEWEST = 8
"""Evaluations below which noise cannot be told from the curve."""

_OUTSIDE = 0.05  # share of redrawn curves left out at each end of the interval


@dataclass(frozen=True)
class RunHorizon:
    """One run's early stop in its log's unit. `low` to `high` is where the stop may lie.

    `high` is None where it has no end: the curve, or one in twenty as noisy, still improved at its end, or noise hides
    the turn. Both are None where there are too few evaluations. `noise` is the spread of one evaluation's loss.
    """

    name: str
    evaluations: int
    length: float
    spacing: float
    stop: float
    best: float
    best_loss: float
    ran_out: bool
    noise: float | None
    low: float | None
    high: float | None


def run_horizon(name: str, curve: Curve, budget: float) -> RunHorizon:
    """The early stop of one curve, with patience a tenth of `budget`, and how sure it is.

    >>> curve = Curve(range(100, 2100, 100), [abs(step - 1000) / 1000 for step in range(100, 2100, 100)])
    >>> found = run_horizon("a", curve, budget=2000)
    >>> found.stop, found.best, found.low, found.high
    (1200, 1000, 1100, 1200)
    """
    seen = early_stop(curve, budget)
    gaps = [after - before for before, after in pairwise(curve.steps)]
    noise, low, high = None, None, None
    if sum(map(math.isfinite, curve.losses)) >= FEWEST:
        trend, residuals = _trend([loss for loss in curve.losses if math.isfinite(loss)])
        noise = _finite(1.4826 * median(map(abs, residuals)))
        low, high = _interval(curve, budget, trend, residuals)
        before = gaps[max(curve.steps.index(seen.stop) - 1, 0)]  # it ran out somewhere since the last evaluation
        low = max(_tidy(min(low, seen.stop) - (before if seen.ran_out else 0)), 0)
        ended = high is not None and seen.ran_out and not _hidden(curve, seen, trend, noise)
        high = _tidy(max(high, seen.stop)) if high is not None and ended else None
    return RunHorizon(
        name=name,
        evaluations=len(curve.steps),
        length=curve.steps[-1],
        spacing=_tidy(median(gaps)) if gaps else curve.steps[-1],
        stop=seen.stop,
        best=seen.best,
        best_loss=curve.best_loss,
        ran_out=seen.ran_out,
        noise=noise,
        low=low,
        high=high,
    )


def _trend(losses: Sequence[float]) -> tuple[list[float], list[float]]:
    """A smooth curve through finite losses (a moving mean over a twentieth of them), and how far each lies off.

    The distance is from the line between a loss's two neighbours, which a slope does not enter; its variance is 3/2
    of the noise's.
    """
    count, half = len(losses), max(len(losses) // 40, 1)
    sums = [0.0, *(total * count for total in accumulate(loss / count for loss in losses))]
    reaches = [min(at, count - 1 - at, half) for at in range(count)]
    trend = [(sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1) for at, reach in enumerate(reaches)]
    threes = zip(losses, losses[1:], losses[2:], strict=False)
    residuals = [(here - before / 2 - after / 2) * math.sqrt(2 / 3) for before, here, after in threes]
    usable = all(map(math.isfinite, [*trend, *residuals]))
    return (trend, residuals) if usable else (list(losses), [0.0] * len(residuals))


def _interval(
    curve: Curve, budget: float, trend: Sequence[float], residuals: Sequence[float]
) -> tuple[float, float | None]:
    """Where the stop falls when each loss's distance from the trend is drawn anew from those near it."""
    generator = random.Random(0)
    count, last = len(trend), len(residuals) - 1
    draws = max(20, min(200, 400_000 // count))
    reach = max(10, count // 20)
    stops, open_ended = [], 0
    for _ in range(draws):
        shifts = generator.choices(range(-reach, reach + 1), k=count)
        signs = generator.choices((-1.0, 1.0), k=count)
        near = (min(max(at + shift - 1, 0), last) for at, shift in enumerate(shifts))
        drawn = (level + sign * residuals[place] for level, sign, place in zip(trend, signs, near, strict=True))
        losses = [next(drawn) if math.isfinite(loss) else loss for loss in curve.losses]
        found = early_stop(Curve(curve.steps, losses), budget)
        stops.append(found.stop)
        open_ended += not found.ran_out
    stops.sort()
    low, high = (stops[round(share * (draws - 1))] for share in (_OUTSIDE, 1 - _OUTSIDE))
    return low, None if open_ended > _OUTSIDE * draws else high


def _hidden(curve: Curve, seen: EarlyStop, trend: Sequence[float], noise: float | None) -> bool:
    """Whether both the gain on the later half of the way to the best and the rise since are within twice the noise."""
    steps = [step for step, loss in zip(curve.steps, curve.losses, strict=True) if math.isfinite(loss)]
    best, end = steps.index(seen.best), sum(step <= seen.stop for step in steps) - 1
    return noise is None or 2 * noise > max(trend[best // 2] - trend[best], trend[end] - trend[best], 0)


def _tidy(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
