"""The text of an analysis for a terminal of any width: wrapped, never cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from oneclock.plain_text import printable
from oneclock.report import words
from oneclock.report.several import overview_table
from oneclock.report.tables import shown_cells
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.experiments import ExperimentResult
from oneclock.stats.tables import EVERY, Table
from oneclock.stats.verdict import bounds_words, comparison_words, in_brackets


def in_words(analysis: Analysis, width: int = 80) -> str:
    """The first lines of an analysis, as `oneclock analyse` prints them: an answer with its betas, or one row each.

    Args:
        analysis: The result of `analyse`.
        width: Columns to wrap at.

    >>> from oneclock.stats import analyse
    >>> table = {"experiment": "aaa", "budget": [9_000] * 3, "beta": [0.5, 0.9, 0.99], "min_val_loss": [3, 1, 2]}
    >>> print(in_words(analyse(table)).splitlines()[0])
    Best beta 0.9 (one seed: no interval). Loss 1, 1 seed.
    """
    if len(analysis.experiments) == 1:
        (result,) = analysis.experiments
        lines = [*wrapped(words.answer(result), width), "", *_betas(result, width)]
    else:
        lines = [*wrapped(_over_all(analysis), width), "", *_experiments(analysis, width), "", *wrapped([_WHAT], width)]
    return "\n".join(map(printable, lines))


def details(analysis: Analysis, width: int = 80) -> str:
    """The text that `--full` adds: the answer of each of several experiments, every table, and what is missing."""
    lines: list[str] = []
    for result in analysis.experiments if len(analysis.experiments) > 1 else ():
        lines += ["", *wrapped([result.name], width), *wrapped(words.answer(result), width)]
    lines += ["", *wrapped(comparison_words(analysis.comparisons), width)]
    lines += [line for make in EVERY for line in table_lines(make(analysis), width)]
    missing = analysis.missing or ("nothing",)
    lines += ["", "Missing", *wrapped((f"- {sentence}" for sentence in missing), width)]
    return "\n".join(map(printable, lines))


def table_lines(table: Table, width: int) -> Iterator[str]:
    """A table under its title, with its notes; nothing if it has no rows, and no empty column of a group."""
    if table.rows:
        yield from ("", *wrapped([table.title], width))
        cells = shown_cells(table)
        kept = [at for at, one in enumerate(table.columns) if not one.group or any(row[at] != "-" for row in cells)]
        heads, groups = zip(*((table.columns[at].title, table.columns[at].group) for at in kept), strict=True)
        yield from columns(heads, [[row[at] for at in kept] for row in cells], width, groups)
        yield from wrapped(table.notes, width)


def columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, groups: Sequence[str] = ()
) -> Iterator[str]:
    """Rows of text under their heads, the first column left and the others right; a row too wide continues below.

    The columns of a group have its name above them and are not separated.

    >>> list(columns(("a", "b"), [("one", "2")], 20))
    ['a    b', 'one  2']
    >>> list(columns(("a", "b", "c"), [("one", "2", "3")], 20, ("", "both", "both")))
    ['     both', 'a    b  c', 'one  2  3']
    """
    wide = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines: list[list[tuple[str, list[int]]]] = [[]]  # the groups of columns on each line below one another
    used = wide[0]
    for name, members in groupby(range(1, len(heads)), key=lambda at: groups[at] if groups and groups[at] else at):
        group, title = list(members), name if isinstance(name, str) else ""
        wide[group[0]] += max(0, len(title) - sum(wide[at] + 2 for at in group) + 2)
        room = sum(wide[at] + 2 for at in group)
        if used + room > width:
            lines.append([])
            used = 3
        lines[-1].append((title, group))
        used += room
    for row in (None, heads, *rows):
        start = "" if row is None else row[0]
        if len(start) > width:
            yield from textwrap.wrap(start, width)
            start = "   "
        for number, parts in enumerate(lines):
            line = "   " if number else start.ljust(wide[0])
            for title, group in parts:
                cells = (
                    [row[at].rjust(wide[at]) for at in group]
                    if row
                    else [title.ljust(sum(wide[at] + 2 for at in group) - 2)]
                )
                line += "".join(f"  {cell}" for cell in cells)
            if row or line.strip():
                yield line.rstrip()


def wrapped(sentences: Iterable[str], width: int) -> Iterator[str]:
    """Sentences, each on as many lines as it needs."""
    for sentence in sentences:
        yield from textwrap.wrap(sentence, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)


def _betas(result: ExperimentResult, width: int) -> Iterator[str]:
    """Every beta compared with the best one, paired by seed: the comparisons behind the first line."""
    with_lr = any(point.lr is not None for point in result.points)
    heads = ("beta", *(("lr",) if with_lr else ()), "memory", "loss", "above best, %", "95 % CI", "seeds")
    rows = []
    for p in result.points:
        lr = ("-" if p.lr is None else f"{p.lr:g}",) if with_lr else ()
        at_most = "<= " if p.beta in result.best.not_measured else ""
        above = "best" if p.beta == result.best.beta else f"{at_most}{_percent(p.excess)}"
        ci = "-" if p.interval is None else f"{_percent(p.interval.lower)} to {_percent(p.interval.upper)}"
        rows.append((f"{p.beta:g}", *lr, f"{1 / (1 - p.beta):,.4g}", f"{p.loss:.5g}", above, ci, str(p.seeds)))
    yield from columns(heads, rows, width)


_HEADS = {"Best beta": "best", "(0.9, 0.999)": "0.9/0.999", "(0.9, 0.95)": "0.9/0.95", "recommended": "recom."}
"""Shorter heads, for 80 columns."""

_WHAT = (
    "0.9/0.999, 0.9/0.95, recom.: the loss with these betas and with the recommended beta, in percent above the "
    "best beta, paired by seed. *: statistically different from the best. -: not measured."
)


def _experiments(analysis: Analysis, width: int) -> Iterator[str]:
    """The table of the page's first screen, without the learning rates: they would not fit."""
    table = overview_table(analysis)
    kept = [at for at, column in enumerate(table.columns) if column.title != "lr"]
    heads = [_HEADS.get(column.title, column.title.lower().replace("ci", "CI")) for column in table.columns]
    rows = [
        [texts[at] + "*" * ((row, at) in table.best) for at in kept] for row, texts in enumerate(shown_cells(table))
    ]
    yield from columns([heads[at] for at in kept], rows, width)


def _over_all(analysis: Analysis) -> Iterator[str]:
    """What the recommended beta loses, and how the best beta moves with the training length."""
    yield from words.over_all(analysis)
    for series in analysis.series:
        lr = ""
        if series.lr_alpha is not None:
            lr = f", the best learning rate as steps ** {_exponent(series.lr_alpha, series.lr_alpha_interval)}"
        beta = _exponent(series.alpha, series.alpha_interval)
        yield f"{series.name}: the best 1 - beta goes as steps ** {beta}{lr}."


def _exponent(alpha: float, interval: Interval | None) -> str:
    """The exponent of steps for a value that falls as steps ** -alpha: positive if the value rises."""
    between = None if interval is None else Interval(-interval.upper, -interval.lower, interval.level)
    return f"{-alpha:.2f}{in_brackets(bounds_words(between))}"


def _percent(gap: float) -> str:
    """A fraction in percent, in up to three digits and two decimals."""
    value = 100 * gap
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"
