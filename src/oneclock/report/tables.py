"""Tables as text: every cell as it is printed, and CSV files with the same cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from oneclock.plain_text import plain_cell
from oneclock.stats.tables import Table


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


def save_table(table: Table, folder: Path) -> Path:
    """Write folder/NAME.csv: one line of headings, cells as printed; words that begin like a formula get a quote."""
    rows = [
        [plain_cell(cell) if isinstance(value, str) else cell for cell, value in zip(shown, values, strict=True)]
        for shown, values in zip(shown_cells(table), table.rows, strict=True)
    ]
    return write_csv(folder / f"{table.name}.csv", headings(table), rows)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV file with a line of headings. Lines end as in RFC 4180: then a name may have any line break."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns])
        csv.writer(file).writerows(rows)
    return path
