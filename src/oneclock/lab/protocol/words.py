"""The paper's protocol in words: the choice, how far it can be trusted, and what cannot be known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from oneclock.lab.protocol.calibration import ALPHAS, Calibration
from oneclock.lab.protocol.risk import Estimate, Risk
from oneclock.lab.protocol.robustness import Stability
from oneclock.stats.verdict import comparison_words, count_of, interval_words, percent

if TYPE_CHECKING:
    from oneclock.lab.protocol.analysis import ProtocolResult, Summary

CLOSE = 0.05
"""A horizon within this share of a boundary of the rule is worth a sentence."""


def calibration_verdict(calibration: Calibration, development: int) -> Iterator[str]:
    """What the calibration shows and what it cannot show, one sentence each."""
    chosen = next((row for row in calibration.candidates if row.refreshes == calibration.chosen), None)
    if chosen is None or not (risk := chosen.rule.development or chosen.rule.all):
        lowest = calibration.candidates[0].refreshes
        yield (
            f"No R0 from {lowest:g} up has a beta for every experiment that calibrates: the shortest horizon is too "
            "short; give smaller candidates."
        )
        return
    plateau = calibration.plateau
    also = "" if len(plateau) == 1 else f"; so have all of R0 = {', '.join(f'{r0:g}' for r0 in plateau)}"
    yield (
        f"R0 = {chosen.refreshes:g} has the smallest maximum gap on {count_of(development, 'calibrating experiment')}, "
        f"{percent(risk.max.value)}{also}."
    )
    if calibration.chosen_by_mean != calibration.chosen:
        yield f"By the smallest mean gap, R0 = {calibration.chosen_by_mean:g} would be chosen: the criterion matters."
    yield from _inadmissible(calibration)
    if calibration.heldout is not None:
        yield f"Held out: {_in_words(calibration.heldout)}."
    yield from _left_out(calibration)
    yield from _family(calibration, risk)
    yield from comparison_words(calibration.comparisons)
    yield from _floor(calibration, risk)


def summary_verdict(summary: Summary, stability: Sequence[Stability]) -> Iterator[str]:
    """The main comparison in words, and the experiments that sit at a boundary."""
    for row in (summary.refresh, summary.fixed):
        if row.all is not None:
            yield f"{row.name}: {_in_words(row.all)}, over {count_of(row.all.answered, 'experiment')}."
    unanswered = sum(beta is None for beta in summary.refresh.betas)
    if unanswered:
        yield (
            f"{summary.refresh.name} has no beta for {count_of(unanswered, 'experiment')}: "
            f"the horizon does not exceed {summary.refreshes:g} steps."
        )
    if unswept := sum(beta is None for beta in summary.fixed.betas):
        yield f"{summary.fixed.name} has no beta, or none that was swept, in {count_of(unswept, 'experiment')}."
    for stable in stability:
        if stable.margin < CLOSE:
            yield (
                f"{stable.experiment} sits {stable.margin:.1%} from a boundary of the rule (T {stable.horizon:g}, "
                f"interval {stable.lower or 0:.0f} to {'no end' if stable.upper is None else f'{stable.upper:.0f}'})."
            )


def missing_everywhere(experiments: Sequence[ProtocolResult]) -> Iterator[str]:
    """What is missing in every experiment, as one sentence."""
    if not any(experiment.noise_floor for experiment in experiments):
        yield "No experiment has two seeds at a beta: no figure has an interval over seeds."
    if len(experiments) == 1:
        yield "One experiment: there is no CI over experiments."
    elif all(experiment.split == "development" for experiment in experiments):
        yield "No experiment is held out: the calibration is not checked on anything it has not seen."
    planned = [experiment.name for experiment in experiments if experiment.horizons.source == "budget"]
    if planned:
        yield f"Without t_es or curves the planned steps stand in for T_ES: {', '.join(planned)}."


def _in_words(risk: Risk) -> str:
    return f"mean gap {_figure(risk.mean)}, largest {_figure(risk.max)}, {risk.within} of {risk.answered} under 1 %"


def _figure(estimate: Estimate) -> str:
    interval = estimate.experiments or estimate.seeds
    return f"{percent(estimate.value)}{interval_words(interval)}"


def _inadmissible(calibration: Calibration) -> Iterator[str]:
    closed = [row.refreshes for row in calibration.candidates if not row.admissible]
    if closed:
        yield (
            f"R0 from {min(closed):g} to {max(closed):g} cannot be chosen: some calibrating experiment is too short "
            "for so many refreshes, or has no finite loss there."
        )


def _left_out(calibration: Calibration) -> Iterator[str]:
    if calibration.left_out_max is None or calibration.left_out_mean is None:
        yield "One calibrating experiment: none can be left out."
        return
    choices = sorted({left.refreshes for left in calibration.left_out if left.refreshes is not None})
    spread = f"always R0 = {choices[0]:g}" if len(choices) == 1 else f"R0 from {choices[0]:g} to {choices[-1]:g}"
    yield (
        f"With one experiment left out at a time the others choose {spread}; the gap of the one left out is "
        f"{percent(calibration.left_out_mean)} on average, {percent(calibration.left_out_max)} at most."
    )


def _family(calibration: Calibration, risk: Risk) -> Iterator[str]:
    best = calibration.power_best
    if best is None or best.max is None:
        return
    as_good = [row for row in calibration.power if row.max is not None and row.max <= risk.max.value]
    rules = sum(row.max is not None for row in calibration.power)
    if not as_good:
        yield (
            f"Of {rules} rules 1 - beta = c (T / {calibration.power_t0:g})^-alpha none has a smaller maximum gap than "
            f"the chosen R0; the best has alpha {best.alpha:g}, {percent(best.max)}."
        )
        return
    alphas = sorted({row.alpha for row in as_good})
    fixed = "" if len(alphas) < 2 else "; these data do not settle the exponent"
    yield (
        f"Of {rules} rules 1 - beta = c (T / {calibration.power_t0:g})^-alpha, {len(as_good)} do as well by maximum "
        f"gap or better, with alpha {', '.join(f'{alpha:g}' for alpha in alphas)} out of {ALPHAS[0]:g} to "
        f"{ALPHAS[-1]:g}; the best has alpha {best.alpha:g}, {percent(best.max)}{fixed}."
    )


def _floor(calibration: Calibration, risk: Risk) -> Iterator[str]:
    floor = calibration.noise_floor
    if floor is None:
        yield "Without a second seed the noise floor is not known: gaps may be noise altogether."
        return
    below = risk.max.value <= floor.high
    yield (
        f"Noise floor: one seed spreads by {percent(floor.relative_spread)}, so that even the true best beta would "
        f"show a mean gap of {percent(floor.mean)}, and a largest one of up to {percent(floor.high)} in "
        f"{floor.level:.0%} of repeats. The chosen R0's largest gap lies {'within' if below else 'above'} that."
    )
