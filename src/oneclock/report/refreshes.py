"""The figure of the rule itself: refresh count against horizon, with the best betas of the sweeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from oneclock.report import palette
from oneclock.report.chart import Chart, Dash, Figure, Marker, Span, Trace, log_axis
from oneclock.rule import CALIBRATED, Fixed, Refresh, Rule, memory_horizon, refresh_count
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import ExperimentResult
from oneclock.stats.risk import NEAR


def refresh_figure(analysis: Analysis) -> Figure:
    """Refresh count against horizon: the rule is a flat line, a fixed beta is not; with the sweeps' best betas."""
    horizons = [result.horizons.used for result in analysis.experiments]
    low, high = min(*horizons, *CALIBRATED) / 2, max(*horizons, *CALIBRATED) * 2
    refreshes = analysis.summary.refreshes
    calibrated = [math.log10(bound) for bound in CALIBRATED]
    fixed = sorted({beta for beta in analysis.summary.fixed.betas if beta is not None} | {0.9, 0.99, 0.999})
    series = [_line(Refresh(refreshes), f"refresh rule, R₀ = {refreshes:g}", (max(low, refreshes), high), palette.RULE)]
    for place, beta in enumerate(fixed):
        color = palette.ramp(place, len(fixed) + 1)
        series.append(_line(Fixed(beta), f"fixed β = {beta:g}", (low, high), color, palette.dash(place + 1)))
    series += [*_near_best(analysis.experiments)]
    counts = [value for line in series for value in line.y]
    chart = Chart(
        title="",
        x=log_axis("horizon T, steps", low, high),
        y=log_axis("refresh count R = (1 - β) T", 10 ** min(counts) * 0.8, 10 ** max(counts) * 1.25),
        series=tuple(series),
        spans=(Span(calibrated[0], calibrated[1], palette.QUIET, "horizons the evidence covers"),),
    )
    caption = (
        "How often the memory is renewed in training. The refresh rule is flat; a fixed beta renews more the longer "
        "training lasts. Stars are the best betas of the sweeps, dots the swept betas within 1 % of them."
    )
    return Figure("refresh-count", "Refresh count against horizon", caption, (chart,))


def _line(rule: Rule, name: str, ends: tuple[float, float], color: str, dash: Dash = "solid") -> Trace:
    """R = (1 - beta) T of a rule between two horizons: straight in logarithms."""
    counts = [rule.one_minus_beta(end) * end for end in ends]
    return Trace(
        name,
        tuple(math.log10(end) for end in ends),
        tuple(math.log10(count) for count in counts),
        color,
        dash,
        texts=tuple(
            f"{name}: {count:,.0f} refreshes in {end:,.0f} steps" for end, count in zip(ends, counts, strict=True)
        ),
        group=name,
    )


def _near_best(results: Sequence[ExperimentResult]) -> Iterator[Trace]:
    """The swept betas of every sweep whose gap is under 1 %, and over them the best."""
    near = [
        (result, p.beta) for result in results for p in result.points if p.excess < NEAR and p.beta != result.best.beta
    ]
    if near:
        yield _refreshes("swept betas within 1 %", near, palette.QUIET, "circle")
    found = [(result, result.best.beta) for result in results if result.best.beta is not None]
    yield _refreshes("best beta of a sweep", found, "c2", "star")


def _refreshes(name: str, found: Sequence[tuple[ExperimentResult, float]], color: str, marker: Marker) -> Trace:
    counts = [refresh_count(beta, result.horizons.used) for result, beta in found]
    return Trace(
        name,
        tuple(math.log10(result.horizons.used) for result, _ in found),
        tuple(math.log10(count) for count in counts),
        color,
        "none",
        marker,
        texts=tuple(
            f"{result.name}: β {beta:g}, a memory of {memory_horizon(beta):,.4g} steps, renewed {count:,.0f} times in "
            f"{result.horizons.used:,g}"
            for (result, beta), count in zip(found, counts, strict=True)
        ),
        group=name,
    )
