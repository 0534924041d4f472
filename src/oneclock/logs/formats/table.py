"""What the CSV formats share: tables, read row by row. Only the needed columns become numbers."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.number_text import StepText, number

_DELIMITERS = (",", ";", "\t")
_DECIMAL = re.compile(r"[-+]?(?:\d*([.,])(?!\d{3}$)\d+|0([.,])\d+|\d{4,}([.,])\d+)(?:[eE][-+]?\d+)?")
_LONGEST_QUOTE = 2**16  # characters of a quoted cell over several lines
_MOST_STRAYS = 100  # unclosed quotes; after this many, quotes no longer continue over lines


@dataclass
class CsvTable:
    """A CSV file's header, and its rows one by one.

    `rows` yields the cells and counts what it leaves out: rows of another width in `skipped`, lines with a quote that
    is never closed in `strays`, words if a number should be in `words`, and a row cut off at the end in `torn`.
    `decimal` is the decimal mark, None if the first rows do not show it.
    """

    path: Path
    delimiter: str
    columns: list[str]
    first_row: list[str]
    decimal: str | None = None
    headed: bool = True
    skipped: int = 0
    strays: int = 0
    torn: bool = False
    counted: int = 0
    words: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def open(cls, path: Path, columns: Sequence[str] | None = None) -> CsvTable:
        """Read the header, or use `columns` where the file has none. ValueError if it is not a table."""
        start = guards.head(path).splitlines()
        if not start:
            raise ValueError(f"{path} is empty, or not text")
        delimiter = max(_DELIMITERS, key=start[0].count)
        header, first_row = (_cells(start[line : line + 1], delimiter) for line in (0, 1))
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
        return cls(path, delimiter, named, first_row, decimal, headed=columns is None)

    def rows(self, columns: Iterable[str]) -> Iterator[Sequence[str]]:
        """Every row as wide as the header, its cells up to the last of `columns`; repeated headers are skipped.

        A row without quotes is split only as far as needed: splitting takes most of the time of a large file.
        """
        width, upto = len(self.columns), max(map(self.columns.index, columns)) + 1
        header, whole = self.columns[:upto], True
        rest = guards.read_lines(self.path)
        while (line := next(rest, None)) is not None:
            if '"' in line:
                cells, rest = self._quoted(line, rest)
                whole = cells is not None and len(cells) == width
            else:
                cells = line.split(self.delimiter, upto)
                whole = line.count(self.delimiter) + 1 == width
            if cells is None or not line:
                continue
            if not whole:
                self.skipped += 1
            elif not (cells[0].strip() == header[0] and [cell.strip() for cell in cells[:upto]] == header):
                self.counted += 1
                yield cells
        if not whole and self.skipped and not guards.ends_whole(self.path):
            self.torn = True
            self.skipped -= 1

    def _quoted(self, line: str, rest: Iterator[str]) -> tuple[list[str] | None, Iterator[str]]:
        """The cells of a line with quotes and of those that a quoted cell runs on to, None if a quote is stray.

        A quote is stray if it never closes, or only after lines that are rows themselves. Then those are read as rows,
        and only the line with the quote is lost. Returns the cells and the remaining lines.
        """
        taken: list[str] = []

        def following() -> Iterator[str]:
            size = 0
            while self.strays < _MOST_STRAYS and size < _LONGEST_QUOTE and (one := next(rest, None)) is not None:
                taken.append(one)
                if self._is_row(one):
                    return
                size += len(one) + 1
                yield f"{one}\n"

        try:
            cells = next(csv.reader(chain([f"{line}\n"], following()), delimiter=self.delimiter, strict=True))
        except csv.Error:
            self.strays += 1
            return None, chain(taken, rest) if taken else rest
        return [cell.removesuffix("\n") for cell in cells], rest

    def _is_row(self, line: str) -> bool:
        """Whether a line is a row by itself: as wide as the header, with numbers where the first row has them."""
        cells = [cell.strip('" ') for cell in line.split(self.delimiter)]
        if not len(cells) == len(self.columns) > 1:
            return False
        beside_first = zip(cells, map(self.number, self.first_row), strict=False)
        values = [self.number(cell) for cell, value in beside_first if value is not None and cell]
        return bool(values) and None not in values

    def number(self, cell: str) -> float | None:
        """A cell as a number, None if it is empty or not a number."""
        if not cell:
            return None
        if self.decimal == "," and "," in cell:
            cell = cell.replace(".", "").replace(",", ".")
        return number(cell)

    def number_in(self, column: str, cell: str) -> float | None:
        """A cell of that column as a number; a word in its place is counted."""
        value = self.number(cell)
        if value is None:
            self._count_word(column, cell)
        return value

    def steps(self, column: str | None) -> Callable[[Sequence[str]], float | None]:
        """A function from a row's cells to its step in that column; without a column, the number of the row."""
        if column is None:
            return lambda cells: float(self.counted)
        index, text = self.columns.index(column), StepText(self.path, self.decimal)
        if names.is_epoch(column):
            return lambda cells: self.number_in(column, cells[index])

        def step(cells: Sequence[str]) -> float | None:
            value = text.number(cells[index])
            if value is None:
                self._count_word(column, cells[index])
            return value

        return step

    def _count_word(self, column: str, cell: str) -> None:
        if word := cell.strip():
            self.words[column, word[:40] if len(self.words) < _MOST_STRAYS else "..."] += 1

    def warnings(self) -> list[str]:
        """Warnings about what was left out, after the rows are read."""
        warnings = []
        if self.torn:
            warnings.append("the last line is cut off and was left out: the log may be truncated")
        if self.skipped:
            warnings.append(
                f"{self.skipped:,} rows do not have the header's {len(self.columns)} cells and were left out"
            )
        if self.strays:
            warnings.append(f"{self.strays:,} lines have a quote that is not closed and were left out")
        for column in dict.fromkeys(column for column, _ in self.words):
            words = {word: times for (where, word), times in self.words.items() if where == column}
            example = max(words, key=lambda word: words[word])
            count = sum(words.values())
            warnings.append(f"{count:,} cells of {column!r} are not numbers and were left out, for example {example!r}")
        return warnings


def columns_of(path: Path) -> list[str]:
    """The columns' names, nothing if the path is not a table."""
    try:
        return CsvTable.open(path).columns
    except ValueError:
        return []


def _cells(line: list[str], delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(line, delimiter=delimiter), [])]
    except csv.Error as error:
        raise ValueError(f"its first lines are not a table: {error}") from None


def _decimal_mark(cells: Iterable[str]) -> str | None:
    """The decimal mark of the cells: a point if any of them needs it, else a comma if any needs that, else None.

    A mark before three digits may separate thousands, so it decides nothing.

    >>> _decimal_mark(["12.000", "2,31"]), _decimal_mark(["12,000", "2.31"]), _decimal_mark(["12.000", "2"])
    (',', '.', None)
    """
    marks = {match[1] or match[2] or match[3] for cell in cells if (match := _DECIMAL.fullmatch(cell.strip(' "')))}
    return "." if "." in marks else "," if marks else None
