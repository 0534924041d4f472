"""Logs that are not plain files: compressed ones, and tables in memory. The readers get a file for each."""

from __future__ import annotations

import csv
import math
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oneclock import guards

Table = Any
"""Columns by name: a mapping, or a DataFrame (pandas or polars)."""

_GZIP = b"\x1f\x8b"
_MOST_TIMES = 100  # above `_SMALL` bytes, a log may unpack to at most this many times its size
_SMALL = 2**26


def is_table(source: object) -> bool:
    """Whether it has columns by name.

    >>> is_table({"step": [1], "val_loss": [2.0]}), is_table("log.csv")
    (True, False)
    """
    return isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "__getitem__"))


@contextmanager
def as_file(source: str | Path | Table) -> Iterator[tuple[Path, str]]:
    """A file or folder for the readers, and its name for messages. Temporary files are removed afterwards."""
    if not isinstance(source, str | os.PathLike) and not is_table(source):
        raise ValueError(
            f"a log is a path, a DataFrame or a mapping of columns, not {type(source).__name__}; "
            'for losses in memory give a table: {"step": [..], "val_loss": [..]}'
        )
    if is_table(source):
        with tempfile.TemporaryDirectory(prefix="oneclock-") as folder:
            yield _written(source, Path(folder) / "table"), "the table"
    elif _is_gzip(path := Path(source)):
        with _unpacked(path) as file:
            yield file, str(path)
    else:
        yield path, str(path)


def _written(table: Table, path: Path) -> Path:
    index = getattr(table, "index", None)
    if any(name is not None for name in getattr(index, "names", ())):
        table = table.reset_index()
    names = list(table.columns if hasattr(table, "columns") else table)
    columns = [_cells(list(table[name])) for name in names]
    if len({len(column) for column in columns}) > 1:
        raise ValueError("the table has columns of different lengths; give each one value per row")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))
    return path


def _cells(values: list[Any]) -> list[Any]:
    """NaN in a table means "no value here", except NaN up to the last row: there the run diverged."""
    missing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in values]
    first = missing.index(True) if True in missing else len(values)
    diverged = 0 < first < len(values) and all(missing[first:])
    return ["nan" if diverged and gone else "" if gone else value for gone, value in zip(missing, values, strict=True)]


def _is_gzip(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    import gzip

    most = min(guards.MOST_COPIED, max(_SMALL, _MOST_TIMES * path.stat().st_size))
    name = path.name.removesuffix(".gz") or "log"
    try:
        with gzip.open(path, "rb") as stream, guards.copied(stream.read, most, name, what=str(path)) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is a damaged or unfinished gzip file: {error}") from None
