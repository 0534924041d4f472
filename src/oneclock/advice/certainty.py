"""How sure an early stop is: one run's stop and best, and how far noise and sparse evaluations could move them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    gaps = np.diff(np.asarray(curve.steps, dtype=float))
    noise, low, high = None, None, None
    if sum(map(math.isfinite, curve.losses)) >= FEWEST:
        trend, residuals = _trend(np.asarray(curve.losses))
        noise = _finite(1.4826 * float(np.median(np.abs(residuals))))
        low, high = _interval(curve, budget, trend, residuals)
        before = float(gaps[max(curve.steps.index(seen.stop) - 1, 0)])  # it ran out somewhere since the last evaluation
        low = max(_tidy(min(low, seen.stop) - (before if seen.ran_out else 0)), 0)
        ended = high is not None and seen.ran_out and not _hidden(curve, seen, trend, noise)
        high = _tidy(max(high, seen.stop)) if high is not None and ended else None
    return RunHorizon(
        name=name,
        evaluations=len(curve.steps),
        length=curve.steps[-1],
        spacing=_tidy(float(np.median(gaps))) if len(gaps) else curve.steps[-1],
        stop=seen.stop,
        best=seen.best,
        best_loss=curve.best_loss,
        ran_out=seen.ran_out,
        noise=noise,
        low=low,
        high=high,
    )


def _trend(losses: Any) -> tuple[Any, Any]:
    """A smooth curve through the finite losses (a moving mean over a twentieth of them), and how far each lies off.

    The distance is from the line between a loss's two neighbours, which a slope does not enter; its variance is 3/2
    of the noise's.
    """
    finite = losses[np.isfinite(losses)]
    half = max(len(finite) // 40, 1)
    with np.errstate(all="ignore"):
        sums = np.concatenate([[0.0], np.cumsum(finite / len(finite))]) * len(finite)
        at = np.arange(len(finite))
        reach = np.minimum(np.minimum(at, at[::-1]), half)
        trend = (sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1)
        residuals = (finite[1:-1] - finite[:-2] / 2 - finite[2:] / 2) * math.sqrt(2 / 3)
    usable = np.isfinite(trend).all() and np.isfinite(residuals).all()
    return (trend, residuals) if usable else (finite, np.zeros(len(finite) - 2))


def _interval(curve: Curve, budget: float, trend: Any, residuals: Any) -> tuple[float, float | None]:
    """Where the stop falls when each loss's distance from the trend is drawn anew from those near it."""
    generator = np.random.default_rng(0)
    count = len(trend)
    draws = max(20, min(200, 400_000 // count))
    losses = np.asarray(curve.losses)
    finite = np.isfinite(losses)
    reach = max(10, count // 20)
    stops, open_ended = [], 0
    for _ in range(draws):
        near = np.arange(count) + generator.integers(-reach, reach + 1, count)
        noise = residuals[np.clip(near - 1, 0, len(residuals) - 1)] * generator.choice([-1.0, 1.0], count)
        losses[finite] = trend + noise
        found = early_stop(Curve(curve.steps, losses.tolist()), budget)
        stops.append(found.stop)
        open_ended += not found.ran_out
    low, high = np.quantile(stops, [_OUTSIDE, 1 - _OUTSIDE], method="nearest")
    return float(low), None if open_ended > _OUTSIDE * draws else float(high)


def _hidden(curve: Curve, seen: EarlyStop, trend: Any, noise: float | None) -> bool:
    """Whether both the gain on the later half of the way to the best and the rise since are within twice the noise."""
    steps = [step for step, loss in zip(curve.steps, curve.losses, strict=True) if math.isfinite(loss)]
    best, end = steps.index(seen.best), sum(step <= seen.stop for step in steps) - 1
    return noise is None or 2 * noise > max(trend[best // 2] - trend[best], trend[end] - trend[best], 0)


def _tidy(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
