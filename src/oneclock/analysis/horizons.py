"""T_ES of a sweep from its own curves, by either convention, rounded and not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oneclock.analysis.values import Horizons, HorizonSource
from oneclock.horizon import Convention, Curve, mean_early_stop, one_digit
from oneclock.study.sweeps import Sweep, Trial


def budget_of(sweep: Sweep) -> float | None:
    """The planned steps: the table's, or the last step of any curve."""
    if sweep.budget is not None:
        return sweep.budget
    return max((trial.val.steps[-1] for trial in sweep.tied if trial.val is not None), default=None)


def horizon_of(
    sweep: Sweep, convention: Convention, patience: float = 0.1, min_delta: float = 0.0
) -> tuple[float, float] | None:
    """(T_ES to one digit, unrounded) from the two best betas; `patience` is a share of the budget; None without curves.

    >>> from oneclock.study.table import read
    >>> table = {"experiment": "aa", "budget": [1500] * 2, "beta": [0.9] * 2, "step": [500, 1000], "val_loss": [2, 1]}
    >>> horizon_of(read(table).sweeps[0], "stop")
    (1000, 1000.0)
    """
    best, budget = _two_best(sweep), budget_of(sweep)
    if best is None or budget is None:
        return None
    steps = round(patience * budget, 6)  # 0.1 * 70 is 7.000000000000001
    raw = mean_early_stop(best, budget, convention, steps, min_delta)
    return (one_digit(raw), raw) if raw > 0 else None


def horizons_of(sweep: Sweep) -> Horizons:
    """Every horizon of a sweep; the table's t_es is used before the curves', those before the budget."""
    stop, best, budget = horizon_of(sweep, "stop"), horizon_of(sweep, "best"), budget_of(sweep)
    known: dict[HorizonSource, float | None] = {"given": sweep.t_es, "stop": stop and stop[0], "budget": budget}
    source = next((source for source, value in known.items() if value is not None), None)
    if source is None:
        raise ValueError(
            f"{sweep.name}: its horizon is not known; give t_es or budget, or curves with step and val_loss"
        )
    used = known[source]
    assert used is not None
    return Horizons(
        used=used,
        source=source,
        given=sweep.t_es,
        stop=stop and stop[0],
        best=best and best[0],
        raw_stop=stop and stop[1],
        raw_best=best and best[1],
    )


def _two_best(sweep: Sweep) -> dict[float, list[Curve]] | None:
    """The curves of the two betas with the lowest L; None where one of their runs has none."""
    by_beta: dict[float, list[Trial]] = {}
    for trial in sweep.tied:
        if trial.min_val_loss is not None:
            by_beta.setdefault(trial.beta, []).append(trial)
    best = sorted(by_beta, key=lambda beta: (_mean(by_beta[beta]), beta))[:2]
    curves = {beta: [trial.val for trial in by_beta[beta] if trial.val is not None] for beta in best}
    return curves if all(len(kept) == len(by_beta[beta]) for beta, kept in curves.items()) else None


def _mean(trials: Sequence[Trial]) -> float:
    return math.fsum(trial.min_val_loss or 0.0 for trial in trials) / len(trials)
