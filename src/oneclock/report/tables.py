"""Tables on paper: one table value and its renderings, with the same cells in each.

`Table` and its columns come from `oneclock.stats.tables`; any text in them is escaped for every format.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from oneclock.plain_text import plain_cell
from oneclock.stats.tables import Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\u2080": r"\textsubscript{0}",
    "\u2081": r"\textsubscript{1}",
    "\u2082": r"\textsubscript{2}",
}
_GREEK = re.compile("alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega")
_ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u0327": "c "}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&-])")


def headings(table: Table) -> list[str]:
    """One line of headings: each title with its group before it."""
    return [f"{column.group} {column.title}".strip() for column in table.columns]


def shown_cells(table: Table) -> list[list[str]]:
    """Every cell as printed, on one line, row by row, the same in all renderings."""
    wide = range(len(table.columns))
    return [[" ".join(table.shown(row, column).split()) for column in wide] for row in range(len(table.rows))]


def to_csv(table: Table) -> str:
    """Comma-separated text, one line of headings, cells as printed; words that begin like a formula get a quote."""
    text = io.StringIO()
    rows = [
        [plain_cell(cell) if isinstance(value, str) else cell for cell, value in zip(shown, values, strict=True)]
        for shown, values in zip(shown_cells(table), table.rows, strict=True)
    ]
    csv.writer(text, lineterminator="\n").writerows([headings(table), *rows])
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table under its title; the best values are bold."""
    lines = [f"**{markdown_escaped(table.title)}**", ""]
    lines.append("| " + " | ".join(markdown_escaped(heading) for heading in headings(table)) + " |")
    lines.append("|" + "|".join(" ---: " if numeric else " --- " for numeric in numeric_columns(table)) + "|")
    for row, texts in enumerate(shown_cells(table)):
        shown = [
            f"**{markdown_escaped(text)}**" if (row, column) in table.best else markdown_escaped(text)
            for column, text in enumerate(texts)
        ]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join([*lines, *(f"\n{markdown_escaped(note)}" for note in table.notes)]) + "\n"


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
    """Write the table as folder/NAME.csv, .md and .tex. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
        path = folder / f"{table.name}.{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers and are aligned right; `9/11` counts as a number."""
    columns = zip(*shown_cells(table), strict=True) if table.rows else ([] for _ in table.columns)
    return [all(re.fullmatch(r"[-+]?[\d.,]+( ?%|/\d+)?|-|inf", text) for text in column) for column in columns]


def markdown_escaped(text: str) -> str:
    """Text escaped for Markdown: no emphasis, no HTML, no cell or line break.

    >>> print(markdown_escaped("a|b <i>"))
    a\\|b \\<i\\>
    """
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split())) if not _plain(text) else text


def latex_escaped(text: str) -> str:
    """Text escaped for LaTeX; a letter that pdflatex cannot set becomes its code point.

    >>> print(latex_escaped("R0_best & 5 %"), latex_escaped("é"), latex_escaped("中"))
    R0\\_best \\& 5 \\% \\'{e} [U+4E2D]
    """
    return "".join(map(_latex_character, " ".join(text.split())))


def _plain(text: str) -> bool:
    """Numbers and words that need no escaping stay readable in the source."""
    return re.fullmatch(r"[\w .,:/%=()+-]*", text) is not None and "__" not in text and not re.match(r"[-+=]", text)


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if " " <= character <= "~":
        return character
    greek = unicodedata.name(character, "").removeprefix("GREEK SMALL LETTER ").lower()
    if _GREEK.fullmatch(greek):
        return rf"\(\{greek}\)"
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in _ACCENTS:
        return rf"\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"[U+{ord(character):04X}]"


def _latex_groups(table: Table) -> Iterator[str]:
    """The line of group headings, each over its columns, and the rules under them."""
    if not any(column.group for column in table.columns):
        return
    spans, at = [], 1
    for group, members in groupby(table.columns, key=lambda column: column.group):
        wide = len(list(members))
        spans.append((group, at, at + wide - 1))
        at += wide
    shown = [
        rf"\multicolumn{{{last - first + 1}}}{{c}}{{{latex_escaped(group)}}}" if group else "& " * (last - first)
        for group, first, last in spans
    ]
    yield " & ".join(shown) + r" \\"
    yield " ".join(rf"\cmidrule(lr){{{first}-{last}}}" for group, first, last in spans if group)
