"""A study -> everything there is to say about it, as one frozen value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oneclock.analysis import calibration as calibrating
from oneclock.analysis import robustness as stress
from oneclock.analysis import verdict
from oneclock.analysis.arena import Ground, best_fixed, compare, swept
from oneclock.analysis.bootstrap import DRAWS, resample
from oneclock.analysis.horizons import budget_of, horizons_of
from oneclock.analysis.introduction import introduction_of
from oneclock.analysis.outcome import experiment_results
from oneclock.analysis.series import series_of
from oneclock.analysis.sources import read
from oneclock.analysis.values import Analysis, Calibration, Horizons, Robustness, RuleRow, Stability, Summary
from oneclock.rule import RECOMMENDED, REFRESHES, Fixed, Power, Refresh, Rule
from oneclock.study.best import at_best_rates
from oneclock.study.losses import losses_of, relative_gaps
from oneclock.study.sweeps import Sweep, Sweeps

if TYPE_CHECKING:
    import pandas as pd


def analyse(
    study: Sweeps | str | Path | pd.DataFrame | Mapping[str, Sequence[Any]],
    refreshes: float = REFRESHES,
    candidates: Sequence[float] | None = None,
    fixed: float | None = None,
    rules: Sequence[Rule] = (),
    draws: int = DRAWS,
    repeats: int = stress.REPEATS,
    seed: int = 0,
) -> Analysis:
    """The whole analysis of a study; equal data and equal arguments give an equal value.

    Args:
        study: A study's folder, a CSV, TSV or Parquet file of runs, a DataFrame or a mapping of columns; or what `read`
            made of one.
        refreshes: R0 of the refresh rule that selects beta.
        candidates: The values of R0 to calibrate over (default: the paper's).
        fixed: The beta to compare with (default: the one with the smallest development mean).
        rules: Other rules to put side by side with them.
        draws: Of the bootstrap.
        repeats: Of the noise study.
        seed: Of both.

    Returns:
        An `Analysis`: per experiment the best beta with its interval, gaps, arms and what rules would have cost; over
        all of them calibration, robustness and rules side by side.

    Raises:
        ValueError: Where the source cannot be read, holds nothing to analyse, or was not swept at a given fixed beta.

    >>> table = {"experiment": "aaabbb", "budget": [10_000] * 6, "beta": [0, 0.9, 0.99] * 2,
    ...          "min_val_loss": [3, 1, 2, 3, 2, 4]}
    >>> analysis = analyse(table, draws=10, repeats=10)
    >>> [(e.oracle_beta, e.selected_beta) for e in analysis.experiments], analysis.summary.refresh.all.max.value
    ([(0.9, 0.9), (0.9, 0.9)], 0.0)
    """
    study = study if isinstance(study, Sweeps) else read(study)
    sweeps = [at_best_rates(sweep) for sweep in study.sweeps]
    horizons = [horizons_of(sweep) for sweep in sweeps]
    ground = ground_of(sweeps, horizons, draws, seed)
    rule = Refresh(refreshes)
    for one in (*rules, *([] if fixed is None else [Fixed(fixed)])):
        _refuse_unswept(one, ground)
    names, splits = [sweep.name for sweep in sweeps], [sweep.split for sweep in sweeps]
    intervals = stress.stability(ground, rule, names, splits)
    experiments = experiment_results(study.sweeps, sweeps, horizons, ground, rule, rules, intervals, seed)
    robustness = Robustness(
        stability=intervals,
        mean_width=stress.mean_width(intervals),
        noise=stress.noise_study(ground, rule, repeats=repeats, seed=seed),
        conventions=tuple(stress.conventions(sweeps, ground, rule)),
    )
    calibration = calibrating.calibrate(ground, names, candidates)
    calibrators = len(ground.sets["development"]) or len(sweeps)
    calibration = dataclasses.replace(calibration, verdict=tuple(verdict.calibration_verdict(calibration, calibrators)))
    recommended = ground.row(RECOMMENDED, name="recommended")
    arena = _arena(ground, rule, calibration, horizons, [budget_of(sweep) for sweep in sweeps], rules)
    summary = _summary(ground, rule, rules, fixed, intervals)
    more_than_one_beta = [recommended, *arena[: -len(swept(ground))]]
    rivals = [summary.refresh, recommended, summary.fixed]
    return Analysis(
        experiments=experiments,
        recommended=recommended,
        summary=summary,
        calibration=calibration,
        robustness=robustness,
        arena=arena,
        introduction=introduction_of(sweeps, experiments, ground, more_than_one_beta, rivals, seed),
        series=series_of(study.sweeps, horizons, seed=seed),
        missing=(
            *study.missing,
            *verdict.missing_everywhere(experiments),
            *(m for e in experiments for m in e.missing),
        ),
    )


def _summary(
    ground: Ground, rule: Refresh, rules: Sequence[Rule], fixed: float | None, intervals: Sequence[Stability]
) -> Summary:
    """The refresh rule beside a fixed beta, and every given rule against the others."""
    beside = ground.row(best_fixed(ground, "mean"), chosen_by="mean") if fixed is None else ground.row(Fixed(fixed))
    own = tuple(ground.row(one) for one in rules)
    pairs = combinations([ground.row(rule), *own], 2)
    given = tuple(found for first, second in pairs for found in compare(ground, second, first, "all"))
    summary = Summary(rule.refreshes, ground.row(rule), beside, own, given, ())
    return dataclasses.replace(summary, verdict=tuple(verdict.summary_verdict(summary, intervals)))


def _refuse_unswept(rule: Rule, ground: Ground) -> None:
    """ValueError for a fixed beta that no experiment was swept at: it is never taken for another one."""
    if isinstance(rule, Fixed) and rule.beta not in (known := swept(ground)):
        few = ", ".join(f"{beta:g}" for beta in sorted(known, key=lambda beta: abs(beta - rule.beta))[:5])
        raise ValueError(f"no experiment was swept at beta {rule.beta:g}; give a fixed beta that was (nearest: {few})")


def ground_of(sweeps: Sequence[Sweep], horizons: Sequence[Horizons], draws: int = DRAWS, seed: int = 0) -> Ground:
    """What every rule meets: the arrays of the sweeps, their split, and the resampled draws."""
    losses = losses_of(sweeps)
    train = losses_of(sweeps, "min_train_loss")
    swept_at = train.loss[~np.isnan(losses.betas)]
    everywhere = bool((np.isfinite(swept_at) & (swept_at > 0)).all())
    splits = np.array([sweep.split for sweep in sweeps])
    sets = {split: np.flatnonzero(splits == split) for split in ("development", "heldout")}
    sets["all"] = np.arange(len(sweeps))
    return Ground(
        losses=losses,
        train_gaps=relative_gaps(train.loss) if everywhere else None,
        horizons=tuple(horizon.used for horizon in horizons),
        sets=sets,
        resamples=resample(losses, sets, draws, seed=seed),
    )


def as_json(value: Any) -> Any:
    """The value as plain JSON data; what is not finite becomes null."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _arena(
    ground: Ground,
    rule: Refresh,
    calibration: Calibration,
    horizons: Sequence[Horizons],
    budgets: Sequence[float | None],
    rules: Sequence[Rule],
) -> tuple[RuleRow, ...]:
    """Refresh by T_ES, by either convention and by planned steps; the given and calibrated ones; every fixed beta."""
    rows = [ground.row(rule)]
    for source in ("stop", "best"):
        times = [getattr(horizon, source) for horizon in horizons]
        if None not in times and times != list(ground.horizons):
            rows.append(ground.row(rule, times, f"{rule.name}, T_ES by {source}", source))
    planned = [budget for budget in budgets if budget is not None]
    if len(planned) == len(budgets):
        rows.append(ground.row(rule, planned, f"{rule.name}, planned steps", "budget"))
    rows += [ground.row(other, name=f"{other.name}, given") for other in rules]
    if calibration.chosen is not None:
        calibrated = Refresh(calibration.chosen)
        rows.append(ground.row(calibrated, name=f"{calibrated.name}, calibrated", chosen_by="max"))
    if calibration.power_best is not None:
        best = calibration.power_best
        rows.append(ground.row(Power(best.c, best.alpha, calibration.power_t0), chosen_by="max"))
    for figure in ("mean", "max"):
        fixed = best_fixed(ground, figure)
        rows.append(ground.row(fixed, name=f"{fixed.name}, best by {figure}", chosen_by=figure))
    return (*rows, *(ground.row(Fixed(beta)) for beta in swept(ground)))
