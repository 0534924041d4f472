"""The figure over several experiments: how the best memory grows with the length of training in a series."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from oneclock.recommend import short_beta
from oneclock.report import palette
from oneclock.report.chart import Chart, Dash, Figure, Trace, log_axis, memory_position, trace
from oneclock.rule import RECOMMENDED, REFRESHES, Fixed, Power, Refresh, Rule
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Series, SeriesPoint
from oneclock.stats.verdict import bounds_words, in_brackets

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
    x = log_axis("planned steps", low, high)
    y = log_axis("memory 1 / (1 - β), steps", 10 ** (min(heights) - 0.05), 10 ** (max(heights) + 0.05))
    chart = Chart("", x, y, tuple(one for one in drawn if one.x))
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
    low = tuple(p.beta_interval and _end(p.beta_interval.lower) for p in task.points)
    high = tuple(p.beta_interval and _end(p.beta_interval.upper) for p in task.points)
    yield trace(task.name, optima, color, marker=palette.marker(index), low=low, high=high, group=name)
    fitted = Power(task.c, task.alpha)
    budgets = (task.points[0].budget, task.points[-1].budget)
    line = [(math.log10(steps), -math.log10(fitted.one_minus_beta(steps)), name) for steps in budgets]
    yield trace(name, line, color, palette.dash(index + 1))


def _end(beta: float) -> float | None:
    """Where an interval of beta ends on the axis of memories; None if it is open."""
    return memory_position(beta) if 0 < beta < 1 else None


def _reference(name: str, rule: Rule, low: float, high: float, color: str, dash: Dash) -> Trace:
    """A rule's memory over the steps; nothing where the rule has no beta."""
    line = []
    for piece in range(PIECES + 1 if low < high else 0):
        steps = low * (high / low) ** (piece / PIECES)
        memory = 1 / rule.one_minus_beta(steps)
        text = f"{name}, {steps:,.0f} steps: a memory of {memory:,.3g}"
        line.append((math.log10(steps), math.log10(memory), text))
    return trace(name, line, color, dash)


def _words(name: str, point: SeriesPoint) -> str:
    edge = "" if point.bracketed else ", the end of the betas swept"
    beta = short_beta(max(point.beta, 0.0))
    between = in_brackets(bounds_words(point.beta_interval, low=0, high=1))
    return (
        f"{name}, {point.budget:,g} steps: best β {beta}{between}{edge}, a memory of {1 / (1 - point.beta):,.3g} steps"
    )
