"""What the paper's introduction claims and no table of it shows: train robustness, and preserved time to target.

Train robustness is the gap on the training loss of the beta that a rule picks. Its time to target is that of 1.01 times
the best validation loss, over the oracle's own. Both are summed up over experiments as validation gaps are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from oneclock.analysis.arena import Ground, compare, index_of
from oneclock.analysis.bootstrap import resample
from oneclock.analysis.risk import central, figures
from oneclock.analysis.values import (
    Comparison,
    Estimate,
    ExperimentResult,
    Introduction,
    RuleRow,
    TimeRisk,
    TimeRow,
)
from oneclock.analysis.verdict import told_apart
from oneclock.study.best import Interval
from oneclock.study.losses import losses_of
from oneclock.study.sweeps import Sweep


def introduction_of(
    sweeps: Sequence[Sweep],
    experiments: Sequence[ExperimentResult],
    ground: Ground,
    rows: Sequence[RuleRow],
    rivals: Sequence[RuleRow],
    seed: int,
) -> Introduction:
    """Both claims for these rules, on the experiments that have what they need; `rivals` are compared in pairs."""
    times = _times(experiments, ground, rows)
    known = [place for place, sweep in enumerate(sweeps) if _has_train_losses(sweep)]
    if not known:
        return Introduction((), times, (), ())
    there = _on_training_losses(sweeps, ground, known, seed)
    pairs = combinations([_at(row, known) for row in rivals], 2)
    comparisons = tuple(found for first, second in pairs for found in _compare(there, first, second))
    train = tuple(_train_row(there, row, known) for row in rows)
    return Introduction(train, times, comparisons, tuple(told_apart(comparisons, "training loss")))


def _on_training_losses(sweeps: Sequence[Sweep], ground: Ground, known: Sequence[int], seed: int) -> Ground:
    """The same ground with training losses in place of validation losses, of the experiments that have them."""
    losses = losses_of([sweeps[place] for place in known], "min_train_loss")
    sets = {name: np.flatnonzero(np.isin(known, members)) for name, members in ground.sets.items()}
    draws = len(next(iter(ground.resamples.places.values())))
    return Ground(
        losses=losses,
        train_gaps=None,
        horizons=tuple(ground.horizons[place] for place in known),
        sets=sets,
        resamples=resample(losses, sets, draws, ground.resamples.level, seed),
    )


def _at(row: RuleRow, known: Sequence[int]) -> RuleRow:
    """What the rule picks in these experiments alone."""
    return replace(row, betas=tuple(row.betas[place] for place in known))


def _compare(there: Ground, first: RuleRow, second: RuleRow) -> list[Comparison]:
    """The two on the experiments that both have a beta for."""
    both = np.flatnonzero((index_of(there, first) >= 0) & (index_of(there, second) >= 0))
    return compare(replace(there, sets={"all": both}), first, second, "all")


def _has_train_losses(sweep: Sweep) -> bool:
    """Whether every run has one, or diverged, and the smallest allows a relative gap."""
    recorded = all(trial.min_train_loss is not None or trial.diverged for trial in sweep.tied)
    finite = [trial.min_train_loss for trial in sweep.tied if trial.min_train_loss is not None and not trial.diverged]
    return recorded and bool(finite) and min(finite) > 0


def _train_row(there: Ground, row: RuleRow, known: Sequence[int]) -> RuleRow:
    index = index_of(there, _at(row, known))
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
    found = [_ratio(result, beta) for result, beta in zip(experiments, row.betas, strict=True)]
    ratios, reached = tuple(ratio for ratio, _ in found), tuple(there for _, there in found)
    risks = {split: _time_risk(ratios, reached, ground, split) for split in ground.sets}
    return TimeRow(row.name, ratios, reached, **risks)


def _ratio(result: ExperimentResult, beta: float | None) -> tuple[float | None, bool]:
    """A beta's time over the oracle's, and whether it reaches the target: else the time is that of the whole budget."""
    targets = {point.beta: point.target for point in result.gaps}
    own, target = targets[result.oracle_beta], targets.get(beta) if beta is not None else None
    if own is None or own.steps is None or own.steps <= 0 or target is None or result.budget is None:
        return None, False
    return (result.budget if target.steps is None else target.steps) / own.steps, target.steps is not None


def _time_risk(ratios: Sequence[float | None], reached: Sequence[bool], ground: Ground, split: str) -> TimeRisk | None:
    members = [place for place in ground.sets[split] if ratios[place] is not None]
    if not members:
        return None
    known, there = np.array([ratios[place] for place in members], float), sum(reached[place] for place in members)
    level, count = ground.resamples.level, len(members)
    bounds: list[Interval | None] = [None] * 3
    if there == count > 1:
        drawn = known[(ground.resamples.places[split][:, :count] * count).astype(np.intp)]
        low, high = central(figures(drawn), level, axis=1)
        bounds = [Interval(float(one), float(two), level) for one, two in zip(low, high, strict=True)]
    mean, largest, tail = (
        Estimate(float(value), None, bound) for value, bound in zip(figures(known), bounds, strict=True)
    )
    return TimeRisk(count, there, mean, largest, tail)
