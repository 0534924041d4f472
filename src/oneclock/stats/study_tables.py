"""The tables of a study that the paper has none of: rules side by side, baselines, learning rates, series.

Plain values with their columns, nothing rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from oneclock.rule import Power
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Series
from oneclock.stats.paper_tables import FIGURES, FIVE, GROUPS, Cell, Column, Table, bounds, risk_columns, risk_table
from oneclock.stats.train_and_time import TimeRisk


def rules_side_by_side(analysis: Analysis) -> Table:
    """Every rule at its own beta for the planned steps: mean, max and CVaR of its excess loss, by split."""
    table = risk_table(
        "rules", "Rules side by side: excess loss over the best beta", [(r.name, r) for r in analysis.rules]
    )
    note = (
        "Each rule at its own beta for the planned steps, interpolated between the swept ones, paired by seed. "
        "An experiment that was not swept near a rule's beta is left out for that rule."
    )
    return replace(table, notes=(note,))


def comparisons(analysis: Analysis) -> Table:
    """Rules two at a time: the mean difference by random effects; the CIs hold for all rows together."""
    rows = tuple(
        (one.first, one.second, one.difference, *bounds(one.interval), one.differing, one.better, one.worse)
        for one in analysis.comparisons
    )
    return Table(
        name="rule-comparisons",
        title="Rules compared two at a time",
        columns=(
            Column("Rule"),
            Column("Against"),
            Column("mean", "Loss above it, %", ".2f", percent=True),
            Column("from", "Loss above it, %", ".2f", percent=True),
            Column("to", "Loss above it, %", ".2f", percent=True),
            Column("Experiments"),
            Column("better", "Significantly"),
            Column("worse", "Significantly"),
        ),
        rows=rows,
        notes=("95 % CIs that hold for all rows together. Experiments: those in which the two have different betas.",),
    )


def train_robustness(analysis: Analysis) -> Table:
    """The same on the training loss, where it was recorded; no rows where it was not."""
    rules = [(rule.name, rule) for rule in analysis.train_and_time.train]
    table = risk_table("train-robustness", "Train robustness: relative gaps on the training loss", rules)
    return replace(table, notes=analysis.train_and_time.verdict)


def time_to_target(analysis: Analysis) -> Table:
    """Steps to 1.01 times the best validation loss over the oracle's own, by rule; no rows without curves."""
    rows: list[tuple[Cell, ...]] = []
    for row in analysis.train_and_time.times:
        cells = [_time(getattr(row, split), name) for split in GROUPS for name in FIGURES]
        rows.append((row.name, *cells, None if row.all is None else f"{row.all.reached}/{row.all.answered}"))
    columns = risk_columns("Method", "Reached")
    return Table(
        name="time-to-target",
        title="Time to target, in units of the oracle's own",
        columns=tuple(replace(column, percent=False) if column.group else column for column in columns),
        rows=tuple(rows),
        notes=(
            "The target is 1.01 times the smallest L. A beta that never reaches it counts with its whole budget: "
            ">= is at least so much. Left out are experiments where the oracle's own median seed stays above it.",
        ),
    )


def _time(risk: TimeRisk | None, name: str) -> Cell:
    if risk is None:
        return None
    value = getattr(risk, name).value
    return value if risk.reached == risk.answered else f">= {value:.3f}"


def horizons(analysis: Analysis) -> Table:
    """T_ES in every way it is known, beside the planned steps."""
    rows = [(e.name, e.budget, e.horizons.given, e.horizons.stop, e.horizons.best) for e in analysis.experiments]
    return Table(
        name="horizons",
        title="T_ES by both conventions",
        columns=(
            Column("Experiment"),
            Column("Budget", form=".0f"),
            Column("given", "T_ES", ".0f"),
            Column("stop", "T_ES", ".0f"),
            Column("best", "T_ES", ".0f"),
        ),
        rows=tuple(rows),
    )


