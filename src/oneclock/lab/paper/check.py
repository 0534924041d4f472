"""Compares every number that the paper prints with the same number recomputed, cell by cell.

A cell is `exact` (must agree to the printed digit), `range` (a random number: the printed one must lie in the sampling
range of 20-draw repeats), `given` (an input of the computation, shown and not counted), or `slip`. A slip is a mistake
of the paper: the printed number follows from the paper's rounded numbers instead of the exact ones. Slips are shown and
counted separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from oneclock.lab.paper.published import FIXED, losses_study, printed
from oneclock.lab.protocol.analysis import ProtocolAnalysis, analyse_protocol
from oneclock.lab.protocol.data import protocol_data
from oneclock.lab.protocol.horizons import horizons_of
from oneclock.lab.protocol.robustness import NoiseRow, noise_study
from oneclock.lab.protocol.tables import FIVE
from oneclock.rule import REFRESHES, Refresh
from oneclock.runs.sweeps import Sweeps
from oneclock.stats.tables import Table

Kind = Literal["exact", "range", "given", "slip"]

LEVEL = 0.999
"""Level of the sampling range for random numbers; it is wide because there are 60 of them."""

_SPLITS = ("development", "heldout", "all")
_FIGURES = ("mean", "max", "cvar")


@dataclass(frozen=True)
class CheckedCell:
    """One number: as printed, as recomputed (for `range`: lower to upper), and whether they agree (None: not
    compared).
    """

    printed: str
    computed: str
    kind: Kind
    agrees: bool | None


@dataclass(frozen=True)
class CheckedRow:
    """A row of figures."""

    label: str
    cells: tuple[CheckedCell, ...]


@dataclass(frozen=True)
class CheckedTable:
    """A table with its counts. `cells` counts exact cells; random ones and slips are counted separately."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[CheckedRow, ...]
    cells: int
    matched: int
    mismatched: int
    random: int
    in_range: int
    slips: int


@dataclass(frozen=True)
class PaperCheck:
    """All tables, the numbers in the text as a sixth one, and the counts over all of them."""

    source: str
    tables: tuple[CheckedTable, ...]
    cells: int
    matched: int
    mismatched: int
    random: int
    in_range: int
    slips: int
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True if every exact figure agrees and every random one lies in its range."""
        return self.mismatched == 0 and self.in_range == self.random


def check_paper(study: Sweeps | None = None) -> PaperCheck:
    """Recompute everything from the authors' published losses, or from other losses of the same eleven experiments."""
    source = study or losses_study()
    analysis = analyse_protocol(source, fixed=FIXED, draws=100, repeats=100)
    data = protocol_data(source.sweeps, [horizons_of(sweep) for sweep in source.sweeps], 1)
    noise = noise_study(data, Refresh(REFRESHES), level=LEVEL)
    tables = [*(_check_table(make(analysis), noise) for make in FIVE), _text_table(analysis)]
    return PaperCheck(
        source="published losses" if study is None else "losses given",
        tables=tuple(tables),
        cells=sum(table.cells for table in tables),
        matched=sum(table.matched for table in tables),
        mismatched=sum(table.mismatched for table in tables),
        random=sum(table.random for table in tables),
        in_range=sum(table.in_range for table in tables),
        slips=sum(table.slips for table in tables),
        notes=tuple(_notes(study is None, tables)),
    )


def _check_table(table: Table, noise: Sequence[NoiseRow]) -> CheckedTable:
    paper = printed()[table.name]
    columns = _LAYOUT.get(table.name)
    rows = []
    for place, (printed_row, row) in enumerate(zip(paper.rows, table.rows, strict=True)):
        if columns is None:
            random = _is_random(table.name, place)
            shown = zip(printed_row[1:], table.columns[1:], row[1:], strict=True)
            cells = [
                _range_cell(text, noise[place - 1], at) if random else _cell(text, column.show(value))
                for at, (text, column, value) in enumerate(shown)
            ]
        else:
            cells = [
                _cell(printed_row[paper.columns.index(name)], table.columns[at].show(row[at]), given=name == "T_ES")
                for name, at in columns.items()
            ]
        rows.append(CheckedRow(str(row[0]), tuple(cells)))
    return _counted(table.name, table.title, paper.columns[1:] if columns is None else tuple(columns), rows)


def _is_random(name: str, place: int) -> bool:
    """The rows with sigma > 0, below the fixed beta and sigma = 0."""
    return name == "noise-robustness" and place >= 2


_LAYOUT = {
    "selected-betas": {"T_ES": 1, "beta_star": 2, "selected_beta": 3, "relative_gap_pct": 4},
    "stability-intervals": {"T_ES": 2, "selected_beta": 1, "lower_T_ES": 3, "upper_T_ES": 4},
}
"""Printed column -> our column, where the tables have different columns."""


def _cell(text: str, computed: str, given: bool = False, from_rounded: str | None = None) -> CheckedCell:
    if given:
        return CheckedCell(text, computed, "given", None)
    if text != computed and text == from_rounded:
        return CheckedCell(text, computed, "slip", None)
    return CheckedCell(text, computed, "exact", text == computed)


