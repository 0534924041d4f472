"""The first screen of several experiments: one table and one picture, for the page and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from oneclock.report import palette
from oneclock.report.chart import Chart, Figure, Trace, memory_axis, memory_place, number_axis, padded
from oneclock.report.notebook_view import drawn, not_drawn
from oneclock.report.series import series_figure
from oneclock.report.sweeps import all_betas, point_words
from oneclock.runs.best import ci_words, short_beta
from oneclock.runs.paired import Difference
from oneclock.stats.analyse import Analysis
from oneclock.stats.paper_tables import Cell, Column, Table
from oneclock.stats.results import ExperimentResult
from oneclock.stats.verdict import interval_words, percent

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
    if with_lr:
        columns.append(Column("lr", form="g"))
    first = len(columns)
    columns += [Column(name, ABOVE, ".2f", percent=True) for name in costs[0]]
    rows = [
        (*_found(result, with_lr), *(None if one is None else round(one.value, 4) + 0.0 for one in cost.values()))
        for result, cost in zip(analysis.experiments, costs, strict=True)
    ]
    different = frozenset(
        (row, first + place)
        for row, cost in enumerate(costs)
        for place, one in enumerate(cost.values())
        if one is not None and one.significant
    )
    return Table("overview", "All experiments", tuple(columns), tuple(rows), different, notes=tuple(_notes(costs)))


def _found(result: ExperimentResult, with_lr: bool) -> tuple[Cell, ...]:
    best = result.best
    beta = None if best.beta is None else short_beta(best.beta)
    interval = None if best.interval is None else ci_words(best.interval).partition("CI ")[2]
    return (result.name, result.steps, beta, interval, *((best.lr,) if with_lr else ()))


def _costs(result: ExperimentResult) -> dict[str, Difference | None]:
    """The loss of each default pair and of the recommended beta above the best beta; None where not measured."""
    known = {one.betas: one.difference for one in result.best.baselines}
    costs: dict[str, Difference | None] = {str(pair): known.get(pair) for pair in DEFAULT_BETAS}
    rule = next(rule for rule in result.rules if rule.name == "recommended")
    costs["recommended"] = None if rule.excess is None else Difference(rule.excess, rule.interval)
    return costs


def _notes(costs: Sequence[dict[str, Difference | None]]) -> Iterator[str]:
    shown = [one for cost in costs for one in cost.values()]
    bold = " Bold: statistically different from the best beta." if any(one and one.significant for one in shown) else ""
    dash = " A dash: not measured." if None in shown else ""
    if any(one and math.isinf(one.value) for one in shown):
        dash += " inf: a run diverged."
    yield f"Losses in percent above the best beta of the sweep, paired by seed; below 0 is better.{bold}{dash}"


def overview_figure(analysis: Analysis) -> Figure:
    """The series with its exponent where the study is one, and otherwise a small panel per experiment."""
    for figure in series_figure(analysis):
        return figure
    betas = all_betas(analysis)
    charts = tuple(small_chart(result, betas) for result in drawn(analysis))
    caption = "The loss at each beta, in percent above the best beta (the star). High losses are cut off."
    caption = " ".join(filter(None, (caption, not_drawn(analysis))))
    return Figure("overview", "All sweeps", caption, charts, min(3, len(charts)))


def small_chart(result: ExperimentResult, betas: Sequence[float]) -> Chart:
    """The valley of one experiment in percent above the best beta, with the recommended beta and the default betas."""
    points = [point for point in result.points if math.isfinite(point.excess)]
    axis, name = memory_axis(betas), "each beta"
    valley = Trace(
        name=name,
        x=tuple(memory_place(point.beta) for point in points),
        y=tuple(100 * point.excess for point in points),
        color=palette.CURVE,
        marker="circle",
        texts=tuple(map(point_words, points)),
        group=name,
    )
    marks = [*_best(result), *_recommended(result), *_default_betas(result, axis.low, axis.high)]
    marked = [value for one in marks for value in one.y]
    known = [*marked, *([min(valley.y), median(valley.y)] if points else ()), 0.0, 0.5]
    return Chart(
        title=result.name, x=axis, y=number_axis("% above best", *padded(known, 0.1), 4), series=(valley, *marks)
    )


def _best(result: ExperimentResult) -> Iterator[Trace]:
    if result.best.beta is not None:
        text = result.best.summary
        yield _mark("best beta", memory_place(result.best.beta), 0.0, palette.ORACLE, "star", text)


def _recommended(result: ExperimentResult) -> Iterator[Trace]:
    rule = next(rule for rule in result.rules if rule.name == "recommended")
    if rule.beta is not None and rule.excess is not None and math.isfinite(rule.excess):
        name = "recommended beta"
        text = f"{name} {short_beta(rule.beta)}: {percent(rule.excess)} above the best{interval_words(rule.interval)}"
        yield _mark(name, memory_place(rule.beta), 100 * rule.excess, palette.RULE, "frame", text)


def _mark(name: str, x: float, y: float, color: str, marker: str, text: str) -> Trace:
    return Trace(name, (x,), (y,), color, "none", marker, texts=(text,), group=name)  # type: ignore[arg-type]


def _default_betas(result: ExperimentResult, low: float, high: float) -> Iterator[Trace]:
    """Level lines: a pair of betas has no place on the axis."""
    for place, (name, cost) in enumerate(_costs(result).items(), start=1):
        if name == "recommended" or cost is None or not math.isfinite(cost.value):
            continue
        text = f"{name}: {percent(cost.value)} above the best{interval_words(cost.interval)}"
        level = (100 * cost.value,) * 2
        yield Trace(name, (low, high), level, palette.FIXED, palette.dash(place), texts=(text,) * 2, group=name)
