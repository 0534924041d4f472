"""The figures over several experiments: what each rule loses, and how the best memory grows in a controlled series."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from oneclock.recommend import short_beta
from oneclock.report import palette
from oneclock.report.chart import (
    Axis,
    Chart,
    Dash,
    Figure,
    ReferenceLine,
    Trace,
    log_axis,
    memory_position,
    trace,
)
from oneclock.rule import RECOMMENDED, REFRESHES, Fixed, Power, Refresh, Rule
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Series, SeriesPoint
from oneclock.stats.rules import NEAR, RuleRow
from oneclock.stats.verdict import bounds_words, in_brackets, interval_words, percent

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
        y=Axis("", len(rows) - 0.5, -0.5, tuple((float(index), _label(row)) for index, row in enumerate(rows))),
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


PIECES = 36
"""Segments of a rule's line, which may be curved."""


def series_figure(analysis: Analysis) -> Iterator[Figure]:
    """The best memory of every series over its budgets, with the fitted powers and the memories of rules."""
    if not analysis.series:
        return
    budgets = [point.budget for task in analysis.series for point in task.points]
    low, high = min(budgets) / 1.5, max(budgets) * 1.5
    drawn = [*chain.from_iterable(_task(index, task) for index, task in enumerate(analysis.series))]
    drawn += [
        _reference("recommended", RECOMMENDED, low, high, palette.INK, "dashdot"),
        _reference("paper's rule", Refresh(), max(low, REFRESHES), high, palette.RULE, "solid"),
        _reference("fixed β = 0.9", Fixed(0.9), low, high, palette.FIXED, "dotted"),
    ]
    heights = [value for one in drawn for value in (*one.y, *one.low, *one.high) if value is not None]
    chart = Chart(
        title="",
        x=log_axis("planned steps", low, high),
        y=log_axis("memory 1 / (1 - β), steps", 10 ** (min(heights) - 0.05), 10 ** (max(heights) + 0.05)),
        series=tuple(one for one in drawn if one.x),
    )
    caption = (
        "The best memory at each length of training, from a parabola through the losses. Bars are its 95 % CI; a side "
        "without a bar has no bound. The slope of a line is the exponent alpha of 1 - beta ~ steps ** -alpha."
    )
    yield Figure("series", "The best memory over the length of training", caption, (chart,))


def _task(index: int, task: Series) -> Iterator[Trace]:
    """The optima of one task, and the power of the horizon fitted to them."""
    color = palette.ramp(2 * index + 1, 2 * index + 4)
    name = f"{task.name}: alpha {task.alpha:.2f}{in_brackets(bounds_words(task.alpha_interval))}"
    optima = [(math.log10(p.budget), memory_position(p.beta), _words(task.name, p)) for p in task.points]
    ends = [(None, None) if p.beta_interval is None else _ends(p.beta_interval) for p in task.points]
    low, high = (tuple(end[side] for end in ends) for side in (0, 1))
    yield trace(task.name, optima, color, marker=palette.marker(index), low=low, high=high, group=name)
    fitted = Power(task.c, task.alpha)
    budgets = (task.points[0].budget, task.points[-1].budget)
    line = [(math.log10(steps), -math.log10(fitted.one_minus_beta(steps)), name) for steps in budgets]
    yield trace(name, line, color, palette.dash(index + 1))


def _ends(interval: Interval) -> tuple[float | None, float | None]:
    """Where an interval of beta ends on the axis of memories; None if it is open."""
    low, high = (memory_position(end) if 0 < end < 1 else None for end in (interval.lower, interval.upper))
    return low, high


def _reference(name: str, rule: Rule, low: float, high: float, color: str, dash: Dash) -> Trace:
    """A rule's memory over the steps; nothing where the rule has no beta."""
    steps = [low * (high / low) ** (piece / PIECES) for piece in range(PIECES + 1)] if low < high else []
    memories = [(step, 1 / rule.one_minus_beta(step)) for step in steps]
    line = [
        (math.log10(step), math.log10(memory), f"{name}, {step:,.0f} steps: a memory of {memory:,.3g}")
        for step, memory in memories
    ]
    return trace(name, line, color, dash)


def _words(name: str, point: SeriesPoint) -> str:
    edge = "" if point.bracketed else ", the end of the betas swept"
    beta = short_beta(max(point.beta, 0.0))
    between = in_brackets(bounds_words(point.beta_interval, low=0, high=1))
    return (
        f"{name}, {point.budget:,g} steps: best β {beta}{between}{edge}, a memory of {1 / (1 - point.beta):,.3g} steps"
    )
