"""The whole analysis of a study, as one frozen value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.rule import RECOMMENDED, REFRESHES, Fixed, Power, Refresh, Rule
from oneclock.runs.best import at_best_lrs
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweeps, losses_of
from oneclock.stats import calibration as calibrating
from oneclock.stats import robustness as stress
from oneclock.stats import verdict
from oneclock.stats.calibration import Calibration
from oneclock.stats.experiments import (
    FittedSweep,
    baseline_points,
    fitted,
    named_rules,
    rule_beta,
    rule_costs,
    sweep_points,
)
from oneclock.stats.exponents import Profiles, Series, profiles_of, series_name, series_of, surface_of
from oneclock.stats.intervals import DRAWS, noise_floors
from oneclock.stats.protocol import ProtocolData, best_fixed, protocol_data, swept
from oneclock.stats.results import ExperimentResult
from oneclock.stats.risk import RuleRow
from oneclock.stats.robustness import Robustness, Stability
from oneclock.stats.rules import Outcome, RuleComparison, compare_all, outcome, rule_row
from oneclock.stats.sources import Horizons, budget_of, horizons_of, read
from oneclock.stats.train_and_time import TrainAndTime, train_and_time_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Summary:
    """The paper's main table: the refresh rule beside a fixed beta, by default the one with the smallest mean gap."""

    refreshes: float
    refresh: RuleRow
    fixed: RuleRow
    verdict: tuple[str, ...]


@dataclass(frozen=True)
class Analysis:
    """Everything that is known about a study.

    Attributes:
        experiments: One result per experiment: its best beta, every beta, baselines, and what rules would have cost.
        recommended: The excess loss of the recommended beta, over all experiments.
        rules: Every rule side by side, each at its own beta for the planned steps.
        comparisons: The recommended beta, the paper's rule, the best fixed beta and the rules given, two at a time.
        summary: The refresh rule and a fixed beta by the paper's protocol.
        calibration: R0 chosen by the paper's protocol, and how far the choice can be trusted.
        robustness: How much the paper's choice depends on T_ES.
        train_and_time: Training losses and times to target of the rules.
        series: How the best beta moves with the length of training, where a study has such a series.
        missing: What was left out or is not known, in words.
    """

    experiments: tuple[ExperimentResult, ...]
    recommended: RuleRow
    rules: tuple[RuleRow, ...]
    comparisons: tuple[RuleComparison, ...]
    summary: Summary
    calibration: Calibration
    robustness: Robustness
    train_and_time: TrainAndTime
    series: tuple[Series, ...]
    missing: tuple[str, ...]

    def __repr__(self) -> str:
        head = f"<Analysis of {verdict.count_of(len(self.experiments), 'experiment')}"
        shown = [f"  {one.name}: {one.best.summary}" for one in self.experiments[:12]]
        more = [f"  .. and {len(self.experiments) - 12} more"] if len(self.experiments) > 12 else []
        return "\n".join([head, *shown, *more]) + ">"


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
    """The whole analysis of a study. Equal data and equal arguments give an equal value.

    Args:
        study: A study's folder, a CSV, TSV or Parquet file of runs, a DataFrame or a mapping of columns; or what `read`
            made of one.
        refreshes: R0 of the refresh rule in the paper's tables.
        candidates: The values of R0 to calibrate over (default: the paper's).
        fixed: The beta to compare with in the paper's tables (default: the one with the smallest development mean).
        rules: Other rules to put side by side: `Refresh`, `Fixed`, `Power`, or any callable of that kind.
        draws: Of the bootstrap.
        repeats: Of the noise study.
        seed: Of both.

    Returns:
        An `Analysis`.

    Raises:
        ValueError: If the source cannot be read, holds nothing to analyse, or was not swept at a given fixed beta.

    >>> table = {"experiment": "aaabbb", "budget": [10_000] * 6, "beta": [0, 0.9, 0.99] * 2,
    ...          "min_val_loss": [3, 1, 2, 3, 2, 4]}
    >>> analysis = analyse(table, draws=10, repeats=10)
    >>> [(e.best.beta, e.selected_beta) for e in analysis.experiments], analysis.summary.refresh.all.max.value
    ([(0.9, 0.9), (0.9, 0.9)], 0.0)
    """
    study = study if isinstance(study, Sweeps) else read(study)
    tuned = [at_best_lrs(sweep) for sweep in study.sweeps]
    horizons = [horizons_of(sweep) for sweep in tuned]
    data = protocol_data(tuned, horizons, draws, seed)
    steps = [budget_of(sweep) or horizon.used for sweep, horizon in zip(tuned, horizons, strict=True)]
    sweeps = [fitted(*one) for one in zip(study.sweeps, tuned, steps, strict=True)]
    _refuse_unmeasured(fixed, rules, data, sweeps)
    profiles = [profiles_of(one) if one.has_lrs or series_name(one) else None for one in study.sweeps]
    rule, names = Refresh(refreshes), [sweep.name for sweep in tuned]
    stable = stress.stability(data, rule, names, [sweep.split for sweep in tuned])
    calibration = calibrating.calibrate(data, sweeps, names, candidates)
    calibrators = len(data.sets["development"]) or len(sweeps)
    calibration = dataclasses.replace(calibration, verdict=tuple(verdict.calibration_verdict(calibration, calibrators)))
    experiments = _experiments(sweeps, profiles, horizons, data, rule, rules, stable)
    outcomes = _outcomes(sweeps, data, rule, calibration, rules)
    rows = [rule_row(one, sweeps, data.sets) for one in outcomes]
    rivals = [one for one in outcomes if one.horizon == "planned" and (one.chosen_by in (None, "mean", "given"))]
    betas = [outcome(Fixed(beta), sweeps) for beta in swept(data)]
    return Analysis(
        experiments=experiments,
        recommended=rows[0],
        rules=(*rows, *(rule_row(one, sweeps, data.sets) for one in betas)),
        comparisons=compare_all(rivals, sweeps, data.sets["all"].tolist()),
        summary=_summary(data, rule, fixed, stable),
        calibration=calibration,
        robustness=Robustness(
            stability=stable,
            mean_width=stress.mean_width(stable),
            noise=stress.noise_study(data, rule, repeats=repeats, seed=seed),
        ),
        train_and_time=train_and_time_of(
            tuned, experiments, data, _protocol_rows(data, rule, calibration, rules), seed
        ),
        series=series_of(study.sweeps, profiles),
        missing=(
            *study.missing,
            *verdict.missing_everywhere(experiments),
            *(m for e in experiments for m in e.missing),
        ),
    )


