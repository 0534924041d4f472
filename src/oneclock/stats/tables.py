"""Every table of an analysis: plain values with their columns, nothing rendered.

First the five tables of the paper. They follow its protocol: rules by T_ES at the nearest swept beta, and gaps of plain
means to the oracle. Then tables that are not in the paper: rules side by side, baselines, learning rates, series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oneclock.rule import Power
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Series
from oneclock.stats.risk import Risk, RuleRow
from oneclock.stats.train_and_time import TimeRisk

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column: its heading, the group above it, and how its numbers are printed.

    `form` is a format specification ("{:.3f}" without the braces: ".3f"); `percent` multiplies a fraction by 100 first.
    """

    title: str
    group: str = ""
    form: str = ""
    percent: bool = False

    def show(self, value: Cell) -> str:
        """The cell as text; an unknown value is a dash.

        >>> Column("gap", form=".3f", percent=True).show(0.00515)
        '0.515'
        """
        if value is None:
            return "-"
        if isinstance(value, str):
            return value
        return format(value * 100 if self.percent else value, self.form)


@dataclass(frozen=True)
class Table:
    """A table of values: `rows` hold one value per column, `best` the (row, column) pairs to print in bold.

    `rules_after` are the rows below which a line is drawn (development above, held-out below); `notes` go under it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    rules_after: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def shown(self, row: int, column: int) -> str:
        """One cell as printed."""
        return self.columns[column].show(self.rows[row][column])


FIGURES = ("mean", "max", "cvar")
GROUPS = {"development": "Development", "heldout": "Held-out", "all": "All"}


def risk_columns(first: str, last: str, last_form: str = "") -> tuple[Column, ...]:
    figures = (
        Column(title, group, ".3f", percent=True) for group in GROUPS.values() for title in ("Mean", "Max", "CVaR")
    )
    return (Column(first), *figures, Column(last, form=last_form))


def interval_columns(figure: str, group: str, form: str, percent: bool = False) -> tuple[Column, ...]:
    """The columns of a figure and the two ends of its interval."""
    return tuple(Column(title, group, form, percent) for title in (figure, "from", "to"))


def bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    """Both ends of an interval as cells; two unknown ones if there is no interval."""
    return (None, None) if interval is None else (interval.lower, interval.upper)


def selected_betas(analysis: Analysis) -> Table:
    """Per experiment: horizon, oracle, the rule's choice and its gap with its interval."""
    rows: list[tuple[Cell, ...]] = []
    for experiment in analysis.experiments:
        point = next((point for point in experiment.points if point.beta == experiment.selected_beta), None)
        rows.append(
            (
                experiment.name,
                experiment.horizons.used,
                experiment.oracle_beta,
                experiment.selected_beta,
                experiment.selected_gap,
                point.excess if point else None,
                *bounds(point.interval if point else None),
            )
        )
    return Table(
        name="selected-betas",
        title=f"Betas selected by the refresh rule, R0 = {analysis.summary.refreshes:g}",
        columns=(
            Column("Experiment"),
            Column("T_ES", form=".0f"),
            Column("Oracle beta", form=".3f"),
            Column("Selected beta", form=".3f"),
            Column("Gap %", form=".3f", percent=True),
            *interval_columns("excess", "Paired by seed, %", ".3f", percent=True),
        ),
        rows=tuple(rows),
        notes=("Gap: of plain means, to the oracle. Paired by seed: excess over the best beta, with its 95 % CI.",),
        rules_after=_after_development([experiment.split for experiment in analysis.experiments]),
    )


def main_results(analysis: Analysis) -> Table:
    """The fixed beta and the refresh rule: mean, max and CVaR by split, and how many gaps are under 1 %."""
    rules = (analysis.summary.fixed, analysis.summary.refresh)
    return risk_table("main-results", "Relative gaps to the oracle", [(rule.name, rule) for rule in rules])


def r0_sweep(analysis: Analysis) -> Table:
    """The same for every candidate R0, below the fixed beta."""
    fixed = analysis.summary.fixed
    rules = [(f"R0={row.refreshes:g}", row.rule) for row in analysis.calibration.candidates]
    return risk_table("R0-sweep", "Sweep over R0", [(fixed.name, fixed), *rules])


def stability_intervals(analysis: Analysis) -> Table:
    """The horizons for which each selected beta stays."""
    stability = analysis.robustness.stability
    return Table(
        name="stability-intervals",
        title="Stability of the selected betas",
        columns=(
            Column("Experiment"),
            Column("Selected beta", form=".3f"),
            Column("T_ES", form=".0f"),
            Column("Lower T_ES", form=".0f"),
            Column("Upper T_ES", form=".0f"),
        ),
        rows=tuple((row.experiment, row.beta, row.horizon, row.lower, row.upper) for row in stability),
        rules_after=_after_development([row.split for row in stability]),
    )


