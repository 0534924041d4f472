"""A table as plain values: columns that know how their numbers are printed, rows, and what to point out."""

from __future__ import annotations

from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column: its heading, the group above it, and how its numbers are printed.

    `form` is a format specification ("{:.3f}" without the braces: ".3f"); `percent` multiplies a fraction by 100 first.
    """

    title: str
    group: str = ""
    form: str = ""
    percent: bool = False

    def show(self, value: Cell) -> str:
        """The cell as text; an unknown value is a dash.

        >>> Column("gap", form=".3f", percent=True).show(0.00515)
        '0.515'
        """
        if value is None:
            return "-"
        if isinstance(value, str):
            return value
        return format(value * 100 if self.percent else value, self.form)


@dataclass(frozen=True)
class Table:
    """A table of values: `rows` hold one value per column, `best` the (row, column) places to set in bold.

    `rules_after` are the rows below which a line is drawn (development above, held-out below); `notes` go under it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    rules_after: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def shown(self, row: int, column: int) -> str:
        """One cell as printed."""
        return self.columns[column].show(self.rows[row][column])