def baselines(analysis: Analysis) -> Table:
    """Untied pairs beside the sweep, each against the recommended beta; no rows where there are none."""
    pairs = [(experiment.name, pair) for experiment in analysis.experiments for pair in experiment.baselines]
    rows = [
        (name, one.name, one.seeds, one.loss, one.against, one.excess, *bounds(one.interval)) for name, one in pairs
    ]
    table = Table(
        name="baselines",
        title="Baselines against the recommended beta",
        columns=(
            Column("Experiment"),
            Column("Betas"),
            Column("Seeds"),
            Column("Loss", form=".4g"),
            Column("Against beta", form=".3g"),
            Column("excess", "Loss above it, %", ".2f", percent=True),
            Column("from", "Loss above it, %", ".2f", percent=True),
            Column("to", "Loss above it, %", ".2f", percent=True),
        ),
        rows=tuple(rows),
        notes=("95 % CIs, paired by seed; those of one experiment hold together.",) if rows else (),
    )
    return _with_column(table, 2, Column("lr", form="g"), [pair.lr for _, pair in pairs])


def _with_column(table: Table, at: int, column: Column, values: Sequence[float | None]) -> Table:
    """The table with one more column at this place; itself where there is no value."""
    if all(value is None for value in values):
        return table
    rows = tuple((*row[:at], value, *row[at:]) for row, value in zip(table.rows, values, strict=True))
    return replace(table, columns=(*table.columns[:at], column, *table.columns[at:]), rows=rows)


def best_pairs(analysis: Analysis) -> Table:
    """The best pair of beta and learning rate, measured and by a fitted bowl; no rows where one rate was swept."""
    rows: list[tuple[Cell, ...]] = []
    for result in analysis.experiments:
        if (surface := result.surface) is not None:
            beta, lr = map(bounds, (surface.beta_interval, surface.lr_interval))
            rows.append((result.name, result.best.beta, result.best.lr, surface.beta, *beta, surface.lr, *lr))
    betas = (Column(title, "Fitted beta", ".4f") for title in ("best", "from", "to"))
    lr_columns = (Column(title, "Fitted lr", ".3g") for title in ("best", "from", "to"))
    measured = (Column("beta", "Measured", "g"), Column("lr", "Measured", "g"))
    columns = (Column("Experiment"), *measured, *betas, *lr_columns)
    return Table("best-pairs", "The best pair of beta and learning rate", columns, tuple(rows))


def series(analysis: Analysis) -> Table:
    """The best beta at each budget of a controlled series, with its interval; no rows where there is none."""
    rows: list[tuple[Cell, ...]] = []
    lines: list[int] = []
    for one in analysis.series:
        for point in one.points:
            beta, refreshes = map(bounds, (point.beta_interval, point.refreshes_interval))
            inside = "yes" if point.bracketed else "no"
            rows.append((one.name, point.budget, point.beta, *beta, point.refreshes, *refreshes, inside))
        lines.append(len(rows) - 1)
    return Table(
        name="series",
        title="The best beta where only the horizon differs",
        columns=(
            Column("Series"),
            Column("Budget", form=".0f"),
            Column("best", "beta", ".4f"),
            Column("from", "beta", ".4f"),
            Column("to", "beta", ".4f"),
            Column("best", "Refreshes", ".0f"),
            Column("from", "Refreshes", ".0f"),
            Column("to", "Refreshes", ".0f"),
            Column("Bracketed"),
        ),
        rows=tuple(rows),
        rules_after=tuple(lines[:-1]),
        notes=tuple(_alpha(one) for one in analysis.series),
    )


def _alpha(one: Series) -> str:
    def shown(value: float, interval: Interval | None) -> str:
        return f"{value:.2f}" + (f" (95 % CI {interval.lower:.2f} to {interval.upper:.2f})" if interval else "")

    flat = "; one beta for all lengths is not excluded" if one.flat else ""
    power = f"1 - beta = {one.c:.3g} (T / {Power.t0:,}) ** -alpha"
    lr = ""
    if one.lr_alpha is not None:
        lr = f"; lr ~ T ** -alpha with alpha {shown(one.lr_alpha, one.lr_alpha_interval)}"
    return f"{one.name}: {power} with alpha {shown(one.alpha, one.alpha_interval)}{flat}{lr}"


EVERY: tuple[Callable[[Analysis], Table], ...] = (
    *FIVE,
    horizons,
    best_pairs,
    baselines,
    rules_side_by_side,
    comparisons,
    train_robustness,
    time_to_target,
    series,
)
"""The paper's five, and these; one that a study has nothing for has no rows."""
