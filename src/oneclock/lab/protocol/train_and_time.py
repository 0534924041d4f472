"""Two claims of the paper's introduction that none of its tables shows: train robustness and time to target.

Train robustness is the gap on the training loss of the beta that a rule picks. Its time to target is that of 1.01 times
the best validation loss, over the oracle's own. Both are summed up over experiments as validation gaps are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from oneclock.lab.protocol.data import ProtocolData, index_of
from oneclock.lab.protocol.losses import TARGET, losses_of, steps_to_target
from oneclock.lab.protocol.resampling import resample
from oneclock.lab.protocol.risk import Estimate, ProtocolRow, central
from oneclock.runs.best import judge
from oneclock.runs.paired import Interval, PairedSweep
from oneclock.runs.sweeps import Sweep
from oneclock.stats.experiments import FittedSweep
from oneclock.stats.exponents import planned_steps
from oneclock.stats.rules import Outcome, RuleComparison, compare, mean_max_cvar
from oneclock.stats.verdict import comparison_words


@dataclass(frozen=True)
class TimeRisk:
    """Times to target of one rule over a set of experiments, in units of the oracle's own (1 is as fast).

    In `reached` of `answered` experiments the rule's beta reaches the target. The others count with their whole budget:
    the figures are then lower bounds without an interval. Intervals are over experiments alone.
    """

    answered: int
    reached: int
    mean: Estimate
    max: Estimate
    cvar: Estimate


@dataclass(frozen=True)
class TimeRow:
    """A rule's times to target over the oracle's own, in the order of `Analysis.experiments`.

    None if one is not known: no curves, no beta by the rule, or the oracle's own median seed stays above the target.
    `reached` is False if the target is not, and the ratio is that of the whole budget.
    """

    name: str
    ratios: tuple[float | None, ...]
    reached: tuple[bool, ...]
    development: TimeRisk | None
    heldout: TimeRisk | None
    all: TimeRisk | None


@dataclass(frozen=True)
class TrainAndTime:
    """The two claims, for all rules except fixed betas.

    `train` has gaps on the training loss in place of those on the validation loss, where it was recorded; `times` are
    the times to target, where there are curves. Both are empty if no experiment has them. `comparisons` set rules
    against one another on the training loss, where both have a beta; `verdict` says so in words.
    """

    train: tuple[ProtocolRow, ...]
    times: tuple[TimeRow, ...]
    comparisons: tuple[RuleComparison, ...]
    verdict: tuple[str, ...]


def train_and_time_of(
    sweeps: Sequence[Sweep],
    data: ProtocolData,
    rows: Sequence[ProtocolRow],
    seed: int,
) -> TrainAndTime:
    """Both claims for these rules, on the experiments with the needed data. The first three rules are compared."""
    times = _times(sweeps, data, rows)
    with_train = [index for index, sweep in enumerate(sweeps) if _has_train_losses(sweep)]
    if not with_train:
        return TrainAndTime((), times, (), ())
    there = _on_training_losses(sweeps, data, with_train, seed)
    train = tuple(_train_row(there, row, with_train) for row in rows)
    fits = [_fitted_on_train(sweeps[index]) for index in with_train]
    outcomes = [Outcome(row.name, _at(row, with_train).betas) for row in rows[:3]]
    comparisons = compare(list(combinations(outcomes, 2)), fits)
    return TrainAndTime(train, times, comparisons, tuple(comparison_words(comparisons, "training loss")))


def _fitted_on_train(sweep: Sweep) -> FittedSweep:
    """The sweep fitted on its training losses."""
    fit = PairedSweep((run.beta, run.lr, run.seed, run.train_loss) for run in sweep.tied)
    return FittedSweep(sweep, sweep, fit, judge(fit), 0.0)


def _on_training_losses(
    sweeps: Sequence[Sweep], data: ProtocolData, with_train: Sequence[int], seed: int
) -> ProtocolData:
    """The same data with training losses in place of validation losses, of the experiments that have them."""
    losses = losses_of([sweeps[index] for index in with_train], "min_train_loss")
    sets = {name: np.flatnonzero(np.isin(with_train, members)) for name, members in data.sets.items()}
    draws = len(next(iter(data.resamples.uniforms.values())))
    return ProtocolData(
        losses=losses,
        horizons=tuple(data.horizons[index] for index in with_train),
        sets=sets,
        resamples=resample(losses, sets, draws, data.resamples.level, seed),
    )


def _at(row: ProtocolRow, indices: Sequence[int]) -> ProtocolRow:
    """The rule's picks in these experiments alone."""
    return replace(row, betas=tuple(row.betas[index] for index in indices))


