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
from oneclock.rule import RECOMMENDED, Fixed, Power, Refresh, Rule, memory_horizon
from oneclock.study.best import Interval

POINTS = 36
"""A rule's line has so many pieces, for it may bend."""


def series_figure(analysis: Analysis) -> Iterator[Figure]:
    """The best memory of every series over its budgets, with the fitted powers and the memories of rules."""
    if not analysis.series:
        return
    budgets = [point.budget for task in analysis.series for point in task.points]
    low, high = min(budgets) / 1.5, max(budgets) * 1.5
    drawn = [*chain.from_iterable(_task(place, task) for place, task in enumerate(analysis.series))]
    refreshes = analysis.summary.refreshes
    drawn += [
        _reference("recommended", RECOMMENDED, low, high, palette.INK, "dashdot"),
        _reference(
            f"refresh rule, R₀ = {refreshes:g}", Refresh(refreshes), max(low, refreshes), high, palette.RULE, "solid"
        ),
        _reference("fixed β = 0.9", Fixed(0.9), low, high, palette.FIXED, "dotted"),
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


def _reference(name: str, rule: Rule, low: float, high: float, color: str, dash: Dash) -> Trace:
    """A rule's memory over the steps."""
    steps = [low * (high / low) ** (place / POINTS) for place in range(POINTS + 1)]
    memories = [1 / rule.rate(one) for one in steps]
    return Trace(
        name=name,
        x=tuple(map(math.log10, steps)),
        y=tuple(map(math.log10, memories)),
        color=color,
        dash=dash,
        texts=tuple(
            f"{name}, {step:,.0f} steps: a memory of {memory:,.3g}"
            for step, memory in zip(steps, memories, strict=True)
        ),
        group=name,
    )


def _words(name: str, point: SeriesPoint) -> str:
    place = "" if point.bracketed else ", the end of the betas swept"
    return (
        f"{name}, {point.budget:,g} steps: best β {short_beta(point.beta)}{_range(point.beta_interval)}{place}, "
        f"a memory of {memory_horizon(point.beta):,.3g} steps"
    )


def _range(interval: Interval | None) -> str:
    return "" if interval is None else f" ({interval.lower:.2f} to {interval.upper:.2f})"
