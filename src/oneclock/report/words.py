"""The answer in words, first lines first: the best beta that was measured, what it is worth, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator

from oneclock.analysis.values import Analysis, ExperimentResult, Horizons, RuleCost
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
    return [best(result), *_fitted(result), *_beside(result), *_costs(result), _next(result)]


def best(result: ExperimentResult) -> str:
    """The best beta that was measured, with its rate where several were swept, and how sure it is."""
    if result.best_beta is None:
        return f"No best beta: {result.best_word}."
    what, of = f"Best beta measured: {result.best_beta:g}", ""
    if result.best_rate is not None:
        what, of = f"Best pair measured: beta {result.best_beta:g}, lr {result.best_rate:g}", " of beta"
    sure = ""
    if (interval := result.best_interval) is not None:
        sure = f"{100 * interval.level:g} % interval{of} {interval.lower:g} to {interval.upper:g}; "
    point = next(point for point in result.gaps if point.beta == result.best_beta)
    seeds = f"mean of {count_of(point.seeds, 'seed')}"
    return f"{what} ({sure}{result.best_word}), loss {point.loss:.5g}, {seeds}."


def _fitted(result: ExperimentResult) -> Iterator[str]:
    """The best pair by a bowl through its neighbours, with intervals, where rates were swept and one could be drawn."""
    surface = result.surface
    if surface is None or surface.beta is None or surface.rate is None:
        return
    beta = _fitted_at(f"beta {surface.beta:.4g}", surface.beta_interval, surface.beta_inside)
    rate = _fitted_at(f"lr {surface.rate:.3g}", surface.rate_interval, surface.rate_inside)
    yield f"A bowl through the losses around the lowest pair is lowest at {beta} and {rate}."


def _fitted_at(what: str, interval: Interval | None, inside: bool) -> str:
    sure = (
        "" if interval is None else f"{100 * interval.level:g} % interval {interval.lower:.4g} to {interval.upper:.4g}"
    )
    notes = "; ".join(filter(None, (sure, "" if inside else "at the edge of what it is drawn through")))
    return f"{what} ({notes})" if notes else what


def _beside(result: ExperimentResult) -> Iterator[str]:
    """The usual pairs, if they ran: how their losses lie to the best tied beta's."""
    for arm in result.arms:
        side = "above" if arm.gap >= 0 else "below"
        clear = arm.interval is not None and (arm.interval.lower > 0 or arm.interval.upper < 0)
        told = "" if clear or arm.interval is None else ", not told apart"
        rate = "" if arm.rate is None else f" at lr {arm.rate:g}"
        yield (
            f"({arm.beta1:g}, {arm.beta2:g}){rate} ends {percent(abs(arm.gap))} {side} the best tied beta"
            f"{_signed(arm.interval)}{told}."
        )


def _costs(result: ExperimentResult) -> Iterator[str]:
    """What the recommendation, the paper's rule and those that were given would have cost."""
    names = {"recommended": "What is recommended", "paper": "The paper's rule"}
    for rule in result.rules:
        what = f"{names.get(rule.name, rule.name)} for {result.horizons.used:,g} steps"
        yield f"{what}: {_cost(rule, alone=len(result.gaps) == 1)}."


def _cost(rule: RuleCost, alone: bool) -> str:
    """What a rule would have cost; nothing is said of its beta by one far from it, nor of one that was swept alone."""
    if rule.beta is None:
        return "no beta"
    if rule.swept is None or rule.gap is None:
        return f"{rule.beta:.4g}, not measured"
    if not rule.near:
        return f"{rule.beta:.4g}, not measured (the nearest beta swept is {rule.swept:g})"
    near = "" if f"{rule.beta:.3g}" == f"{rule.swept:.3g}" else f", measured at {rule.swept:g}"
    if alone:
        return f"{rule.beta:.4g}{near}, with nothing to compare it with"
    return f"{rule.beta:.4g}{near}, {percent(rule.gap)} above the best{interval_words(rule.interval)}"


def _next(result: ExperimentResult) -> str:
    if result.best_beta is None:
        return "Next: sweep more betas, or more seeds, with --extend."
    if result.best_at_end:
        ends = " ".join(f"--{axis}s .." for axis in result.best_at_end)
        return f"Next: sweep beyond that end with --extend {ends}, before you rely on it."
    rate = "..." if result.best_rate is None else f"{result.best_rate:g}"
    return f"Next: BalancedAdamW(model.parameters(), lr={rate}, beta={result.best_beta:g})"


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