def _has_train_losses(sweep: Sweep) -> bool:
    """Whether every run has one, or diverged, and the smallest allows a relative gap."""
    recorded = all(run.best_train_loss is not None or run.diverged for run in sweep.tied)
    finite = [run.best_train_loss for run in sweep.tied if run.best_train_loss is not None and not run.diverged]
    return recorded and bool(finite) and min(finite) > 0


def _train_row(there: ProtocolData, row: ProtocolRow, with_train: Sequence[int]) -> ProtocolRow:
    index = index_of(there, _at(row, with_train))
    gaps: list[float | None] = [None] * len(row.betas)
    for at, (number, pick) in enumerate(zip(with_train, index, strict=True)):
        gaps[number] = None if pick < 0 else float(there.losses.gaps[at, pick])
    risks = {split: there.risk(index, split) for split in there.sets}
    return ProtocolRow(row.name, row.betas, tuple(gaps), **risks)


def _times(sweeps: Sequence[Sweep], data: ProtocolData, rows: Sequence[ProtocolRow]) -> tuple[TimeRow, ...]:
    targets = [times_to_target(sweep) for sweep in sweeps]
    if not any(targets):
        return ()
    return tuple(_time_row(sweeps, targets, data, row) for row in rows)


def times_to_target(sweep: Sweep) -> dict[float, float]:
    """The median steps of each beta to 1.01 * min L, infinite if the median seed never gets there.

    Empty if the best beta has no curves; the other betas without curves are left out.
    """
    losses = losses_of([sweep])
    oracle = int(losses.oracle[0])
    target, times = TARGET * float(losses.loss[0, oracle]), {}
    for beta in sweep.betas:
        steps = steps_to_target([run for run in sweep.tied if run.beta == beta], target)
        if steps is not None:
            times[beta] = statistics.median_high(steps)
    return times if sweep.betas[oracle] in times else {}


def _time_row(
    sweeps: Sequence[Sweep], targets: Sequence[dict[float, float]], data: ProtocolData, row: ProtocolRow
) -> TimeRow:
    oracles = [sweep.betas[int(index)] for sweep, index in zip(sweeps, data.losses.oracle, strict=True)]
    times = [_ratio(*one) for one in zip(sweeps, targets, oracles, row.betas, strict=True)]
    ratios, reached = tuple(ratio for ratio, _ in times), tuple(there for _, there in times)
    risks = {split: _time_risk(ratios, reached, data, split) for split in data.sets}
    return TimeRow(row.name, ratios, reached, **risks)


def _ratio(sweep: Sweep, times: dict[float, float], oracle: float, beta: float | None) -> tuple[float | None, bool]:
    """A beta's time over the oracle's, and whether it reaches the target: else the time is that of the whole budget."""
    own, budget = times.get(oracle, 0.0), planned_steps(sweep)
    if not 0 < own < math.inf or beta not in times or budget is None:
        return None, False
    reached = math.isfinite(times[beta])
    return (times[beta] if reached else budget) / own, reached


def _time_risk(
    ratios: Sequence[float | None], reached: Sequence[bool], data: ProtocolData, split: str
) -> TimeRisk | None:
    members = [index for index in data.sets[split] if ratios[index] is not None]
    if not members:
        return None
    measured, there = np.array([ratios[index] for index in members], float), sum(reached[index] for index in members)
    level, count = data.resamples.level, len(members)
    bounds: list[Interval | None] = [None] * 3
    if there == count > 1:
        drawn = measured[(data.resamples.uniforms[split][:, :count] * count).astype(np.intp)]
        low, high = central(mean_max_cvar(drawn), level, axis=1)
        bounds = [Interval(float(one), float(two), level) for one, two in zip(low, high, strict=True)]
    mean, largest, tail = (
        Estimate(float(value), None, bound) for value, bound in zip(mean_max_cvar(measured), bounds, strict=True)
    )
    return TimeRisk(count, there, mean, largest, tail)
