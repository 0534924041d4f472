"""The answer in words, first lines first: the best beta that was measured, what it is worth, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator

from oneclock.analysis.values import Analysis, ExperimentResult, Horizons
from oneclock.analysis.verdict import count_of, percent
from oneclock.report.sweeps import interval_words
from oneclock.rule import CALIBRATED, REFRESHES
from oneclock.study.best import Interval

_SOURCES = {
    "given": "given with the data",
    "stop": "the early stop of its best runs, rounded",
    "best": "the best step of its best runs, rounded",
    "budget": "its planned steps, for want of curves",
}


def answer(result: ExperimentResult) -> list[str]:
    """The answer of one experiment, a line each; the first is the best beta measured, or why there is none."""
    return [best(result), *_beside(result), *_costs(result), _next(result)]


def best(result: ExperimentResult) -> str:
    """The best beta that was measured, and how sure it is."""
    if result.best_beta is None:
        return f"No best beta: {result.best_word}."
    interval = result.best_interval
    sure = "" if interval is None else f"{100 * interval.level:g} % interval {interval.lower:g} to {interval.upper:g}; "
    point = next(point for point in result.gaps if point.beta == result.best_beta)
    seeds = f"mean of {count_of(point.seeds, 'seed')}"
    return f"Best beta measured: {result.best_beta:g} ({sure}{result.best_word}), loss {point.loss:.5g}, {seeds}."


def _beside(result: ExperimentResult) -> Iterator[str]:
    """The usual pairs, if they ran: how their losses lie to the best tied beta's."""
    for arm in result.arms:
        side = "above" if arm.gap >= 0 else "below"
        clear = arm.interval is not None and (arm.interval.lower > 0 or arm.interval.upper < 0)
        told = "" if clear or arm.interval is None else ", not told apart"
        yield (
            f"({arm.beta1:g}, {arm.beta2:g}) ends {percent(abs(arm.gap))} {side} the best tied beta"
            f"{_signed(arm.interval)}{told}."
        )


def _costs(result: ExperimentResult) -> Iterator[str]:
    """What the recommendation and the paper's rule would have cost."""
    names = {"recommended": "What is recommended", "paper": "The paper's rule"}
    for rule in result.rules:
        what = f"{names[rule.name]} for {result.horizons.used:,g} steps"
        if rule.beta is None or rule.gap is None:
            yield f"{what}: no beta."
            continue
        near = "" if f"{rule.beta:.3g}" == f"{rule.swept:.3g}" else f", measured at {rule.swept:g}"
        yield f"{what}: {rule.beta:.4g}{near}, {percent(rule.gap)} above the best{interval_words(rule.interval)}."


def _next(result: ExperimentResult) -> str:
    if result.best_beta is None:
        return "Next: sweep more betas, or more seeds, with --extend."
    if "may lie" in result.best_word:
        return "Next: sweep beyond that end with --extend --betas .., before you rely on it."
    return f"Next: BalancedAdamW(model.parameters(), lr=..., beta={result.best_beta:g})"


def _signed(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f" ({100 * interval.level:g} % interval {100 * interval.lower:.3f} to {percent(interval.upper)})"


def why(result: ExperimentResult, refreshes: float) -> str:
    """The horizon behind the choice and how far it may be off."""
    horizon = result.horizons
    reason = f"Training stayed useful for {horizon.used:,g} steps ({_SOURCES[horizon.source]}){_conventions(horizon)}"
    if result.selected_beta is None:
        return f"{reason}; the rule needs more than {refreshes:g}."
    low = f"from {result.stable_from:,.0f}" if result.stable_from else f"above {refreshes:g}"
    high = f" to {result.stable_to:,.0f} steps" if result.stable_to else " steps up"
    return f"{reason}. The choice is the same for every horizon {low}{high}."


def how_sure(analysis: Analysis) -> Iterator[str]:
    """Everything the analysis says about trust, and whether the horizons lie where the rule was calibrated."""
    yield from analysis.summary.verdict
    low, high = CALIBRATED
    outside = [result.name for result in analysis.experiments if not low <= result.horizons.used <= high]
    if outside:
        yield (
            f"The evidence behind R0 = {REFRESHES} covers {low:,} to {high:,} steps; outside of it, and so an "
            f"extrapolation: {', '.join(outside)}."
        )


def _conventions(horizon: Horizons) -> str:
    """Both conventions of T_ES where the curves give them."""
    if horizon.stop is None or horizon.best is None or horizon.raw_stop is None or horizon.raw_best is None:
        return ""
    return (
        f"; by its early stop T_ES is {horizon.stop:,g} ({horizon.raw_stop:,.0f} before rounding), "
        f"by its best step {horizon.best:,g} ({horizon.raw_best:,.0f})"
    )
