"""SQLite files of others, opened to read only, and never trusted: what the database readers share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_WORK_PER_BYTE = 100  # virtual machine steps; a table read once takes a few


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write, runs nothing the file brings along, and gives up in time on a damaged tree."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.text_factory = lambda data: data.decode(errors="replace")
        left = [10_000_000 + path.stat().st_size * _WORK_PER_BYTE]

        def spend() -> bool:
            left[0] -= 10_000
            return left[0] < 0

        connection.set_progress_handler(spend, 10_000)
        yield connection
    finally:
        connection.close()


def has(path: Path, table: str, columns: set[str]) -> bool:
    """Whether the file is a database with that table (a real one: a view could compute for ever) and columns."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return False
    try:
        with opened(path) as connection:
            kind = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
            if kind is None or kind[0] != "table" or "virtual" in str(kind[1]).lower()[:40]:
                return False
            return columns <= {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    except sqlite3.Error:
        return False
