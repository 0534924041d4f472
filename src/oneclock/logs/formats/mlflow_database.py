"""MLflow's SQLite store (`mlflow.db`), read with the standard library."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from oneclock.logs import names
from oneclock.logs.arguments import ARGUMENTS
from oneclock.logs.formats import database
from oneclock.logs.number_text import number
from oneclock.logs.source import Contents, Runs, Wanted

FORMAT = "MLflow database"
_TABLES = {"metrics": {"key", "value", "run_uuid", "step", "is_nan"}, "runs": {"run_uuid", "name"}}
_LONGEST_KEY = 250  # characters, MLflow's own limit


def sniff(path: Path) -> bool:
    return database.has(path, _TABLES)


def load(path: Path, wanted: Wanted) -> Contents:
    """In logging order, which is the order of rows; sorting by time could cost unbounded memory."""
    with database.opened(path, _TABLES) as connection:
        distinct = f"SELECT DISTINCT substr(key, 1, {_LONGEST_KEY}) FROM metrics LIMIT 4096"
        keys = [str(row[0]) for row in database.rows(connection, path, distinct)]
        metric = names.choose_metric(sorted(keys), wanted.metric, path)
        runs, only, bad = Runs(path), wanted.only(metric), 0
        query = "SELECT run_uuid, step, value, is_nan FROM metrics NOT INDEXED WHERE key = ? ORDER BY rowid"
        for run_id, step, value, is_nan in database.rows(connection, path, query, metric):
            where, loss = number(step), float("nan") if is_nan else number(value)
            if where is None or loss is None:
                bad += 1
            else:
                runs.of(run_id, str(run_id)).add(metric, where, loss, only)
        _add_names_and_arguments(connection, path, runs)
    for run in runs.values():
        run.note(keys)
    return Contents(
        FORMAT, list(runs.values()), warnings=[f"{bad:,} rows are damaged and were left out"] if bad else []
    )


def _add_names_and_arguments(connection: sqlite3.Connection, path: Path, runs: Runs) -> None:
    for run_id, name in database.rows(connection, path, "SELECT run_uuid, name FROM runs"):
        if name and (run := runs.get(run_id)):
            run.name = str(name)
    if not {"key", "value", "run_uuid"} <= database.stored_columns(connection, "params"):
        return
    for run_id, key, value in database.rows(connection, path, "SELECT run_uuid, key, value FROM params"):
        if str(key).lower() in ARGUMENTS and (run := runs.get(run_id)):
            run.arguments[str(key)] = value
