"""The summary in words: which beta, why, and how sure."""

from __future__ import annotations

from collections.abc import Iterator

from oneclock.analysis.values import Analysis, ExperimentResult, Horizons
from oneclock.report.sweeps import interval_words, percent
from oneclock.rule import CALIBRATED, REFRESHES

_SOURCES = {
    "given": "given with the data",
    "stop": "the early stop of its best runs, rounded",
    "best": "the best step of its best runs, rounded",
    "budget": "its planned steps, for want of curves",
}


def which(result: ExperimentResult) -> str:
    """The rule's beta for one experiment and what it costs there."""
    horizon = result.horizons
    if result.selected_beta is None or result.selected_gap is None:
        return f"no beta: {horizon.used:,g} steps ({_SOURCES[horizon.source]}) are too few for the rule."
    point = next(point for point in result.gaps if point.beta == result.selected_beta)
    own = f"{result.rule_beta or result.selected_beta:.5g}"
    swept = "" if own == f"{result.selected_beta:.5g}" else f"; measured at its nearest swept neighbour, {point.beta:g}"
    best = (
        "it is the best that was swept"
        if point.beta == result.oracle_beta
        else f"the best that was swept is β = {result.oracle_beta:g}"
    )
    return f"β = {own}{swept}: gap {percent(point.gap)}{interval_words(point.interval)}, {best}."


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
