"""Tables on paper: one table value as CSV and LaTeX, with the same cells in each.

`Table` and its columns come from `oneclock.stats.tables`; any text in them is escaped for every format.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from oneclock.plain_text import plain_cell
from oneclock.stats.tables import Table

FORMATS = ("csv", "tex")

_LATEX = {
    **{character: f"\\{character}" for character in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def headings(table: Table) -> list[str]:
    """One line of headings: each title with its group before it."""
    return [f"{column.group} {column.title}".strip() for column in table.columns]


def shown_cells(table: Table) -> list[list[str]]:
    """Every cell as printed, on one line, row by row, the same in all renderings."""
    wide = range(len(table.columns))
    return [[" ".join(table.shown(row, column).split()) for column in wide] for row in range(len(table.rows))]


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers and are aligned right; `9/11` counts as a number."""
    columns = zip(*shown_cells(table), strict=True) if table.rows else ([] for _ in table.columns)
    return [all(re.fullmatch(r"[-+]?[\d.,]+( ?%|/\d+)?|-|inf", text) for text in column) for column in columns]


def column_groups(table: Table) -> list[tuple[str, int]]:
    """The groups of columns from left to right, each with the number of its columns."""
    return [(group, len(list(members))) for group, members in groupby(table.columns, key=lambda one: one.group)]


def to_csv(table: Table) -> str:
    """Comma-separated text, one line of headings, cells as printed; words that begin like a formula get a quote."""
    text = io.StringIO()
    rows = [
        [plain_cell(cell) if isinstance(value, str) else cell for cell, value in zip(shown, values, strict=True)]
        for shown, values in zip(shown_cells(table), table.rows, strict=True)
    ]
    csv.writer(text, lineterminator="\n").writerows([headings(table), *rows])
    return text.getvalue()


def to_latex(table: Table) -> str:
    """A `table` environment to \\input in a document that loads booktabs; the best values are bold."""
    kinds = "".join("r" if numeric else "l" for numeric in numeric_columns(table))
    body = [
        "% \\usepackage{booktabs} in the preamble",
        r"\begin{table}[ht]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{latex_escaped(table.title)}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9-]+', '-', table.name)}}}",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        *_latex_groups(table),
        " & ".join(latex_escaped(column.title) for column in table.columns) + r" \\",
        r"\midrule",
    ]
    for row, texts in enumerate(shown_cells(table)):
        shown = [
            rf"\textbf{{{latex_escaped(text)}}}" if (row, column) in table.best else latex_escaped(text)
            for column, text in enumerate(texts)
        ]
        body.append(" & ".join(shown) + r" \\")
        if row in table.rules_after and row < len(table.rows) - 1:
            body.append(r"\midrule")
    body += [r"\bottomrule", r"\end{tabular}"]
    body += [rf"\par\smallskip\footnotesize {latex_escaped(note)}" for note in table.notes]
    return "\n".join([*body, r"\end{table}"]) + "\n"


def save_table(table: Table, folder: Path) -> list[Path]:
    """Write the table as folder/NAME.csv and NAME.tex. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{table.name}.{suffix}" for suffix in FORMATS]
    for path, text in zip(paths, (to_csv(table), to_latex(table)), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def latex_escaped(text: str) -> str:
    """Text escaped for LaTeX; a letter beyond Latin, which pdflatex cannot set, becomes its code point.

    >>> print(latex_escaped("R0_best & 5 %"), latex_escaped("é"), latex_escaped("中"))
    R0\\_best \\& 5 \\% é [U+4E2D]
    """
    return "".join(map(_latex_character, " ".join(text.split())))


def _latex_character(character: str) -> str:
    if " " <= character <= "~" or (character.isalpha() and character < "\u0180"):
        return _LATEX.get(character, character)
    return f"[U+{ord(character):04X}]"


def _latex_groups(table: Table) -> Iterator[str]:
    """The line of group headings, each over its columns, and the rules under them."""
    if not any(column.group for column in table.columns):
        return
    cells, rules, at = [], [], 1
    for group, wide in column_groups(table):
        cells.append(rf"\multicolumn{{{wide}}}{{c}}{{{latex_escaped(group)}}}")
        rules += [rf"\cmidrule(lr){{{at}-{at + wide - 1}}}"] if group else []
        at += wide
    yield " & ".join(cells) + r" \\"
    yield " ".join(rules)
