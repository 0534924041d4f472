"""The figure over all experiments: what each rule loses. Plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Figure, ReferenceLine, Trace, named_axis, trace
from oneclock.stats.analyse import Analysis
from oneclock.stats.rules import NEAR, RuleRow
from oneclock.stats.verdict import interval_words, percent

_GAP_UNIT = 0.001
"""Gaps below this are drawn about linearly, larger ones by their logarithm."""


def gaps_figure(analysis: Analysis) -> Figure:
    """Every rule: a dot per experiment, the mean with its interval."""
    rows = analysis.rules
    finite = [gap for row in rows for gap in row.excesses if gap is not None and math.isfinite(gap)]
    dots = [
        (gap_position(gap), float(index), f"{row.name} on {result.name}: β {beta:g}, gap {percent(gap)}")
        for index, row in enumerate(rows)
        for result, beta, gap in zip(analysis.experiments, row.betas, row.excesses, strict=True)
        if beta is not None and gap is not None and math.isfinite(gap)
    ]
    means = [one for index, row in enumerate(rows) for one in _mean(row, index)]
    chart = Chart(
        title="",
        x=gap_axis("loss above the best beta, %", max(finite, default=NEAR)),
        y=named_axis("", [_label(row) for row in rows]),
        series=(trace("experiment", dots, palette.CURVE, marker="circle"), *means),
        lines=(ReferenceLine(gap_position(NEAR), "x", palette.QUIET, "1 %", "dotted"),),
    )
    caption = (
        "What each rule loses against the best beta of every experiment. The diamond is the mean over all of them, its "
        "bar the 95 % CI over experiments and seeds. The axis is logarithmic above 0.1 %."
    )
    return Figure("gaps-per-rule", "Loss of each rule", caption, (chart,))


def gap_position(gap: float) -> float:
    """The position of a gap on `gap_axis`; the sign is kept."""
    return math.copysign(math.log10(1 + abs(gap) / _GAP_UNIT), gap)


def gap_axis(label: str, largest: float) -> Axis:
    """From 0 to `largest`, logarithmic above 0.1 %, ticked in percent.

    >>> [text for _, text in gap_axis("gap", 0.02).ticks]
    ['0', '0.1', '0.3', '1']
    """
    ticks = [(gap_position(value / 100), f"{value:g}") for value in (0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)]
    high = gap_position(max(largest, NEAR)) * 1.05
    return Axis(label, -0.06 * high, high, tuple(tick for tick in ticks if tick[0] <= high))


def _mean(row: RuleRow, index: int) -> Iterator[Trace]:
    """The mean of a rule, and its interval as a bar."""
    if row.mean is None or not math.isfinite(row.mean):
        return
    name = "mean, with its interval"
    text = f"{row.name}, mean over {row.measured}: {percent(row.mean)}{interval_words(row.interval)}"
    yield trace(name, [(gap_position(row.mean), float(index), text)], palette.INK, marker="diamond")
    if row.interval is not None and math.isfinite(row.interval.upper):
        ends = [(gap_position(end), float(index), text) for end in (row.interval.lower, row.interval.upper)]
        yield trace(name, ends, palette.INK, "solid")


def _label(row: RuleRow) -> str:
    """The rule's name, and the number of experiments that it was measured in, unless that is all of them."""
    some = 0 < row.measured < len(row.betas)
    return f"{row.name} ({row.measured} of {len(row.betas)})" if some else row.name
