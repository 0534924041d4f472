"""The tables of the paper's protocol: first the paper's five, then those that it has not. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from oneclock.lab.protocol.analysis import ProtocolAnalysis
from oneclock.lab.protocol.risk import ProtocolRow, Risk
from oneclock.lab.protocol.train_and_time import TimeRisk
from oneclock.plain_text import printable
from oneclock.report.brief import table_lines, wrapped
from oneclock.stats.tables import Cell, Column, Table

FIGURES = ("mean", "max", "cvar")
GROUPS = {"development": "Development", "heldout": "Held-out", "all": "All"}


def risk_columns(first: str, last: str, last_form: str = "") -> tuple[Column, ...]:
    figures = (
        Column(title, group, ".3f", percent=True) for group in GROUPS.values() for title in ("Mean", "Max", "CVaR")
    )
    return (Column(first), *figures, Column(last, form=last_form))


def selected_betas(analysis: ProtocolAnalysis) -> Table:
    """Per experiment: horizon, oracle, the rule's choice and its gap."""
    return Table(
        name="selected-betas",
        title=f"Betas selected by the refresh rule, R0 = {analysis.summary.refreshes:g}",
        columns=(
            Column("Experiment"),
            Column("T_ES", form=".0f"),
            Column("Oracle beta", form=".3f"),
            Column("Selected beta", form=".3f"),
            Column("Gap %", form=".3f", percent=True),
        ),
        rows=tuple(
            (one.name, one.horizons.used, one.oracle_beta, one.selected_beta, one.selected_gap)
            for one in analysis.experiments
        ),
        rules_after=_after_development([one.split for one in analysis.experiments]),
    )


def main_results(analysis: ProtocolAnalysis) -> Table:
    """The fixed beta and the refresh rule: mean, max and CVaR by split, and how many gaps are under 1 %."""
    rules = (analysis.summary.fixed, analysis.summary.refresh)
    return risk_table("main-results", "Relative gaps to the oracle", [(rule.name, rule) for rule in rules])


def r0_sweep(analysis: ProtocolAnalysis) -> Table:
    """The same for every candidate R0, below the fixed beta."""
    fixed = analysis.summary.fixed
    rules = [(f"R0={row.refreshes:g}", row.rule) for row in analysis.calibration.candidates]
    return risk_table("R0-sweep", "Sweep over R0", [(fixed.name, fixed), *rules])


def stability_intervals(analysis: ProtocolAnalysis) -> Table:
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


def noise_robustness(analysis: ProtocolAnalysis) -> Table:
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


FIVE: tuple[Callable[[ProtocolAnalysis], Table], ...] = (
    selected_betas,
    main_results,
    stability_intervals,
    noise_robustness,
    r0_sweep,
)
"""The five tables of the paper, in its order."""


def risk_table(name: str, title: str, rules: Sequence[tuple[str, ProtocolRow]]) -> Table:
    rows = tuple((label, *_risk_cells(rule), _within(rule.all)) for label, rule in rules)
    return Table(
        name=name,
        title=title,
        columns=risk_columns("Method", "Gap < 1 %"),
        rows=rows,
        best=_best(rows, [rule.all for _, rule in rules]),
    )


def _risk_cells(rule: ProtocolRow) -> list[float | None]:
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


def rules(analysis: ProtocolAnalysis) -> Table:
    """Every rule by the paper's protocol."""
    return risk_table(
        "protocol-rules", "Rules at T_ES: relative gaps to the oracle", [(r.name, r) for r in analysis.rules]
    )


def train_robustness(analysis: ProtocolAnalysis) -> Table:
    """The same on the training loss, where it was recorded; no rows where it was not."""
    rules = [(rule.name, rule) for rule in analysis.train_and_time.train]
    table = risk_table("train-robustness", "Train robustness: relative gaps on the training loss", rules)
    return replace(table, notes=analysis.train_and_time.verdict)


def time_to_target(analysis: ProtocolAnalysis) -> Table:
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


def horizons(analysis: ProtocolAnalysis) -> Table:
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


EVERY: tuple[Callable[[ProtocolAnalysis], Table], ...] = (*FIVE, rules, horizons, train_robustness, time_to_target)
"""All tables; a table has no rows if a study has no data for it."""


def in_words(analysis: ProtocolAnalysis, width: int) -> Iterator[str]:
    """Every table and every verdict as lines of text."""
    for make in EVERY:
        yield from map(printable, table_lines(make(analysis), width))
    parts = {"Summary": analysis.summary.verdict, "Calibration": analysis.calibration.verdict}
    for title, sentences in {**parts, "Missing": analysis.missing}.items():
        yield from ("", title)
        yield from map(printable, wrapped((f"- {sentence}" for sentence in sentences or ("nothing",)), width))
