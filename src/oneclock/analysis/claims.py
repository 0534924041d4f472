"""What the paper's introduction claims and no table of it shows: train robustness, and preserved time to target.

Train robustness is the gap on the training loss of the beta that a rule picks. Its time to target is that of 1.01 times
the best validation loss, over the oracle's own. Both are summed up over experiments as validation gaps are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oneclock.analysis.arena import Ground
from oneclock.analysis.bootstrap import resample
from oneclock.analysis.risk import central, figures
from oneclock.analysis.values import Claims, Estimate, ExperimentResult, RuleRow, TimeRisk, TimeRow
from oneclock.study.best import Interval
from oneclock.study.losses import losses_of
from oneclock.study.sweeps import Sweep


def claims_of(
    sweeps: Sequence[Sweep], experiments: Sequence[ExperimentResult], ground: Ground, rows: Sequence[RuleRow], seed: int
) -> Claims:
    """Both claims for these rules, on the experiments that have what they need."""
    return Claims(_train(sweeps, ground, rows, seed), _times(experiments, ground, rows))


def _train(sweeps: Sequence[Sweep], ground: Ground, rows: Sequence[RuleRow], seed: int) -> tuple[RuleRow, ...]:
    known = [place for place, sweep in enumerate(sweeps) if _has_train_losses(sweep)]
    if not known:
        return ()
    losses = losses_of([sweeps[place] for place in known], "min_train_loss")
    sets = {name: np.flatnonzero(np.isin(known, members)) for name, members in ground.sets.items()}
    draws = len(next(iter(ground.resamples.places.values())))
    there = Ground(
        losses=losses,
        train_gaps=None,
        horizons=tuple(ground.horizons[place] for place in known),
        sets=sets,
        resamples=resample(losses, sets, draws, ground.resamples.level, seed),
    )
    return tuple(_train_row(there, row, known) for row in rows)


def _has_train_losses(sweep: Sweep) -> bool:
    """Whether every run has one, or diverged, and the smallest allows a relative gap."""
    recorded = all(trial.min_train_loss is not None or trial.diverged for trial in sweep.tied)
    finite = [trial.min_train_loss for trial in sweep.tied if trial.min_train_loss is not None and not trial.diverged]
    return recorded and bool(finite) and min(finite) > 0


def _train_row(there: Ground, row: RuleRow, known: Sequence[int]) -> RuleRow:
    betas = [row.betas[place] for place in known]
    index = np.array(
        [
            -1 if beta is None else int(np.searchsorted(grid, beta))
            for grid, beta in zip(there.losses.betas, betas, strict=True)
        ]
    )
    gaps: list[float | None] = [None] * len(row.betas)
    for at, (place, pick) in enumerate(zip(known, index, strict=True)):
        gaps[place] = None if pick < 0 else float(there.losses.gaps[at, pick])
    risks = {split: there.risk(index, split) for split in there.sets}
    return RuleRow(row.name, row.horizon, row.chosen_by, row.betas, tuple(gaps), **risks)


def _times(experiments: Sequence[ExperimentResult], ground: Ground, rows: Sequence[RuleRow]) -> tuple[TimeRow, ...]:
    if all(point.target is None for result in experiments for point in result.gaps):
        return ()
    return tuple(_time_row(experiments, ground, row) for row in rows)


def _time_row(experiments: Sequence[ExperimentResult], ground: Ground, row: RuleRow) -> TimeRow:
    ratios = tuple(_ratio(result, beta) for result, beta in zip(experiments, row.betas, strict=True))
    risks = {split: _time_risk(ratios, ground, split) for split in ground.sets}
    return TimeRow(row.name, ratios, **risks)


def _ratio(result: ExperimentResult, beta: float | None) -> float | None:
    """Infinite where the beta never reaches the target; None where that is not known, or the oracle has no time."""
    targets = {point.beta: point.target for point in result.gaps}
    own, target = targets[result.oracle_beta], targets.get(beta) if beta is not None else None
    if own is None or own.steps is None or target is None:
        return None
    return target.ratio if target.steps is not None else math.inf


def _time_risk(ratios: Sequence[float | None], ground: Ground, split: str) -> TimeRisk | None:
    known = np.array([ratio for place in ground.sets[split] if (ratio := ratios[place]) is not None])
    if not len(known):
        return None
    level, draws = ground.resamples.level, ground.resamples.places[split]
    members = (draws[:, : len(known)] * len(known)).astype(np.intp)
    bounds = zip(*central(figures(known[members]), level, axis=1), strict=True) if len(known) > 1 else [None] * 3
    mean, largest, tail = (
        Estimate(float(value), None, None if bound is None else Interval(float(bound[0]), float(bound[1]), level))
        for value, bound in zip(figures(known), bounds, strict=True)
    )
    return TimeRisk(len(known), int(np.isfinite(known).sum()), mean, largest, tail)
