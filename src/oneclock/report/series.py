"""The figure of a controlled series: how the best memory grows where nothing but the horizon differs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Literal

from oneclock.report import palette
from oneclock.report.chart import Chart, Dash, Figure, Trace, log_axis, memory_place, short_beta
from oneclock.rule import RECOMMENDED, Fixed, Power, Refresh, Rule
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Series as Task
from oneclock.stats.exponents import SeriesPoint

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
        "The best memory at each length of training, from a parabola through the losses, with its 95 % CI. The slope "
        "of a line is the exponent alpha of 1 - beta ~ steps ** -alpha. A side without a bar has no bound."
    )
    yield Figure("series", "The best memory over the length of training", caption, (chart,))


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
        low=tuple(_end(point.beta_interval, "lower") for point in task.points),
        high=tuple(_end(point.beta_interval, "upper") for point in task.points),
        texts=tuple(_words(task.name, point) for point in task.points),
        group=name,
    )
    fitted, ends = Power(task.c, task.alpha), (task.points[0].budget, task.points[-1].budget)
    yield Trace(
        name=name,
        x=tuple(math.log10(end) for end in ends),
        y=tuple(-math.log10(fitted.one_minus_beta(end)) for end in ends),
        color=color,
        dash=palette.dash(place + 1),
        texts=(name, name),
        group=name,
    )


def _end(interval: Interval | None, end: Literal["lower", "upper"]) -> float | None:
    """Where an interval of beta ends on the axis of memories; None where it is open."""
    bound = None if interval is None else getattr(interval, end)
    return memory_place(bound) if bound is not None and 0 < bound < 1 else None


def _reference(name: str, rule: Rule, low: float, high: float, color: str, dash: Dash) -> Trace:
    """A rule's memory over the steps."""
    steps = [low * (high / low) ** (place / POINTS) for place in range(POINTS + 1)]
    memories = [1 / rule.one_minus_beta(one) for one in steps]
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
    beta = short_beta(max(point.beta, 0.0))
    return (
        f"{name}, {point.budget:,g} steps: best β {beta}{_range(point.beta_interval)}{place}, "
        f"a memory of {1 / (1 - point.beta):,.3g} steps"
    )


def _range(interval: Interval | None) -> str:
    """The 95 % CI in brackets; nothing where there is none, and words where it has no bounds."""
    if interval is None:
        return ""
    if math.isinf(interval.lower) and math.isinf(interval.upper):
        return " (no bounds)"
    if math.isinf(interval.lower) or math.isinf(interval.upper):
        at_most = math.isinf(interval.lower)
        return f" (at {'most' if at_most else 'least'} {interval.upper if at_most else interval.lower:.2f})"
    return f" ({interval.lower:.2f} to {interval.upper:.2f})"
