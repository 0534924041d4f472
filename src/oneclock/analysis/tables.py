"""The five tables of the paper, made from any analysis: plain values with their columns, nothing rendered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from oneclock.analysis.axis_tables import best_pairs, bounds, series
from oneclock.analysis.table import Cell, Column, Table
from oneclock.analysis.values import Analysis, Risk, RuleRow, TimeRisk

_FIGURES = ("mean", "max", "cvar")
_GROUPS = {"development": "Development", "heldout": "Held-out", "all": "All"}


def _risk_columns(first: str, last: str, last_form: str = "") -> tuple[Column, ...]:
    figures = (
        Column(title, group, ".3f", percent=True) for group in _GROUPS.values() for title in ("Mean", "Max", "CVaR")
    )
    return (Column(first), *figures, Column(last, form=last_form))


def selected_betas(analysis: Analysis) -> Table:
    """Per experiment: horizon, oracle, the rule's choice and its gap with its interval."""
    rows: list[tuple[Cell, ...]] = []
    for experiment in analysis.experiments:
        point = next((point for point in experiment.gaps if point.beta == experiment.selected_beta), None)
        interval = point.interval if point else None
        rows.append(
            (
                experiment.name,
                experiment.horizons.used,
                experiment.oracle_beta,
                experiment.selected_beta,
                experiment.selected_gap,
                interval.lower if interval else None,
                interval.upper if interval else None,
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
            Column("from", "Interval", ".3f", percent=True),
            Column("to", "Interval", ".3f", percent=True),
        ),
        rows=tuple(rows),
        rules_after=_after_development([experiment.split for experiment in analysis.experiments]),
    )


def main_results(analysis: Analysis) -> Table:
    """The fixed beta and the refresh rule: mean, max and CVaR by split, and how many gaps are under 1 %."""
    rules = (analysis.summary.fixed, analysis.summary.refresh)
    return _risk_table("main-results", "Relative gaps to the oracle", [(rule.name, rule) for rule in rules])


def r0_sweep(analysis: Analysis) -> Table:
    """The same for every candidate R0, below the fixed beta."""
    fixed = analysis.summary.fixed
    rules = [(f"R0={row.refreshes:g}", row.rule) for row in analysis.calibration.candidates]
    return _risk_table("R0-sweep", "Sweep over R0", [(fixed.name, fixed), *rules])


def rules_side_by_side(analysis: Analysis) -> Table:
    """The same for every rule of the arena."""
    return _risk_table("arena", "Rules side by side", [(rule.name, rule) for rule in analysis.arena])


def train_robustness(analysis: Analysis) -> Table:
    """The same on the training loss, where it was recorded; no rows where it was not."""
    rules = [(rule.name, rule) for rule in analysis.introduction.train]
    table = _risk_table("train-robustness", "Train robustness: relative gaps on the training loss", rules)
    return replace(table, notes=analysis.introduction.verdict)


def time_to_target(analysis: Analysis) -> Table:
    """Steps to 1.01 times the best validation loss over the oracle's own, by rule; no rows without curves."""
    rows: list[tuple[Cell, ...]] = []
    for row in analysis.introduction.times:
        cells = [_time(getattr(row, split), name) for split in _GROUPS for name in _FIGURES]
        rows.append((row.name, *cells, None if row.all is None else f"{row.all.reached}/{row.all.answered}"))
    columns = _risk_columns("Method", "Reached")
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
        risks = [getattr(row, split) for split in _GROUPS]
        cells = [None if risk is None else getattr(risk, name).expected for risk in risks for name in _FIGURES]
        rows.append((f"sigma={row.sigma:g}", *cells, None if row.all is None else row.all.within.expected))
    draws = max(row.draws for row in analysis.robustness.noise)
    return Table(
        name="noise-robustness",
        title="Noise in T_ES",
        columns=_risk_columns("Method", "Gap < 1 %", ".2%"),
        rows=tuple(rows),
        notes=(f"Rows with sigma > 0 are means over repeats of {draws} draws per experiment.",),
    )


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
    """Untied betas beside the sweep, with their gaps to the best tied beta; no rows where there are none."""
    arms = [(experiment.name, arm) for experiment in analysis.experiments for arm in experiment.arms]
    rows = [(name, arm.name, arm.seeds, arm.loss, arm.gap, *bounds(arm.interval)) for name, arm in arms]
    table = Table(
        name="baselines",
        title="Untied baselines",
        columns=(
            Column("Experiment"),
            Column("Betas"),
            Column("Seeds"),
            Column("Loss", form=".4g"),
            Column("Gap %", form=".3f", percent=True),
            Column("from", "Interval", ".3f", percent=True),
            Column("to", "Interval", ".3f", percent=True),
        ),
        rows=tuple(rows),
    )
    return _with_column(table, 2, Column("lr", form="g"), [arm.rate for _, arm in arms])


def _with_column(table: Table, at: int, column: Column, values: Sequence[float | None]) -> Table:
    """The table with one more column at this place; itself where there is no value."""
    if all(value is None for value in values):
        return table
    rows = tuple((*row[:at], value, *row[at:]) for row, value in zip(table.rows, values, strict=True))
    return replace(table, columns=(*table.columns[:at], column, *table.columns[at:]), rows=rows)


FIVE: tuple[Callable[[Analysis], Table], ...] = (
    selected_betas,
    main_results,
    stability_intervals,
    noise_robustness,
    r0_sweep,
)
"""The five tables of the paper, in its order."""

EVERY: tuple[Callable[[Analysis], Table], ...] = (
    *FIVE,
    horizons,
    best_pairs,
    baselines,
    rules_side_by_side,
    train_robustness,
    time_to_target,
    series,
)
"""Those, and what the paper has no table for; one that a study has nothing for has no rows."""


def _risk_table(name: str, title: str, rules: Sequence[tuple[str, RuleRow]]) -> Table:
    rows = tuple((label, *_risk_cells(rule), _within(rule.all)) for label, rule in rules)
    return Table(
        name=name,
        title=title,
        columns=_risk_columns("Method", "Gap < 1 %"),
        rows=rows,
        best=_best(rows, [rule.all for _, rule in rules]),
    )


def _risk_cells(rule: RuleRow) -> list[float | None]:
    risks = [getattr(rule, split) for split in _GROUPS]
    return [None if risk is None else getattr(risk, name).value for risk in risks for name in _FIGURES]


def _within(risk: Risk | None) -> str | None:
    return None if risk is None else f"{risk.within}/{risk.answered}"


def _best(rows: Sequence[tuple[Cell, ...]], risks: Sequence[Risk | None]) -> frozenset[tuple[int, int]]:
    """The smallest figure of each column and the most gaps under 1 %, among the rules with a beta everywhere."""
    able = [place for place, risk in enumerate(risks) if risk is not None and risk.answered == risk.experiments]
    best = set()
    for column in range(1, len(_GROUPS) * len(_FIGURES) + 1):
        values = {row: rows[row][column] for row in able if isinstance(rows[row][column], float)}
        best |= {(row, column) for row, value in values.items() if value == min(values.values())}  # type: ignore[type-var]
    counts = {row: risk.within for row in able if (risk := risks[row]) is not None}
    return frozenset(best | {(row, len(rows[row]) - 1) for row, n in counts.items() if n == max(counts.values())})


def _after_development(splits: Sequence[str]) -> tuple[int, ...]:
    count = sum(split == "development" for split in splits)
    return (count - 1,) if 0 < count < len(splits) else ()
