"""The text of an analysis for a terminal of any width: the answer or one table first, then details on request.

The text is wrapped and never cut: a row that does not fit continues on the next line.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from oneclock.plain_text import printable
from oneclock.report import words
from oneclock.report.overview import overview_table
from oneclock.report.tables import shown_cells
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import BetaPoint, ExperimentResult
from oneclock.stats.verdict import comparison_words


def in_words(analysis: Analysis, width: int = 80) -> str:
    """The first lines of an analysis: for one experiment its answer and its betas, for several one row each.

    Args:
        analysis: The result of `analyse`.
        width: Columns to wrap at.

    Returns:
        Plain text, as `oneclock analyse` prints it.

    >>> from oneclock.stats import analyse
    >>> table = {"experiment": "aaa", "budget": [9_000] * 3, "beta": [0.5, 0.9, 0.99], "min_val_loss": [3, 1, 2]}
    >>> print(in_words(analyse(table, draws=10, repeats=5)).splitlines()[0])
    Best beta 0.9 (one seed: no interval). Loss 1, 1 seed.
    """
    if len(analysis.experiments) == 1:
        (result,) = analysis.experiments
        lines = [*_wrapped(words.answer(result), width), "", *_betas(result, width)]
    else:
        answer, evidence = list(_over_all(analysis)), list(_experiments(analysis, width))
        lines = [*_wrapped(answer, width), "", *evidence, "", *_wrapped([_WHAT], width)]
    return "\n".join(map(printable, lines))


def _betas(result: ExperimentResult, width: int) -> Iterator[str]:
    """Every beta compared with the best one, paired by seed: the comparisons behind the first line."""
    rows = [
        (f"{p.beta:g}", f"{1 / (1 - p.beta):,.4g}", f"{p.loss:.5g}", _above(p, result), _between(p), str(p.seeds))
        for p in result.points
    ]
    heads = ("beta", "memory", "loss", "above best, %", "95 % CI", "seeds")
    yield from columns(*_with_lrs(heads, rows, [p.lr for p in result.points], 1), width)


def _above(point: BetaPoint, result: ExperimentResult) -> str:
    if point.beta == result.best.beta:
        return "best"
    return f"{'<= ' if point.beta in result.best.not_measured else ''}{_percent(point.excess)}"


def _with_lrs(
    heads: Sequence[str], rows: Sequence[Sequence[str]], lrs: Sequence[float | None], at: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The same with a column of learning rates at this index; unchanged if none were swept."""
    if all(lr is None for lr in lrs):
        return heads, rows
    shown = ["-" if lr is None else f"{lr:g}" for lr in lrs]
    wider = [(*row[:at], lr, *row[at:]) for row, lr in zip(rows, shown, strict=True)]
    return (*heads[:at], "lr", *heads[at:]), wider


_HEADS = {"Best beta": "best", "(0.9, 0.999)": "0.9/0.999", "(0.9, 0.95)": "0.9/0.95", "recommended": "recom."}
"""Shorter heads, for 80 columns."""

_WHAT = (
    "0.9/0.999, 0.9/0.95, recom.: the loss with these betas and with the recommended beta, in percent above the "
    "best beta, paired by seed. *: statistically different from the best. -: not measured."
)


def _experiments(analysis: Analysis, width: int) -> Iterator[str]:
    """The table of the page's first screen; without the learning rates if they do not fit."""
    table = overview_table(analysis)
    heads = [_HEADS.get(column.title, column.title.lower().replace("ci", "CI")) for column in table.columns]
    rows = [
        [text + "*" * ((row, at) in table.best) for at, text in enumerate(texts)]
        for row, texts in enumerate(shown_cells(table))
    ]
    if "lr" in heads and _width([heads, *rows]) > width:
        lr = heads.index("lr")
        heads, rows = _without(heads, lr), [_without(row, lr) for row in rows]
    yield from columns(heads, rows, width)


def _without(row: list[str], column: int) -> list[str]:
    return row[:column] + row[column + 1 :]


def _width(table: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(*table, strict=True)) - 2


def _over_all(analysis: Analysis) -> Iterator[str]:
    """What the recommended beta loses, and how the best beta moves with the training length."""
    yield from words.over_all(analysis)
    for series in analysis.series:
        lr = ""
        if series.lr_alpha is not None:
            lr = f", the best learning rate as steps ** {_exponent(series.lr_alpha, series.lr_alpha_interval)}"
        beta = _exponent(series.alpha, series.alpha_interval)
        yield f"{series.name}: the best 1 - beta goes as steps ** {beta}{lr}."


def details(analysis: Analysis, width: int = 80) -> str:
    """The text that `--full` adds: the answer of each of several experiments, and the rules in pairs."""
    lines: list[str] = []
    for result in analysis.experiments if len(analysis.experiments) > 1 else ():
        lines += ["", *_wrapped([result.name], width), *_wrapped(words.answer(result), width)]
    return "\n".join(map(printable, lines)) + compared(analysis, width)


def compared(analysis: Analysis, width: int = 80) -> str:
    """One sentence per pair of rules; empty if there is nothing to compare."""
    lines = list(_wrapped(comparison_words(analysis.comparisons), width))
    return "\n".join(map(printable, ["", *lines])) if lines else ""


def _exponent(alpha: float, interval: Interval | None) -> str:
    """The exponent of steps for a value that falls as steps ** -alpha: positive if the value rises.

    >>> _exponent(0.42, Interval(0.33, 0.5, 0.95)), _exponent(-0.11, None)
    ('-0.42 (95 % CI -0.50 to -0.33)', '0.11')
    """
    if interval is not None and math.isinf(interval.lower) and math.isinf(interval.upper):
        return f"{-alpha:.2f} (95 % CI has no bounds)"
    return f"{-alpha:.2f}" + ("" if interval is None else f" (95 % CI {-interval.upper:.2f} to {-interval.lower:.2f})")


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Rows of text under their heads, the first column left and the others right; a row too wide continues below.

    >>> list(columns(("a", "b"), [("one", "2")], 20))
    ['a    b', 'one  2']
    """
    table = [heads, *rows]
    wide = [max(len(row[column]) for row in table) for column in range(len(heads))]
    for row in table:
        cells = [row[0].ljust(wide[0]), *(cell.rjust(wide[column]) for column, cell in enumerate(row[1:], start=1))]
        yield from _folded(cells, width)


def _folded(cells: Sequence[str], width: int) -> Iterator[str]:
    line = cells[0]
    for cell in cells[1:]:
        if len(line) + 2 + len(cell) > width:
            yield line.rstrip()
            line = "   "
        line += "  " + cell
    yield line.rstrip()


def _wrapped(sentences: Iterable[str], width: int) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(sentence, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)


def _percent(gap: float) -> str:
    """A fraction in percent, in up to three digits and two decimals.

    >>> [_percent(gap) for gap in (0.2574, 0.0466, 0.0007)]
    ['25.7', '4.66', '0.07']
    """
    value = 100 * gap
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def _between(point: BetaPoint) -> str:
    interval = point.interval
    return "-" if interval is None else f"{_percent(interval.lower)} to {_percent(interval.upper)}"