_NO_BETA = "the paper's rule with R0 = {:g} has no beta for {:,g} steps"


def _experiments(
    sweeps: Sequence[FittedSweep],
    profiles: Sequence[Profiles | None],
    horizons: Sequence[Horizons],
    data: ProtocolData,
    rule: Refresh,
    given: Sequence[Rule],
    stability: Sequence[Stability],
) -> tuple[ExperimentResult, ...]:
    """Every experiment's result, in the order of the sweeps."""
    floors, _ = noise_floors(data.losses, data.resamples)
    stable = {row.experiment: row for row in stability}
    results = []
    for index, (one, profile, horizon) in enumerate(zip(sweeps, profiles, horizons, strict=True)):
        sweep, losses = one.sweep, losses_of([one.sweep])
        points = sweep_points(one, losses)
        oracle, chosen = points[int(losses.oracle[0])], stable.get(sweep.name)
        none = () if chosen else (f"{sweep.name}: {_NO_BETA.format(rule.refreshes, horizon.used)}",)
        results.append(
            ExperimentResult(
                name=sweep.name,
                split=sweep.split,
                budget=budget_of(sweep),
                steps=one.steps,
                t_es=None if horizon.source == "budget" else horizon.used,
                horizons=horizon,
                best=one.best,
                not_measured=one.not_measured,
                points=points,
                baselines=tuple(baseline_points(one)),
                rules=rule_costs(one, named_rules(rule, given)),
                surface=surface_of(one.whole, profile),
                oracle_beta=oracle.beta,
                rule_beta=rule_beta(rule, horizon.used),
                selected_beta=chosen.beta if chosen else None,
                selected_gap=next((point.gap for point in points if chosen and point.beta == chosen.beta), None),
                stable_from=chosen.lower if chosen else None,
                stable_to=chosen.upper if chosen else None,
                noise_floor=floors[index],
                missing=(*sweep.missing, *none),
            )
        )
    return tuple(results)


