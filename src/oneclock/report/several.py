"""Several experiments: the table and the picture of the first screen; how the best memory grows with the length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from oneclock.recommend import short_beta
from oneclock.report import palette
from oneclock.report.chart import Chart, Dash, Figure, Trace, log_axis, memory_position, trace
from oneclock.report.sweeps import sweep_figure
from oneclock.rule import RECOMMENDED, REFRESHES, Fixed, Power, Refresh, Rule
from oneclock.runs.best import ci_words
from oneclock.runs.paired import Difference
from oneclock.stats.analyse import Analysis
from oneclock.stats.experiments import ExperimentResult
from oneclock.stats.exponents import Series, SeriesPoint
from oneclock.stats.tables import Cell, Column, Table
from oneclock.stats.verdict import bounds_words, in_brackets

SMALL_CUT = 2
"""As `CUT` of the sweep chart; smaller, because a small panel has to show the valley."""

DEFAULT_BETAS = ((0.9, 0.999), (0.9, 0.95))
"""The betas that people use by default: torch's, and those of large language models."""

ABOVE = "% above the best beta"


def overview_table(analysis: Analysis) -> Table:
    """One row per experiment: steps, the best beta with its 95 % CI, what default and recommended betas lose.

    Bold cells are significantly different from the best beta. The learning rate has a column where several were swept.
    """
    costs = [_costs(result) for result in analysis.experiments]
    with_lr = any(result.best.lr is not None for result in analysis.experiments)
    columns = [Column("Experiment"), Column("Steps", form=",g"), Column("Best beta"), Column("95 % CI")]
    columns += [Column("lr", form="g")] if with_lr else []
    first = len(columns)
    columns += [Column(name, ABOVE, ".2f", percent=True) for name in costs[0]]
    rows: list[tuple[Cell, ...]] = []
    different = set()
    for row, (result, cost) in enumerate(zip(analysis.experiments, costs, strict=True)):
        best = result.best
        beta = None if best.beta is None else short_beta(best.beta)
        interval = None if best.interval is None else ci_words(best.interval).partition("CI ")[2]
        lr = (best.lr,) if with_lr else ()
        above = (None if one is None else round(one.value, 4) + 0.0 for one in cost.values())
        rows.append((result.name, result.steps, beta, interval, *lr, *above))
        different |= {(row, at) for at, one in enumerate(cost.values(), first) if one and one.significant}
    notes = (_note(costs),)
    return Table("overview", "All experiments", tuple(columns), tuple(rows), frozenset(different), notes=notes)


def _costs(result: ExperimentResult) -> dict[str, Difference | None]:
    """The loss of each default pair and of the recommended beta above the best beta; None if not measured."""
    differences = {one.betas: one.difference for one in result.best.baselines}
    costs: dict[str, Difference | None] = {str(pair): differences.get(pair) for pair in DEFAULT_BETAS}
    rule = result.rules[0]
    measured = result.best.beta is not None and rule.excess is not None
    costs["recommended"] = Difference(rule.excess or 0.0, rule.interval) if measured else None
    return costs


def _note(costs: Sequence[dict[str, Difference | None]]) -> str:
    shown = [one for cost in costs for one in cost.values()]
    bold = " Bold: statistically different from the best beta." if any(one and one.significant for one in shown) else ""
    dash = " A dash: not measured." if None in shown else ""
    if any(one and math.isinf(one.value) for one in shown):
        dash += " inf: a run diverged."
    return f"Losses in percent above the best beta of the sweep, paired by seed; below 0 is better.{bold}{dash}"


def overview_figure(analysis: Analysis) -> Figure:
    """The series with its exponent where the study is one, and otherwise a small panel per experiment."""
    return next(series_figure(analysis), None) or sweep_figure(analysis, "overview", SMALL_CUT)


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
