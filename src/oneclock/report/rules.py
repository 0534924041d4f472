"""The figure over all experiments: what each rule loses. Plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Figure, Marker, ReferenceLine, Trace, named_axis, trace
from oneclock.stats.analyse import Analysis
from oneclock.stats.risk import NEAR, RuleRow
from oneclock.stats.verdict import interval_words, percent

_GAP_UNIT = 0.001
"""Gaps below this are drawn about linearly, larger ones by their logarithm."""

_DOTS: tuple[tuple[str, str, str, Marker], ...] = (
    ("development", "development experiment", "c0", "circle"),
    ("heldout", "held-out experiment", "c4", "square"),
)


def gaps_figure(analysis: Analysis) -> Figure:
    """Every rule: a dot per experiment, the mean with its interval."""
    rows = analysis.rules
    largest = max((gap for row in rows for gap in row.gaps if gap is not None and math.isfinite(gap)), default=NEAR)
    dots = (_dots(analysis, rows, *kind) for kind in _DOTS)
    chart = Chart(
        title="",
        x=gap_axis("loss above the best beta, %", largest),
        y=named_axis("", [_label(row) for row in rows]),
        series=(*(one for one in dots if one.x), *_means(rows)),
        lines=(ReferenceLine(gap_position(NEAR), "x", palette.QUIET, "1 %", "dotted"),),
    )
    caption = (
        "What each rule loses against the best beta of every experiment. The diamond is the mean over all of them, its "
        "bar the 95 % CI over experiments and seeds. The axis is logarithmic above 0.1 %."
    )
    return Figure("gaps-per-rule", "Loss of each rule", caption, (chart,))


def gap_position(gap: float) -> float:
    """The position of a gap on `gap_axis`; the sign is kept, because an untied baseline may beat the best tied beta."""
    return math.copysign(math.log10(1 + abs(gap) / _GAP_UNIT), gap)


def gap_axis(label: str, largest: float) -> Axis:
    """From 0 to `largest`, logarithmic above 0.1 %, ticked in percent.

    >>> [text for _, text in gap_axis("gap", 0.02).ticks]
    ['0', '0.1', '0.3', '1']
    """
    ticks = [(gap_position(value / 100), f"{value:g}") for value in (0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)]
    high = gap_position(max(largest, NEAR)) * 1.05
    return Axis(label, -0.06 * high, high, tuple(tick for tick in ticks if tick[0] <= high))


def _dots(analysis: Analysis, rows: Sequence[RuleRow], split: str, name: str, color: str, marker: Marker) -> Trace:
    """A dot for each rule and experiment of a split."""
    dots = [
        (gap_position(gap), float(index), f"{row.name} on {result.name}: β {beta:g}, gap {percent(gap)}")
        for index, row in enumerate(rows)
        for result, beta, gap in zip(analysis.experiments, row.betas, row.gaps, strict=True)
        if result.split == split and beta is not None and gap is not None and math.isfinite(gap)
    ]
    return trace(name, dots, color, marker=marker)


def _means(rows: Sequence[RuleRow]) -> Iterator[Trace]:
    name = "mean, with its interval"
    for index, row in enumerate(rows):
        if row.all is None or not math.isfinite(row.all.mean.value):
            continue
        mean = row.all.mean
        interval = mean.experiments or mean.seeds
        text = f"{row.name}, mean over {row.all.answered}: {percent(mean.value)}{interval_words(interval)}"
        yield trace(name, [(gap_position(mean.value), float(index), text)], palette.INK, marker="diamond")
        if interval is not None and math.isfinite(interval.upper):
            ends = [(gap_position(end), float(index), text) for end in (interval.lower, interval.upper)]
            yield trace(name, ends, palette.INK, "solid")


def _label(row: RuleRow) -> str:
    """The rule's name, and the number of experiments for which it has a beta, unless it has one for all."""
    risk = row.all
    some = risk is not None and risk.answered < risk.experiments
    return f"{row.name} ({risk.answered} of {risk.experiments})" if risk is not None and some else row.name