def noise_robustness(analysis: Analysis) -> Table:
    """The refresh rule under noise in T_ES: figures expected of one repeat, below the fixed beta."""
    fixed = analysis.summary.fixed
    share = fixed.all.within / fixed.all.answered if fixed.all else None
    rows: list[tuple[Cell, ...]] = [(fixed.name, *_risk_cells(fixed), share)]
    for row in analysis.robustness.noise:
        risks = [getattr(row, split) for split in GROUPS]
        cells = [None if risk is None else getattr(risk, name).expected for risk in risks for name in FIGURES]
        rows.append((f"sigma={row.sigma:g}", *cells, None if row.all is None else row.all.within.expected))
    draws = max(row.draws for row in analysis.robustness.noise)
    return Table(
        name="noise-robustness",
        title="Noise in T_ES",
        columns=risk_columns("Method", "Gap < 1 %", ".2%"),
        rows=tuple(rows),
        notes=(f"Rows with sigma > 0 are means over repeats of {draws} draws per experiment.",),
    )


FIVE: tuple[Callable[[Analysis], Table], ...] = (
    selected_betas,
    main_results,
    stability_intervals,
    noise_robustness,
    r0_sweep,
)
"""The five tables of the paper, in its order."""


def risk_table(name: str, title: str, rules: Sequence[tuple[str, RuleRow]]) -> Table:
    rows = tuple((label, *_risk_cells(rule), _within(rule.all)) for label, rule in rules)
    return Table(
        name=name,
        title=title,
        columns=risk_columns("Method", "Gap < 1 %"),
        rows=rows,
        best=_best(rows, [rule.all for _, rule in rules]),
    )


def _risk_cells(rule: RuleRow) -> list[float | None]:
    risks = [getattr(rule, split) for split in GROUPS]
    return [None if risk is None else getattr(risk, name).value for risk in risks for name in FIGURES]


def _within(risk: Risk | None) -> str | None:
    return None if risk is None else f"{risk.within}/{risk.answered}"


def _best(rows: Sequence[tuple[Cell, ...]], risks: Sequence[Risk | None]) -> frozenset[tuple[int, int]]:
    """The smallest figure of each column and the most gaps under 1 %, among the rules with a beta everywhere."""
    able = [index for index, risk in enumerate(risks) if risk is not None and risk.answered == risk.experiments]
    best = set()
    for column in range(1, len(GROUPS) * len(FIGURES) + 1):
        values = {row: rows[row][column] for row in able if isinstance(rows[row][column], float)}
        best |= {(row, column) for row, value in values.items() if value == min(values.values())}  # type: ignore[type-var]
    counts = {row: risk.within for row in able if (risk := risks[row]) is not None}
    return frozenset(best | {(row, len(rows[row]) - 1) for row, n in counts.items() if n == max(counts.values())})


def _after_development(splits: Sequence[str]) -> tuple[int, ...]:
    count = sum(split == "development" for split in splits)
    return (count - 1,) if 0 < count < len(splits) else ()


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
            *interval_columns("mean", "Loss above it, %", ".2f", percent=True),
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
    """T_ES from every source, beside the planned steps."""
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
            *interval_columns("excess", "Loss above it, %", ".2f", percent=True),
        ),
        rows=tuple(rows),
        notes=("95 % CIs, paired by seed; those of one experiment hold together.",) if rows else (),
    )
    return _with_column(table, 2, Column("lr", form="g"), [pair.lr for _, pair in pairs])


def _with_column(table: Table, at: int, column: Column, values: Sequence[float | None]) -> Table:
    """The table with one more column at this position; unchanged if the column would be empty."""
    if all(value is None for value in values):
        return table
    rows = tuple((*row[:at], value, *row[at:]) for row, value in zip(table.rows, values, strict=True))
    return replace(table, columns=(*table.columns[:at], column, *table.columns[at:]), rows=rows)


def best_pairs(analysis: Analysis) -> Table:
    """The best pair of beta and learning rate, measured and by a fitted quadratic; no rows if one learning rate was
    swept.
    """
    rows: list[tuple[Cell, ...]] = []
    for result in analysis.experiments:
        if (surface := result.surface) is not None:
            beta, lr = map(bounds, (surface.beta_interval, surface.lr_interval))
            rows.append((result.name, result.best.beta, result.best.lr, surface.beta, *beta, surface.lr, *lr))
    measured = (Column("Experiment"), Column("beta", "Measured", "g"), Column("lr", "Measured", "g"))
    fitted = (*interval_columns("best", "Fitted beta", ".4f"), *interval_columns("best", "Fitted lr", ".3g"))
    return Table("best-pairs", "The best pair of beta and learning rate", measured + fitted, tuple(rows))


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
            *interval_columns("best", "beta", ".4f"),
            *interval_columns("best", "Refreshes", ".0f"),
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
"""All tables: the paper's five, and the others; a table has no rows if a study has no data for it."""
