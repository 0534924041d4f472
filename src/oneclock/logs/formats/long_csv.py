"""A long table: several metrics below one another, named by a column (`metric` with `value`, or `split`)."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import names
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.source import Contents, Runs, Wanted, part_prefix

FORMAT = "long CSV"


def sniff(path: Path) -> bool:
    try:
        table = CsvTable.open(path)
    except ValueError:
        return False
    if not any(table.number(cell) is not None for cell in table.first_row):
        return False
    return _labelled(table) is not None or bool(part_prefix(dict(zip(table.columns, table.first_row, strict=False))))


def load(path: Path, wanted: Wanted) -> Contents:
    """Each row's metrics are called as its own cells say: what `metric` holds, or `val/loss` where `split` is `val`.

    So training and validation are never mixed, whatever the column of the values is called.
    """
    table = CsvTable.open(path)
    step = names.choose_step(table.columns, wanted.step, path)
    labelled, runs, step_of = _labelled(table), Runs(path), table.steps(step)
    for cells in table.rows(table.columns):
        row = dict(zip(table.columns, cells, strict=True))
        at = step_of(cells)
        label = ", ".join(f"{column} {cell}" for column, cell in row.items() if names.is_run(column))
        run, prefix = runs.of(label, label or path.stem), part_prefix(row)
        for metric, value in _values(table, row, labelled):
            if at is not None and value is not None:
                run.add(prefix + metric, at, value, wanted)
    return Contents(FORMAT, runs.all(), step, names.step_candidates(table.columns), table.warnings())


def _labelled(table: CsvTable) -> tuple[str, str] | None:
    """The columns of names and values, where the first row has a word and a number there."""
    columns = names.long_columns(table.columns)
    if columns is None or len(table.first_row) != len(table.columns):
        return None
    label, value = (table.first_row[table.columns.index(column)] for column in columns)
    return columns if label and table.number(label) is None and table.number(value) is not None else None


def _values(table: CsvTable, row: dict[str, str], labelled: tuple[str, str] | None) -> list[tuple[str, float | None]]:
    if labelled is not None:
        label, value = labelled
        return [(row[label].strip(), table.number_in(value, row[value]))]
    return [(column, table.number(cell)) for column, cell in row.items() if not names.is_position(column)]
