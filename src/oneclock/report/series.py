"""The figure of a controlled series: how the best memory grows where nothing but the horizon differs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from oneclock.analysis.axes import Series as Task
from oneclock.analysis.axes import SeriesPoint
from oneclock.analysis.values import Analysis
from oneclock.report import palette
from oneclock.report.chart import Chart, Dash, Figure, Trace, log_axis, memory_place, short_beta
from oneclock.rule import Power, memory_horizon
from oneclock.study.best import Interval


def series_figure(analysis: Analysis) -> Iterator[Figure]:
    """The best memory of every series over its budgets, with the fitted powers, the rule and one beta for all."""
    if not analysis.series:
        return
    budgets = [point.budget for task in analysis.series for point in task.points]
    low, high = min(budgets) / 1.5, max(budgets) * 1.5
    drawn = [*chain.from_iterable(_task(place, task) for place, task in enumerate(analysis.series))]
    refreshes = analysis.summary.refreshes
    drawn += [
        _reference(f"refresh rule, R₀ = {refreshes:g}", max(low, refreshes), high, refreshes, palette.RULE, "slope 1"),
        _reference("fixed β = 0.9", low, high, None, palette.FIXED, "slope 0"),
    ]
    places = [value for one in drawn for value in (*one.y, *one.low, *one.high) if value is not None]
    chart = Chart(
        title="",
        x=log_axis("planned steps", low, high),
        y=log_axis("memory 1 / (1 - β), steps", 10 ** (min(places) - 0.05), 10 ** (max(places) + 0.05)),
        series=tuple(drawn),
    )
    caption = (
        "The best memory at each length of training, by a parabola through the losses around it, with its interval; a "
        "line's slope is the exponent alpha. A mark without a bar at one side lies at the end of the betas swept."
    )
    yield Figure("series", "The best memory where only the horizon differs", caption, (chart,))


def _task(place: int, task: Task) -> Iterator[Trace]:
    """The optima of one task, and the power of the horizon fitted to them."""
    color = palette.ramp(2 * place + 1, 2 * place + 4)
    name = f"{task.name}: alpha {task.alpha:.2f}{_range(task.alpha_interval)}"
    yield Trace(
        name=task.name,
        x=tuple(math.log10(point.budget) for point in task.points),
        y=tuple(memory_place(point.beta) for point in task.points),
        color=color,
        dash="none",
        marker=palette.marker(place),
        low=tuple(None if (i := point.beta_interval) is None else memory_place(i.lower) for point in task.points),
        high=tuple(None if (i := point.beta_interval) is None else memory_place(i.upper) for point in task.points),
        texts=tuple(_words(task.name, point) for point in task.points),
        group=name,
    )
    fitted, ends = Power(task.c, task.alpha), (task.points[0].budget, task.points[-1].budget)
    yield Trace(
        name=name,
        x=tuple(math.log10(end) for end in ends),
        y=tuple(-math.log10(fitted.rate(end)) for end in ends),
        color=color,
        dash=palette.dash(place + 1),
        texts=(name, name),
        group=name,
    )


def _reference(name: str, low: float, high: float, refreshes: float | None, color: str, slope: str) -> Trace:
    memory = [10.0, 10.0] if refreshes is None else [low / refreshes, high / refreshes]
    ends = (math.log10(low), math.log10(high))
    dash: Dash = "dotted" if refreshes is None else "solid"
    return Trace(
        name, ends, tuple(math.log10(one) for one in memory), color, dash, texts=(f"{name}: {slope}",) * 2, group=name
    )  # fmt: skip


def _words(name: str, point: SeriesPoint) -> str:
    place = "" if point.bracketed else ", the end of the betas swept"
    return (
        f"{name}, {point.budget:,g} steps: best β {short_beta(point.beta)}{_range(point.beta_interval)}{place}, "
        f"a memory of {memory_horizon(point.beta):,.3g} steps"
    )


def _range(interval: Interval | None) -> str:
    return "" if interval is None else f" ({interval.lower:.2f} to {interval.upper:.2f})"