def _summary(data: ProtocolData, rule: Refresh, fixed: float | None, stable: Sequence[Stability]) -> Summary:
    """The refresh rule beside a fixed beta, by the paper's protocol."""
    beside = data.row(best_fixed(data, "mean"), chosen_by="mean") if fixed is None else data.row(Fixed(fixed))
    summary = Summary(rule.refreshes, data.row(rule), beside, ())
    return dataclasses.replace(summary, verdict=tuple(verdict.summary_verdict(summary, stable)))


def _refuse_unmeasured(
    fixed: float | None, rules: Sequence[Rule], data: ProtocolData, sweeps: Sequence[FittedSweep]
) -> None:
    """ValueError for a fixed beta that no experiment swept, or a beta near it: it is never replaced by another one."""
    measured = swept(data)
    wrong = [fixed] if fixed is not None and fixed not in measured else []
    asked = [rule.beta for rule in rules if isinstance(rule, Fixed)]
    wrong += [beta for beta in asked if all(sweep.mixture(beta) is None for sweep in sweeps)]
    if wrong:
        few = ", ".join(f"{beta:g}" for beta in sorted(measured, key=lambda beta: abs(beta - wrong[0]))[:5])
        raise ValueError(f"no experiment was swept at beta {wrong[0]:g}; give a fixed beta that was (nearest: {few})")


def _outcomes(
    sweeps: Sequence[FittedSweep], data: ProtocolData, rule: Refresh, calibration: Calibration, given: Sequence[Rule]
) -> list[Outcome]:
    """The rules to put side by side: the recommendation first, each at the planned steps."""
    outcomes = [outcome(RECOMMENDED, sweeps, name="recommended"), outcome(Refresh(), sweeps)]
    if list(data.horizons) != [sweep.steps for sweep in sweeps]:
        outcomes.append(outcome(Refresh(), sweeps, data.horizons, f"{Refresh().name}, by T_ES"))
    asked = [rule] if rule != Refresh() else []
    outcomes += [outcome(one, sweeps, chosen_by="given") for one in (*asked, *given)]
    if calibration.chosen is not None:
        own = Refresh(calibration.chosen)
        outcomes.append(outcome(own, sweeps, data.horizons, f"{own.name}, calibrated", "max"))
    if (best := calibration.power_best) is not None:
        outcomes.append(
            outcome(Power(best.c, best.alpha, calibration.power_t0), sweeps, data.horizons, chosen_by="max")
        )
    alone = best_fixed(data, "mean")
    return [*outcomes, outcome(alone, sweeps, name=f"{alone.name}, best by mean", chosen_by="mean")]


def _protocol_rows(data: ProtocolData, rule: Refresh, calibration: Calibration, given: Sequence[Rule]) -> list[RuleRow]:
    """The same rules by the paper's protocol: for train robustness and times to target."""
    rows = [
        data.row(rule),
        data.row(RECOMMENDED, name="recommended"),
        data.row(best_fixed(data, "mean"), chosen_by="mean"),
    ]
    rows += [data.row(one) for one in given]
    if calibration.chosen is not None:
        own = Refresh(calibration.chosen)
        rows.append(data.row(own, name=f"{own.name}, calibrated", chosen_by="max"))
    return rows


_OF_RUNS = ("seed", "status", "steps", "best_loss", "best_step", "best_train_loss")


def as_json(value: Any) -> Any:
    """The value as plain JSON data, runs without their curves; numbers that are not finite become null."""
    if isinstance(value, RunRecord):
        return {name: as_json(getattr(value, name)) for name in _OF_RUNS}
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
