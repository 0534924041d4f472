"""The paper's analysis of a study, as one frozen value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oneclock.lab.protocol import calibration as calibrating
from oneclock.lab.protocol import robustness as stress
from oneclock.lab.protocol import words
from oneclock.lab.protocol.calibration import Calibration
from oneclock.lab.protocol.data import ProtocolData, best_fixed, protocol_data, swept
from oneclock.lab.protocol.horizons import Horizons, horizons_of
from oneclock.lab.protocol.resampling import DRAWS, NoiseFloor, noise_floors
from oneclock.lab.protocol.risk import ProtocolRow
from oneclock.lab.protocol.robustness import Robustness, Stability
from oneclock.lab.protocol.train_and_time import TrainAndTime, train_and_time_of
from oneclock.rule import RECOMMENDED, REFRESHES, Fixed, Power, Refresh, Rule
from oneclock.runs.sweeps import Sweep, Sweeps
from oneclock.stats.experiments import fitted, rule_beta
from oneclock.stats.exponents import planned_steps


@dataclass(frozen=True)
class ProtocolResult:
    """One experiment: the plain mean `losses` of its swept `betas`, their `gaps`, and the rule's choice.

    `oracle_beta` has the smallest mean loss. `rule_beta` is the refresh rule's own value at T_ES, `selected_beta` the
    nearest swept one (None where T <= R0) and `selected_gap` its gap. `stable_from` and `stable_to` bound the horizons
    with the same selection (None: open).
    """

    name: str
    split: str
    budget: float | None
    horizons: Horizons
    betas: tuple[float, ...]
    losses: tuple[float, ...]
    gaps: tuple[float, ...]
    oracle_beta: float
    rule_beta: float | None
    selected_beta: float | None
    selected_gap: float | None
    stable_from: float | None
    stable_to: float | None
    noise_floor: NoiseFloor | None


@dataclass(frozen=True)
class Summary:
    """The paper's main table: the refresh rule beside a fixed beta, by default the one with the smallest mean gap."""

    refreshes: float
    refresh: ProtocolRow
    fixed: ProtocolRow
    verdict: tuple[str, ...]


@dataclass(frozen=True)
class ProtocolAnalysis:
    """Everything that the paper says about its experiments, for those of a study.

    `rules` are the refresh rule, the recommended one, the best fixed beta, the rules given, the calibrated R0 and the
    best power, all at T_ES on the nearest swept betas. `missing` says in words what is not known.
    """

    experiments: tuple[ProtocolResult, ...]
    summary: Summary
    rules: tuple[ProtocolRow, ...]
    calibration: Calibration
    robustness: Robustness
    train_and_time: TrainAndTime
    missing: tuple[str, ...]


