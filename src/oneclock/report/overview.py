"""The first screen of several experiments: one table and one picture, for the page and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oneclock.recommend import short_beta
from oneclock.report.chart import Figure
from oneclock.report.several import series_figure
from oneclock.report.sweeps import sweep_figure
from oneclock.runs.best import ci_words
from oneclock.runs.paired import Difference
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import ExperimentResult
from oneclock.stats.tables import Cell, Column, Table

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
