"""Trackio's local database, one per project: a row per step, its metrics as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oneclock.logs.formats import database
from oneclock.logs.number_text import number
from oneclock.logs.source import Contents, Runs, Wanted, flat

FORMAT = "Trackio database"
_TABLES = {"metrics": {"run_name", "step", "metrics"}}


def sniff(path: Path) -> bool:
    return database.has(path, _TABLES)


def load(path: Path, wanted: Wanted) -> Contents:
    runs, bad = Runs(path), 0
    with database.opened(path, _TABLES) as connection:
        # Earlier versions have no run_id.
        run_id = "run_id" if "run_id" in database.stored_columns(connection, "metrics") else "run_name"
        query = f"SELECT {run_id}, run_name, step, metrics FROM metrics ORDER BY rowid"
        for key, name, step, text in database.rows(connection, path, query):
            values, where = _object(text), number(step)
            if values is None or where is None:
                bad += 1
                continue
            run = runs.of(key, str(name))
            for metric, value in flat(values):
                if (loss := number(value)) is not None:
                    run.add(metric, where, loss, wanted)
        if {run_id, "config"} <= database.stored_columns(connection, "configs"):
            for key, text in database.rows(connection, path, f"SELECT {run_id}, config FROM configs"):
                if run_of_key := runs.get(key):
                    run_of_key.arguments |= dict(flat(_object(text) or {}))
    return Contents(
        FORMAT, list(runs.values()), warnings=[f"{bad:,} rows are damaged and were left out"] if bad else []
    )


def _object(text: object) -> dict[str, Any] | None:
    if not isinstance(text, str | bytes):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
