"""One experiment's result: its sweep with error bars, gaps with intervals, times to target, baselines beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from oneclock.analysis.arena import Ground
from oneclock.analysis.bootstrap import basic_interval, gap_intervals, noise_floors
from oneclock.analysis.horizons import budget_of
from oneclock.analysis.picks import is_near, picks, rule_betas
from oneclock.analysis.surface import surface_of
from oneclock.analysis.values import (
    ArmPoint,
    BetaPoint,
    ExperimentResult,
    Horizons,
    RuleCost,
    SeedRun,
    Stability,
    TimeToTarget,
)
from oneclock.horizon import early_stop
from oneclock.rule import RECOMMENDED, Refresh, Rule
from oneclock.study.best import LEVEL, Interval, best_of_sweep, distance
from oneclock.study.losses import TARGET, error_bars, losses_of, relative_gaps, time_to_target
from oneclock.study.sweeps import Sweep, Trial


def experiment_results(
    swept: Sequence[Sweep],
    sweeps: Sequence[Sweep],
    horizons: Sequence[Horizons],
    ground: Ground,
    rule: Refresh,
    given: Sequence[Rule],
    stability: Sequence[Stability],
    seed: int,
) -> tuple[ExperimentResult, ...]:
    """Every experiment's result, in the order of the sweeps: `swept` with all rates, `sweeps` at each beta's best."""
    intervals = gap_intervals(ground.losses, ground.resamples)
    floors, _ = noise_floors(ground.losses, ground.resamples)
    betas = rule_betas(rule, ground.horizons)
    stable = {row.experiment: row for row in stability}
    beside = _beside(rule, given)
    results = []
    for row, (whole, sweep, horizon) in enumerate(zip(swept, sweeps, horizons, strict=True)):
        points = _points(sweep, row, ground, intervals[row], whole.has_rates)
        oracle, best = points[int(ground.losses.oracle[row])], best_of_sweep(whole)
        chosen = stable.get(sweep.name)
        none = () if chosen else (f"{sweep.name}: {rule.name} has no beta for a horizon of {horizon.used:g} steps",)
        results.append(
            ExperimentResult(
                name=sweep.name,
                split=sweep.split,
                budget=budget_of(sweep),
                t_es=None if horizon.source == "budget" else horizon.used,
                horizons=horizon,
                best_beta=best.beta,
                best_interval=best.interval,
                tied_with=best.tied_with,
                best_word=best.word,
                best_rate=best.rate,
                best_at_end=best.at_end,
                surface=surface_of(whole, seed=seed),
                rules=tuple(_cost(name, one, horizon.used, points) for name, one in beside),
                oracle_beta=oracle.beta,
                oracle_loss=oracle.loss,
                rule_beta=float(betas[row]) if chosen else None,
                selected_beta=chosen.beta if chosen else None,
                selected_gap=next((point.gap for point in points if chosen and point.beta == chosen.beta), None),
                stable_from=chosen.lower if chosen else None,
                stable_to=chosen.upper if chosen else None,
                noise_floor=floors[row],
                gaps=points,
                arms=tuple(_arms(sweep, whole.has_rates)),
                missing=(*sweep.missing, *none),
            )
        )
    return tuple(results)


def _beside(rule: Refresh, given: Sequence[Rule]) -> list[tuple[str, Rule]]:
    """The recommendation and the paper's rule by these names, then what a person asked for by its own."""
    usual: list[tuple[str, Rule]] = [("recommended", RECOMMENDED), ("paper", Refresh())]
    return usual + [(one.name, one) for one in (rule, *given) if one not in (RECOMMENDED, Refresh())]


def _cost(name: str, rule: Rule, horizon: float, points: Sequence[BetaPoint]) -> RuleCost:
    (beta,) = rule_betas(rule, [horizon]).tolist()
    (place,) = picks(rule, [horizon], np.array([[point.beta for point in points]]))
    if place < 0:
        return RuleCost(name, None if math.isnan(beta) else beta, None, None, None, False)
    point = points[place]
    return RuleCost(name, beta, point.beta, point.gap, point.interval, is_near(beta, point.beta))


def _points(
    sweep: Sweep, row: int, ground: Ground, intervals: Sequence[Interval | None], has_rates: bool
) -> tuple[BetaPoint, ...]:
    losses = ground.losses
    gaps, oracle = losses.gaps[row], int(losses.oracle[row])
    train = losses_of([sweep], "min_train_loss").loss[0]
    train_gaps = relative_gaps(train) if 0 < train.min() < np.inf else np.full(len(train), np.nan)
    runs = {beta: [trial for trial in sweep.tied if trial.beta == beta] for beta in sweep.betas}
    target = TARGET * float(losses.loss[row, oracle])
    times = {beta: time_to_target(trials, target) for beta, trials in runs.items()}
    base = times[sweep.betas[oracle]]
    points = []
    for place, (beta, trials) in enumerate(runs.items()):
        minima = [trial.min_val_loss for trial in trials if trial.min_val_loss is not None]
        below, above = error_bars(minima) or (None, None)
        points.append(
            BetaPoint(
                beta=beta,
                gap=float(gaps[place]),
                interval=intervals[place],
                loss=float(losses.loss[row, place]),
                below=below,
                above=above,
                seeds=len(minima),
                train_loss=_finite(train[place]),
                train_gap=_finite(train_gaps[place]),
                target=_target(times[beta], base),
                runs=tuple(_run(trial, budget_of(sweep)) for trial in trials),
                rate=trials[0].rate if has_rates else None,
            )
        )
    return tuple(points)


def _arms(sweep: Sweep, has_rates: bool) -> Iterator[ArmPoint]:
    """The untied baselines, each with its gap to the best tied beta."""
    for beta1, beta2 in sorted({(trial.beta, trial.beta2) for trial in sweep.untied if trial.beta2 is not None}):
        trials = [trial for trial in sweep.untied if (trial.beta, trial.beta2) == (beta1, beta2)]
        minima = [trial.min_val_loss for trial in trials if trial.min_val_loss is not None]
        gap, drawn = distance(sweep, (beta1, beta2))
        yield ArmPoint(
            name=f"betas ({beta1:g}, {beta2:g})",
            beta1=beta1,
            beta2=beta2,
            gap=gap,
            interval=basic_interval(gap, drawn, LEVEL, floor=-1.0),
            loss=math.fsum(minima) / len(minima) if minima else math.inf,
            seeds=len(minima),
            runs=tuple(_run(trial, budget_of(sweep)) for trial in trials),
            rate=trials[0].rate if has_rates else None,
        )


def _run(trial: Trial, budget: float | None) -> SeedRun:
    stop = None if trial.val is None else early_stop(trial.val, budget)
    return SeedRun(trial.seed, trial.min_val_loss, trial.min_train_loss, stop)


def _target(times: Sequence[float] | None, base: Sequence[float] | None) -> TimeToTarget | None:
    if times is None or base is None:
        return None
    steps, own = statistics.median_high(times), statistics.median_high(base)
    ratio = steps / own if math.isfinite(steps) and math.isfinite(own) and own > 0 else None
    return TimeToTarget(_finite(steps), ratio, sum(map(math.isfinite, times)), len(times))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
