"""The paper's early stop, and T_ES from it, exactly as the paper defines them. Pure Python.

They are for the paper's tables. One noisy evaluation can end a run too early here; use `oneclock.horizon.useful` to
find out how long training stayed useful.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from statistics import fmean
from typing import Literal

from oneclock.horizon.curve import Curve
from oneclock.rule import int_if_whole

Convention = Literal["stop", "best"]
"""The paper's early-stopping time may be where the patience ran out, or the best loss before. `stop` is the default."""


@dataclass(frozen=True)
class EarlyStop:
    """Where training would have stopped: `stop` and `best` in steps; `ran_out` if the patience did."""

    stop: float
    best: float
    ran_out: bool

    def at(self, convention: Convention) -> float:
        """The early-stopping step under one of the two conventions."""
        if convention not in ("stop", "best"):
            raise ValueError(f"convention must be 'stop' or 'best', got {convention!r}")
        return self.stop if convention == "stop" else self.best


def early_stop(curve: Curve, budget: float | None = None, patience: float | None = None) -> EarlyStop:
    """Stop at the first evaluation `patience` steps after the best, or at the last evaluation.

    `budget` is the planned length in steps (default: the last step), `patience` a number of steps (default: a tenth of
    the budget).

    >>> early_stop(Curve([100, 200, 300, 400], [2.0, 1.5, 1.7, 1.6]), budget=1000)
    EarlyStop(stop=300, best=200, ran_out=True)
    """
    budget = curve.steps[-1] if budget is None else budget
    patience = budget / 10 if patience is None else patience
    if not (math.isfinite(patience) and patience > 0):
        raise ValueError(f"patience must be a finite number of steps above 0, got {patience!r}; check the budget")
    best_step, lowest, last = curve.best_step, math.inf, math.inf
    for step, loss in zip(curve.steps, curve.losses, strict=True):
        if -math.inf < loss < lowest:
            best_step, lowest, last = step, loss, step + patience
        elif step >= last:
            return EarlyStop(stop=step, best=best_step, ran_out=True)
    return EarlyStop(stop=curve.steps[-1], best=best_step, ran_out=False)


def mean_best_loss(seeds: Sequence[Curve]) -> float:
    """L(beta): the mean over seeds of each seed's smallest validation loss."""
    if not seeds:
        raise ValueError("L(beta) needs at least one curve")
    return fmean(curve.best_loss for curve in seeds)


def effective_horizon(
    curves: Mapping[float, Sequence[Curve]], budget: float, convention: Convention = "stop"
) -> int | float:
    """T_ES of one experiment: the `mean_early_stop` of its curves, to one significant digit. It may exceed the budget.

    `curves` are validation curves by beta, one per seed, and `budget` is the planned length in steps.

    >>> good, bad = Curve([500, 1000], [2.0, 1.0]), Curve([500, 1000], [4.0, 5.0])
    >>> effective_horizon({0.9: [good], 0.99: [bad]}, budget=1000)
    1000
    """
    return one_digit(mean_early_stop(curves, budget, convention))


def mean_early_stop(curves: Mapping[float, Sequence[Curve]], budget: float, convention: Convention = "stop") -> float:
    """The early-stopping step, not rounded: the mean over seeds of the two betas with the lowest L, averaged."""
    if not curves:
        raise ValueError("T_ES needs the curves of at least one beta")
    best = sorted(curves, key=lambda beta: (mean_best_loss(curves[beta]), beta))[:2]
    return fmean(fmean(early_stop(curve, budget).at(convention) for curve in curves[beta]) for beta in best)


def one_digit(steps: float) -> int | float:
    """`steps` rounded to one significant digit, halves up."""
    if not (math.isfinite(steps) and steps > 0):
        raise ValueError(f"steps must be a finite number above 0, got {steps!r}")
    exact = Decimal(repr(float(steps)))
    return int_if_whole(float(exact.quantize(Decimal(1).scaleb(exact.adjusted()), rounding=ROUND_HALF_UP)))