def analyse_protocol(
    study: Sweeps,
    refreshes: float = REFRESHES,
    candidates: Sequence[float] | None = None,
    fixed: float | None = None,
    rules: Sequence[Rule] = (),
    draws: int = DRAWS,
    repeats: int = stress.REPEATS,
    seed: int = 0,
) -> ProtocolAnalysis:
    """The paper's analysis of a study. Equal data and equal arguments give an equal value.

    Args:
        study: What `read_protocol` made of a source.
        refreshes: R0 of the refresh rule.
        candidates: The values of R0 to calibrate over (default: the paper's).
        fixed: The beta to compare with (default: the one with the smallest development mean).
        rules: Other rules to put side by side.
        draws: Of the bootstrap.
        repeats: Of the noise study.
        seed: Of both.

    Raises:
        ValueError: If nothing was swept at a given fixed beta, or a horizon is not known.
    """
    fits = [fitted(one) for one in study.sweeps]
    sweeps = [one.sweep for one in fits]
    horizons = [horizons_of(sweep) for sweep in sweeps]
    data = protocol_data(sweeps, horizons, draws, seed)
    _refuse_unswept([fixed, *(rule.beta for rule in rules if isinstance(rule, Fixed))], swept(data))
    rule, names = Refresh(refreshes), [sweep.name for sweep in sweeps]
    stable = stress.stability(data, rule, names, [sweep.split for sweep in sweeps])
    calibration = calibrating.calibrate(data, fits, names, candidates)
    calibrators = len(data.sets["development"]) or len(sweeps)
    verdict = tuple(words.calibration_verdict(calibration, calibrators))
    calibration = dataclasses.replace(calibration, verdict=verdict)
    experiments = tuple(_results(sweeps, horizons, data, rule, stable))
    summary = Summary(
        refreshes, data.row(rule), data.row(best_fixed(data, "mean") if fixed is None else Fixed(fixed)), ()
    )
    summary = dataclasses.replace(summary, verdict=tuple(words.summary_verdict(summary, stable)))
    rows = tuple(_rules(data, rule, calibration, rules))
    noise = stress.noise_study(data, rule, repeats=repeats, seed=seed)
    return ProtocolAnalysis(
        experiments=experiments,
        summary=summary,
        rules=rows,
        calibration=calibration,
        robustness=Robustness(stable, stress.mean_width(stable), noise),
        train_and_time=train_and_time_of(sweeps, data, rows, seed),
        missing=(*study.missing, *words.missing_everywhere(experiments), *_missing(sweeps, experiments, rule)),
    )


def _refuse_unswept(betas: Sequence[float | None], measured: Sequence[float]) -> None:
    for beta in (one for one in betas if one is not None and one not in measured):
        few = ", ".join(f"{near:g}" for near in sorted(measured, key=lambda near: abs(near - beta))[:5])
        raise ValueError(f"no experiment was swept at beta {beta:g}; give a fixed beta that was (nearest: {few})")


def _results(
    sweeps: Sequence[Sweep],
    horizons: Sequence[Horizons],
    data: ProtocolData,
    rule: Refresh,
    stability: Sequence[Stability],
) -> Iterator[ProtocolResult]:
    floors, _ = noise_floors(data.losses, data.resamples)
    stable = {row.experiment: row for row in stability}
    for index, (sweep, horizon) in enumerate(zip(sweeps, horizons, strict=True)):
        betas, chosen = sweep.betas, stable.get(sweep.name)
        losses, gaps = (tuple(row[index, : len(betas)].tolist()) for row in (data.losses.loss, data.losses.gaps))
        yield ProtocolResult(
            name=sweep.name,
            split=sweep.split,
            budget=planned_steps(sweep),
            horizons=horizon,
            betas=betas,
            losses=losses,
            gaps=gaps,
            oracle_beta=betas[int(data.losses.oracle[index])],
            rule_beta=rule_beta(rule, horizon.used),
            selected_beta=chosen.beta if chosen else None,
            selected_gap=gaps[betas.index(chosen.beta)] if chosen else None,
            stable_from=chosen.lower if chosen else None,
            stable_to=chosen.upper if chosen else None,
            noise_floor=floors[index],
        )


def _missing(sweeps: Sequence[Sweep], experiments: Sequence[ProtocolResult], rule: Refresh) -> Iterator[str]:
    for sweep, result in zip(sweeps, experiments, strict=True):
        yield from sweep.missing
        if result.selected_beta is None:
            steps = f"{result.horizons.used:,g} steps"
            yield f"{sweep.name}: the paper's rule with R0 = {rule.refreshes:g} has no beta for {steps}"


def _rules(data: ProtocolData, rule: Refresh, calibration: Calibration, given: Sequence[Rule]) -> Iterator[ProtocolRow]:
    yield data.row(rule)
    yield data.row(RECOMMENDED)
    yield data.row(best_fixed(data, "mean"))
    yield from (data.row(one) for one in given)
    if calibration.chosen is not None:
        own = Refresh(calibration.chosen)
        yield data.row(own, f"{own.numbered_name}, calibrated")
    if (best := calibration.power_best) is not None:
        yield data.row(Power(best.c, best.alpha, calibration.power_t0))
