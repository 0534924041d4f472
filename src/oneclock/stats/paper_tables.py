"""The five tables of the paper, made from any analysis: plain values with their columns, nothing rendered.

They follow the paper's protocol: rules by T_ES at the nearest swept beta, and gaps of plain means to the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.risk import Risk, RuleRow

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
    """A table of values: `rows` hold one value per column, `best` the (row, column) places to set in bold.

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
            Column("excess", "Paired by seed, %", ".3f", percent=True),
            Column("from", "Paired by seed, %", ".3f", percent=True),
            Column("to", "Paired by seed, %", ".3f", percent=True),
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


def bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    """Both ends of an interval as cells; of none, two that are not known."""
    return (None, None) if interval is None else (interval.lower, interval.upper)
