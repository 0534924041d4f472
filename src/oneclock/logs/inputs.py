"""Tables in memory as logs. The readers get a CSV file."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oneclock import guards

Table = Any
"""Columns by name: a mapping, or a DataFrame (pandas or polars)."""


def is_table(source: object) -> bool:
    """Whether it has columns by name."""
    return isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "__getitem__"))


@contextmanager
def as_file(source: str | Path | Table) -> Iterator[tuple[Path, str]]:
    """A file or folder for the readers, and its name for messages. A temporary file is removed afterwards."""
    if is_table(source):
        with guards.copied(_csv_of(source).read, name="table", what="the table") as path:
            yield path, "the table"
    elif isinstance(source, str | os.PathLike):
        yield Path(source), str(source)
    else:
        raise ValueError(
            f"a log is a path, a DataFrame or a mapping of columns, not {type(source).__name__}; "
            'for losses in memory give a table: {"step": [..], "val_loss": [..]}'
        )


def _csv_of(table: Table) -> io.BytesIO:
    if any(name is not None for name in getattr(getattr(table, "index", None), "names", ())):
        table = table.reset_index()
    names = list(table.columns if hasattr(table, "columns") else table)
    columns = [_cells(list(table[name])) for name in names]
    if len({len(column) for column in columns}) > 1:
        raise ValueError("the table has columns of different lengths; give each one value per row")
    text = io.StringIO(newline="")
    csv.writer(text).writerows([names, *zip(*columns, strict=True)])
    return io.BytesIO(text.getvalue().encode())


def _cells(values: list[Any]) -> list[Any]:
    """NaN in a table means "no value here", except NaN up to the last row: there the run diverged."""
    missing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in values]
    diverged = any(missing) and 0 < missing.index(True) == len(values) - sum(missing)
    return [("nan" if diverged else "") if gone else value for gone, value in zip(missing, values, strict=True)]
