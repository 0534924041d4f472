"""MLflow's stores: the SQLite file (`mlflow.db`), and plain files, `mlruns/EXPERIMENT/RUN/metrics/NAME`.

A database is opened read-only and never trusted. Only real tables with stored columns are read: views, virtual tables
and generated columns run code, and a small file could run without end. Triggers never run, because nothing is written.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.arguments import ARGUMENTS
from oneclock.logs.rows import Row, read_rows
from oneclock.logs.source import MOST_RUNS, Contents, Wanted

FORMAT = "MLflow"
_MOST_FILES = 4096
_MAGIC = b"SQLite format 3\0"
_TABLES = {"metrics": {"key", "value", "run_uuid", "step", "is_nan"}, "runs": {"run_uuid", "name"}}
_WORK_PER_BYTE = 100  # virtual machine steps; a table read once takes a few


def sniff(path: Path) -> bool:
    if path.is_dir():
        return next(_run_folders(path), None) is not None
    try:
        with _opened(path):
            return True
    except (sqlite3.Error, ValueError):
        return False


def load(path: Path, wanted: Wanted) -> Contents:
    """A database; or one run's folder, an experiment's or the whole store's."""
    return _load_folders(path, wanted) if path.is_dir() else _load_database(path, wanted)


def _load_folders(path: Path, wanted: Wanted) -> Contents:
    """Of each run only the metric's own file is read: a line per value, with its time, value and step."""
    folders = sorted(islice(_run_folders(path), MOST_RUNS + 1))
    if len(folders) > MOST_RUNS:
        raise ValueError(f"{path} holds more than {MOST_RUNS} runs; name the folder of one run or experiment")
    metrics = {str(folder): _files(folder / "metrics") for folder in folders}
    metric = names.choose_metric([name for files in metrics.values() for name in files], wanted.metric, path)
    lines = (
        (folder, line.split())
        for folder, files in metrics.items()
        for line in (guards.read_lines(files[metric]) if metric in files else ())
    )
    rows = ({"run": folder, **dict(zip(("time", metric, "step"), cells, strict=False))} for folder, cells in lines)
    source = _of_rows(rows, path, wanted, metric, "file store")
    for run in source.runs:
        folder = Path(run.name)
        run_name = re.search(r"^run_name: *['\"]?(.*?)['\"]? *$", guards.head(folder / "meta.yaml"), re.MULTILINE)
        run.arguments |= {name: guards.head(file, 4096) for name, file in _files(folder / "params").items()}
        run.note(metrics[run.name])
        run.name = (run_name[1] if run_name else "") or folder.name
    return source


def _load_database(path: Path, wanted: Wanted) -> Contents:
    """In logging order, which is the order of rows; sorting by time could cost unbounded memory."""
    with _opened(path) as connection:
        query = "SELECT DISTINCT key FROM metrics NOT INDEXED LIMIT 4096"
        keys = [str(key) for (key,) in _rows(connection, path, query)]
        metric = names.choose_metric(sorted(keys), wanted.metric, path)
        query = "SELECT run_uuid, step, value, is_nan FROM metrics NOT INDEXED WHERE key = ? ORDER BY rowid"
        rows = (
            {"run": run_id, "step": step, metric: "nan" if is_nan else value}
            for run_id, step, value, is_nan in _rows(connection, path, query, metric)
        )
        source = _of_rows(rows, path, wanted, metric, "database")
        runs = {run.name: run for run in source.runs}
        for run_id, name in _rows(connection, path, "SELECT run_uuid, name FROM runs"):
            if name and (run := runs.get(str(run_id))):
                run.name = str(name)
        has_parameters = {"key", "value", "run_uuid"} <= _stored_columns(connection, "params")
        query = "SELECT run_uuid, key, value FROM params"
        for run_id, key, value in _rows(connection, path, query) if has_parameters else ():
            if str(key).lower() in ARGUMENTS and (run := runs.get(str(run_id))):
                run.arguments[str(key)] = value
    for run in source.runs:
        run.note(keys)
    return source


def _of_rows(rows: Iterable[Row], path: Path, wanted: Wanted, metric: str, store: str) -> Contents:
    source = read_rows(rows, path, replace(wanted, metric=metric, step="step"), f"{FORMAT} {store}", ["step"])
    for run in source.runs:
        run.name = run.name.removeprefix("run ")
    return source


def _run_folders(path: Path) -> Iterator[Path]:
    for pattern in ("metrics", "*/metrics", "*/*/metrics", "mlruns/*/*/metrics"):
        for metrics in path.glob(pattern):
            if metrics.is_dir() and (metrics.parent / "meta.yaml").is_file() and ".trash" not in metrics.parts:
                yield metrics.parent


def _files(folder: Path) -> dict[str, Path]:
    """Name -> file; a name with a slash is a file in a folder."""
    return {file.relative_to(folder).as_posix(): file for file in sorted(islice(guards.files(folder), _MOST_FILES))}


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads tables, and stops in time on a damaged file; ValueError without MLflow's tables."""
    if guards.head_bytes(path, len(_MAGIC)) != _MAGIC:
        raise ValueError(f"{path} is no SQLite database")
    connection = sqlite3.connect(f"{guards.plain_file(path).absolute().as_uri()}?mode=ro", uri=True)
    try:
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        if hasattr(connection, "setlimit"):  # from Python 3.11 on; older versions rely on the checks of the tables
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, guards.LONGEST_LINE)
        connection.text_factory = lambda data: data.decode(errors="replace")
        calls, most = count(), 100 + path.stat().st_size * _WORK_PER_BYTE // 10_000
        connection.set_progress_handler(lambda: next(calls) >= most, 10_000)
        connection.set_authorizer(_reads_only)
        for table, columns in _TABLES.items():
            if not columns <= _stored_columns(connection, table):
                raise ValueError(f"{path} has no table {table!r} with the stored columns {', '.join(sorted(columns))}")
        yield connection
    finally:
        connection.close()


def _rows(connection: sqlite3.Connection, path: Path, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
    """The rows of a query; ValueError if they hold far more text than the file has bytes, which damage can cause."""
    left = 2**20 + 4 * path.stat().st_size
    for row in connection.execute(query, values):
        left -= sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if left < 0:
            raise ValueError(f"{path} returns more text than the file has bytes: it is damaged or malicious")
        yield row


def _stored_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a real table; none for anything else, or if any of its columns is generated."""
    kind = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
    if kind is None or kind[0] != "table" or re.match(r"\s*create\s+virtual", str(kind[1])[:200], re.IGNORECASE):
        return set()
    columns = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
    return set() if any(row[6] for row in columns) else {row[1] for row in columns}


def _reads_only(action: int, first: str | None, second: str | None, _: str | None, inside: str | None) -> int:
    """SQLite's authorizer: it allows reading tables, and nothing from within a view or a trigger."""
    reads = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    describes = action == sqlite3.SQLITE_PRAGMA and str(first).lower() == "table_xinfo"
    return sqlite3.SQLITE_OK if inside is None and (reads or describes) else sqlite3.SQLITE_DENY
