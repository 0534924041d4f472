"""Comma-separated tables, streamed: what the CSV formats share. Only the columns needed become numbers."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from oneclock.logs.formats import lines
from oneclock.logs.source import number

_DELIMITERS = (",", ";", "\t")


@dataclass
class CsvTable:
    """A CSV file's header, and its rows as they come.

    `rows` yields the cells; what it had to leave out is counted in `skipped`, a row cut off at the end in `torn`.
    """

    path: Path
    delimiter: str
    columns: list[str]
    first_row: list[str]
    skipped: int = 0
    torn: bool = False
    counted: int = 0
    _decimal_comma: bool = field(default=False, repr=False)

    @classmethod
    def open(cls, path: Path) -> CsvTable:
        """Read the header. Raises ValueError where there is none."""
        start = lines.head(path).splitlines()
        if not start:
            raise ValueError(f"{path} is empty, or holds no text")
        delimiter = max(_DELIMITERS, key=start[0].count)
        columns, first_row = (_cells(start[line : line + 1], delimiter) for line in (0, 1))
        if not any(columns) or all(number(column) is not None for column in columns):
            raise ValueError(f"{path} has no header line; put the columns' names on the first line")
        repeated = [column for column, times in Counter(columns).items() if times > 1 and column]
        if repeated:
            raise ValueError(f"{path} has the column {repeated[0]!r} more than once; rename one of them")
        decimal_comma = delimiter == ";" and "," in "".join(first_row)
        return cls(path, delimiter, columns, first_row, _decimal_comma=decimal_comma)

    def rows(self, columns: Iterable[str]) -> Iterator[Sequence[str]]:
        """Every row as wide as the header, its cells up to the last of `columns`; repeated headers are passed over.

        A row without quotes is split no further than needed: that is most of the time a large file takes.
        """
        width, upto = len(self.columns), max(map(self.columns.index, columns)) + 1
        header, whole = self.columns[:upto], True
        rest = lines.lines(self.path)
        for line in rest:
            if '"' in line:
                cells = next(csv.reader(chain([line], rest), delimiter=self.delimiter))
                whole = len(cells) == width
            else:
                whole = line.count(self.delimiter) + 1 == width
                cells = line.split(self.delimiter, upto)
            if whole and not (cells[0].strip() == header[0] and [cell.strip() for cell in cells[:upto]] == header):
                self.counted += 1
                yield cells
            elif not whole and line:
                self.skipped += 1
        if not whole and not lines.ends_whole(self.path):
            self.torn = True
            self.skipped -= 1

    def number(self, cell: str) -> float | None:
        """A cell as a number, None where it is empty or no number."""
        if not cell:
            return None
        return number(cell.replace(",", ".") if self._decimal_comma else cell)

    def warnings(self) -> list[str]:
        """What was left out, once the rows are read."""
        found = []
        if self.torn:
            found.append("the last line is cut off and was left out: the log may be truncated")
        if self.skipped:
            found.append(f"{self.skipped:,} rows do not have the header's {len(self.columns)} cells and were left out")
        return found


def _cells(line: list[str], delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(line, delimiter=delimiter), [])]
    except csv.Error as error:
        raise ValueError(f"its first lines are no table: {error}") from None