def _range_cell(text: str, row: NoiseRow, at: int) -> CheckedCell:
    """The printed number against its range, with half a printed digit of tolerance for rounding."""
    split, figure = (_SPLITS[at // 3], _FIGURES[at % 3]) if at < 9 else ("all", "within")
    interval = getattr(getattr(row, split), figure)
    lower, upper = interval.lower * 100, interval.upper * 100
    slack = 0.5 * 10.0 ** -len(text.rstrip("%").partition(".")[2])
    agrees = lower - slack <= float(text.rstrip("%")) <= upper + slack
    return CheckedCell(text, f"{lower:.3f} to {upper:.3f}", "range", agrees)


def _text_table(analysis: ProtocolAnalysis) -> CheckedTable:
    """The numbers in the paper's running text."""
    rows = []
    for where, what, text, compute in _TEXT:
        from_rounded = _reduction("max", rounded=True)(analysis) if "maximum" in what and "reduction" in what else None
        rows.append(CheckedRow(f"{where}: {what}", (_cell(text, compute(analysis), from_rounded=from_rounded),)))
    return _counted("text", "Figures in the text", ["figure"], rows)


def _risk(rule: str, split: str, figure: str) -> Callable[[ProtocolAnalysis], str]:
    def compute(analysis: ProtocolAnalysis) -> str:
        return f"{getattr(getattr(getattr(analysis.summary, rule), split), figure).value * 100:.3f}"

    return compute


def _reduction(figure: str, rounded: bool = False) -> Callable[[ProtocolAnalysis], str]:
    """By how many percent the refresh rule lowers a number of the fixed beta; `rounded` uses the printed numbers."""

    def compute(analysis: ProtocolAnalysis) -> str:
        summary = analysis.summary
        fixed, refresh = (getattr(rule.all, figure).value for rule in (summary.fixed, summary.refresh))
        if rounded:
            fixed, refresh = round(fixed, 5), round(refresh, 5)
        return f"{(fixed - refresh) / fixed * 100:.1f}"

    return compute


def _within(rule: str) -> Callable[[ProtocolAnalysis], str]:
    def compute(analysis: ProtocolAnalysis) -> str:
        risk = getattr(analysis.summary, rule).all
        return f"{risk.within}/{risk.answered}"

    return compute


def _selected(pick: Callable[[list[float]], float]) -> Callable[[ProtocolAnalysis], str]:
    return lambda analysis: f"{pick([e.selected_beta or 0.0 for e in analysis.experiments]):.3f}"


def _mean_width(analysis: ProtocolAnalysis) -> str:
    return f"{(analysis.robustness.mean_width or 0.0) * 100:.1f}"


_TEXT: tuple[tuple[str, str, str, Callable[[ProtocolAnalysis], str]], ...] = (
    ("abstract", "reduction of the maximum gap, %", "33.4", _reduction("max")),
    ("abstract", "runs within 1 %", "11/11", _within("refresh")),
    ("results", "smallest selected beta", "0.822", _selected(min)),
    ("results", "largest selected beta", "0.968", _selected(max)),
    ("results", "fixed, development mean", "0.264", _risk("fixed", "development", "mean")),
    ("results", "fixed, global mean", "0.290", _risk("fixed", "all", "mean")),
    ("results", "fixed, global maximum", "1.328", _risk("fixed", "all", "max")),
    ("results", "refresh, global maximum", "0.885", _risk("refresh", "all", "max")),
    ("results", "reduction of the maximum, %", "33.4", _reduction("max")),
    ("results", "fixed, global CVaR", "1.059", _risk("fixed", "all", "cvar")),
    ("results", "refresh, global CVaR", "0.713", _risk("refresh", "all", "cvar")),
    ("results", "reduction of CVaR, %", "32.7", _reduction("cvar")),
    ("results", "refresh, within 1 %", "11/11", _within("refresh")),
    ("results", "fixed, within 1 %", "9/11", _within("fixed")),
    ("conclusion", "fixed, global maximum", "1.328", _risk("fixed", "all", "max")),
    ("conclusion", "refresh, global maximum", "0.885", _risk("refresh", "all", "max")),
    ("conclusion", "fixed, global CVaR", "1.059", _risk("fixed", "all", "cvar")),
    ("conclusion", "refresh, global CVaR", "0.713", _risk("refresh", "all", "cvar")),
    ("conclusion", "refresh, within 1 %", "11/11", _within("refresh")),
    ("appendix", "mean width of the stability intervals, %", "77.8", _mean_width),
)


def _notes(published: bool, tables: Sequence[CheckedTable]) -> Iterator[str]:
    whose = "the authors' published losses, every cell and seed" if published else "the losses given"
    yield f"Computed from {whose}; T_ES is the paper's where the table has none, and not counted."
    yield f"Random rows: the {LEVEL:.1%} range of 20-draw repeats."
    for table in tables:
        for row in table.rows:
            for cell in row.cells:
                if cell.kind == "slip":
                    yield (
                        f"{row.label}: printed {cell.printed}, which is what the rounded figures give; unrounded it is "
                        f"{cell.computed}. The slip is the paper's."
                    )


def _counted(name: str, title: str, columns: Sequence[str], rows: Sequence[CheckedRow]) -> CheckedTable:
    cells = [cell for row in rows for cell in row.cells]
    exact = [cell for cell in cells if cell.kind == "exact"]
    random = [cell for cell in cells if cell.kind == "range"]
    matched = sum(bool(cell.agrees) for cell in exact)
    return CheckedTable(
        name=name,
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        cells=len(exact),
        matched=matched,
        mismatched=len(exact) - matched,
        random=len(random),
        in_range=sum(bool(cell.agrees) for cell in random),
        slips=sum(cell.kind == "slip" for cell in cells),
    )
