"""A CSV file as a table: its columns, and its rows one by one, with what cannot be read counted."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from oneclock import guards
from oneclock.logs.names import counted
from oneclock.logs.number_text import number

_DELIMITERS = (",", ";", "\t")
_DECIMAL = re.compile(r"[-+]?(?:\d*([.,])(?!\d{3}$)\d+|0([.,])\d+|\d{4,}([.,])\d+)(?:[eE][-+]?\d+)?")
_LONGEST_QUOTE = 2**16  # characters of a quoted cell over several lines
_MOST_LINES = 100  # of a quoted cell
_MOST_STRAYS = 100  # unclosed quotes; after this many, quotes no longer continue over lines


@dataclass
class CsvTable:
    """A CSV file's header and decimal mark (None if the first rows do not show it), and its rows one by one."""

    path: Path
    delimiter: str
    columns: list[str]
    first_row: list[str]
    decimal: str | None
    skipped: int = 0  # rows of another width
    strays: int = 0  # lines with a quote that is never closed
    torn: bool = False  # whether the last row is cut off
    counted: int = 0  # rows that were read

    @classmethod
    def open(cls, path: Path, columns: Sequence[str] | None = None) -> CsvTable:
        """Read the header, or use `columns` where the file has none. ValueError if it is not a table."""
        start = guards.head(path).splitlines()
        if not start:
            raise ValueError(f"{path} is empty, or not text")
        delimiter = max(_DELIMITERS, key=start[0].count)
        try:
            first_lines = [next(csv.reader([line], delimiter=delimiter), []) for line in (*start[:2], "")]
        except csv.Error as error:
            raise ValueError(f"its first lines are not a table: {error}") from None
        header, first_row, *_ = ([cell.strip() for cell in cells] for cells in first_lines)
        if columns is None and (not any(header) or all(number(column) is not None for column in header)):
            raise ValueError(f"{path} is a table without a header; name its columns: --columns step,val_loss")
        if columns is not None and len(columns) != len(header):
            raise ValueError(f"{path} has {len(header)} columns, and {len(columns)} are named: {','.join(columns)}")
        named, first_row = (header, first_row) if columns is None else (list(columns), header)
        if len(named) > guards.MOST_COLUMNS:
            raise ValueError(f"{path} has {len(named):,} columns, more than {guards.MOST_COLUMNS:,}; it is not a log")
        repeated = [column for column, times in Counter(named).items() if times > 1 and column]
        if repeated:
            raise ValueError(f"{path} has the column {repeated[0]!r} more than once; rename one of them")
        decimal = _decimal_mark(cell for line in start[1:] for cell in line.split(delimiter))
        if decimal is None and delimiter != "," and any("," in line for line in start[1:]):
            decimal = ","
        return cls(path, delimiter, named, first_row, decimal)

    def rows(self, wanted: Collection[str]) -> Iterator[dict[str, str]]:
        """The cells of the wanted columns, but empty ones, of every row as wide as the header; no repeated headers."""
        chosen = [(index, column) for index, column in enumerate(self.columns) if column in wanted]
        width, upto = len(self.columns), chosen[-1][0] + 1
        header, whole = self.columns[:upto], True
        lines = guards.read_lines(self.path)
        while (line := next(lines, None)) is not None:
            if '"' in line:
                cells, lines = self._quoted(line, lines)
                whole = len(cells) == width
            else:  # split only as far as needed: splitting takes most of the time of a large file
                cells = line.split(self.delimiter, upto)
                whole = line.count(self.delimiter) + 1 == width
            if not cells or not line:
                continue
            if not whole:
                self.skipped += 1
            elif not (cells[0].strip() == header[0] and [cell.strip() for cell in cells[:upto]] == header):
                self.counted += 1
                yield {column: cell for index, column in chosen if (cell := cells[index])}
        self.torn = not whole and self.skipped > 0 and not guards.ends_whole(self.path)
        self.skipped -= self.torn

    def _quoted(self, line: str, rest: Iterator[str]) -> tuple[list[str], Iterator[str]]:
        """The cells of a line with quotes and of those that a quoted cell runs on to, and the lines after them.

        A quote is stray if it never closes, or only after lines that are rows themselves. Then those are read as rows,
        and only the line with the quote is lost: it has no cells.
        """
        taken = [line]
        while (cells := self._parsed(taken)) is None:
            is_long = len(taken) > _MOST_LINES or sum(map(len, taken)) > _LONGEST_QUOTE or self.strays > _MOST_STRAYS
            if is_long or (one := next(rest, None)) is None:
                break
            taken.append(one)
            if self._is_row(one):
                break
        if cells is None:
            self.strays += 1
        return cells or [], rest if cells is not None else chain(taken[1:], rest)

    def _parsed(self, lines: list[str]) -> list[str] | None:
        """The cells of one row on these lines, None if a quote is not closed."""
        try:
            return next(csv.reader(["\n".join(lines)], delimiter=self.delimiter, strict=True))
        except csv.Error:
            return None

    def _is_row(self, line: str) -> bool:
        """Whether a line is a row by itself: as wide as the header, with numbers where the first row has them."""
        cells = [cell.strip('" ') for cell in line.split(self.delimiter)]
        beside_first = zip(cells, map(self.number, self.first_row), strict=False)
        values = [self.number(cell) for cell, value in beside_first if value is not None and cell]
        return len(cells) == len(self.columns) > 1 and bool(values) and None not in values

    def number(self, cell: str | None) -> float | None:
        """A cell as a number, None if it is empty or not a number."""
        if cell and self.decimal == "," and "," in cell:
            cell = cell.replace(".", "").replace(",", ".")
        return number(cell) if cell else None

    def warnings(self) -> list[str]:
        """Warnings about what was left out, after the rows are read."""
        warnings = ["the last line is cut off and was left out: the log may be truncated"] if self.torn else []
        if self.skipped:
            width = len(self.columns)
            warnings.append(f"left out: {counted(self.skipped, 'row')} without the header's {width} cells")
        if self.strays:
            warnings.append(f"left out: {counted(self.strays, 'line')} with a quote that is not closed")
        return warnings


def _decimal_mark(cells: Iterable[str]) -> str | None:
    """A point if any cell needs it, else a comma if any needs that. Before three digits it may separate thousands."""
    marks = {match[1] or match[2] or match[3] for cell in cells if (match := _DECIMAL.fullmatch(cell.strip(' "')))}
    return "." if "." in marks else "," if marks else None
