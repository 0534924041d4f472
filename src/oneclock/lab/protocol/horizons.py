"""The useful horizon T_ES of every experiment: given, from its curves by one of two conventions, or planned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from oneclock.horizon import Curve
from oneclock.horizon.early_stop import Convention, mean_early_stop, one_digit
from oneclock.lab.experiments.aliases import experiment_of_paper
from oneclock.runs import table
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweep, Sweeps
from oneclock.stats.exponents import planned_steps

if TYPE_CHECKING:
    import pandas as pd

HorizonSource = Literal["given", "stop", "best", "budget"]
"""The source of a horizon: the table's t_es, the curves by one of the two conventions, or the planned steps."""


@dataclass(frozen=True)
class Horizons:
    """T_ES of one experiment from every source; `used` is the one for the rules, and `source` says which one it is.

    `stop` and `best` are rounded to one significant digit by the two conventions, `raw_stop` and `raw_best` are not.
    """

    used: float
    source: HorizonSource
    given: float | None
    stop: float | None
    best: float | None
    raw_stop: float | None
    raw_best: float | None


def read_protocol(source: str | Path | pd.DataFrame | Mapping[str, Sequence[Any]]) -> Sweeps:
    """A study from any source that `oneclock.stats.read` takes.

    An experiment of the paper without T_ES, budget and curves gets those that the paper prints, and `missing` says so.

    >>> columns = {"experiment": ["ViT-B/16, CIFAR-100"], "beta": [0.9], "min_val_loss": [1]}
    >>> study = read_protocol(columns)
    >>> study.sweeps[0].t_es, study.sweeps[0].budget, study.missing[0]
    (20000, 19500, "T_ES and budget are the paper's, because the table has neither: ViT-B/16, CIFAR-100")
    """
    study = table.read_source(source)
    filled = tuple(map(_with_the_papers, study.sweeps))
    names = [new.name for old, new in zip(study.sweeps, filled, strict=True) if new is not old]
    if not names:
        return study
    sentence = f"T_ES and budget are the paper's, because the table has neither: {'; '.join(names)}"
    return Sweeps(filled, (*study.missing, sentence))


def _with_the_papers(sweep: Sweep) -> Sweep:
    if sweep.t_es is not None or sweep.budget is not None or any(run.val is not None for run in sweep.tied):
        return sweep
    facts = experiment_of_paper(sweep.name)
    return sweep if facts is None else replace(sweep, t_es=facts.t_es, budget=facts.budget)


def horizon_of(sweep: Sweep, convention: Convention) -> tuple[float, float] | None:
    """(T_ES to one digit, unrounded) from the two best betas; None without curves.

    >>> from oneclock.runs.table import read_source
    >>> table = {"experiment": "aa", "budget": [1500] * 2, "beta": [0.9] * 2, "step": [500, 1000], "val_loss": [2, 1]}
    >>> horizon_of(read_source(table).sweeps[0], "stop")
    (1000, 1000.0)
    """
    best, budget = _two_best(sweep), planned_steps(sweep)
    if best is None or budget is None:
        return None
    raw = mean_early_stop(best, budget, convention)
    return (one_digit(raw), raw) if raw > 0 else None


def horizons_of(sweep: Sweep) -> Horizons:
    """Every horizon of a sweep; the table's t_es is used before the curves', those before the budget."""
    stop, best, budget = horizon_of(sweep, "stop"), horizon_of(sweep, "best"), planned_steps(sweep)
    values: dict[HorizonSource, float | None] = {"given": sweep.t_es, "stop": stop and stop[0], "budget": budget}
    known = [(source, value) for source, value in values.items() if value is not None]
    if not known:
        raise ValueError(
            f"{sweep.name}: its horizon is not known; give t_es or budget, or curves with step and val_loss"
        )
    source, used = known[0]
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
    """The curves of the two betas with the lowest L; None if one of their runs has none."""
    by_beta: dict[float, list[RunRecord]] = {}
    for run in sweep.tied:
        if run.best_loss is not None:
            by_beta.setdefault(run.tied_beta, []).append(run)
    best = sorted(by_beta, key=lambda beta: (_mean(by_beta[beta]), beta))[:2]
    curves = {beta: [run.val for run in by_beta[beta] if run.val is not None] for beta in best}
    return curves if all(len(kept) == len(by_beta[beta]) for beta, kept in curves.items()) else None


def _mean(runs: Sequence[RunRecord]) -> float:
    return math.fsum(run.best_loss or 0.0 for run in runs) / len(runs)
