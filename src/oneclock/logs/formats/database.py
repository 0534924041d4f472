"""What the database readers share: SQLite files are opened read-only and never trusted.

Only real tables with stored columns are read. Views, virtual tables and generated columns run code, and a small file
could run without end. Triggers never run, because nothing is written.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oneclock import guards

Tables = Mapping[str, set[str]]
"""The tables that a reader needs, with their columns."""

_MAGIC = b"SQLite format 3\0"
_WORK_PER_BYTE = 100  # virtual machine steps; a table read once takes a few
_FUNCTIONS = frozenset({"substr"})
_PRAGMAS = frozenset({"table_xinfo"})


@contextmanager
def opened(path: Path, tables: Tables) -> Iterator[sqlite3.Connection]:
    """A connection that can only read tables, and stops in time on a damaged file.

    ValueError if the file does not hold `tables` as tables of stored columns.
    """
    guards.plain_file(path)
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        if hasattr(connection, "setlimit"):  # from Python 3.11 on; older versions rely on the checks of the tables
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, guards.LONGEST_LINE)
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.set_progress_handler(_Work(path.stat().st_size), 10_000)
        connection.set_authorizer(_reads_only)
        for table, columns in tables.items():
            if not columns <= stored_columns(connection, table):
                raise ValueError(f"{path} has no table {table!r} with the stored columns {', '.join(sorted(columns))}")
        yield connection
    finally:
        connection.close()


def rows(connection: sqlite3.Connection, path: Path, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
    """The rows of a query; ValueError if they hold far more text than the file has bytes, which damage can cause."""
    left = 2**20 + 4 * path.stat().st_size
    for row in connection.execute(query, values):
        left -= sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if left < 0:
            raise ValueError(f"{path} returns more text than the file has bytes: it is damaged or malicious")
        yield row


def has(path: Path, tables: Tables) -> bool:
    """Whether the file is a database with those tables, by looking inside."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return False
    try:
        with opened(path, tables):
            return True
    except (sqlite3.Error, ValueError):
        return False


def stored_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a real table; none for anything else, or if any of its columns is generated."""
    kind = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
    if kind is None or kind[0] != "table" or re.match(r"\s*create\s+virtual", str(kind[1])[:200], re.IGNORECASE):
        return set()
    columns = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
    return set() if any(row[6] for row in columns) else {row[1] for row in columns}


class _Work:
    """Stops a query that does more work than reading the file needs."""

    def __init__(self, size: int) -> None:
        self._left = 1_000_000 + size * _WORK_PER_BYTE

    def __call__(self) -> bool:
        self._left -= 10_000
        return self._left < 0


def _reads_only(action: int, first: str | None, second: str | None, _: str | None, inside: str | None) -> int:
    """SQLite's authorizer: it allows reading tables, and the functions that the readers' own queries call."""
    if inside is not None:  # the call comes from a view or a trigger
        return sqlite3.SQLITE_DENY
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and str(first).lower() in _PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
