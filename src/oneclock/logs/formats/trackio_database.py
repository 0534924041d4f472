"""Trackio's local database, one per project: a row per step, its metrics as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oneclock.logs.formats import database
from oneclock.logs.source import Contents, Runs, Wanted, flat, number

FORMAT = "Trackio database"


def sniff(path: Path) -> bool:
    return database.has(path, "metrics", {"run_name", "step", "metrics"})


def load(path: Path, wanted: Wanted) -> Contents:
    runs, bad = Runs(path), 0
    # Earlier versions told runs apart by name alone.
    run_id = "run_id" if database.has(path, "metrics", {"run_id"}) else "run_name"
    with database.opened(path) as connection:
        for key, name, step, text in connection.execute(
            f"SELECT {run_id}, run_name, step, metrics FROM metrics ORDER BY rowid"
        ):
            values, where = _object(text), number(step)
            if values is None or where is None:
                bad += 1
                continue
            run = runs.of(key, str(name))
            for metric, value in flat(values):
                if (loss := number(value)) is not None:
                    run.add(metric, where, loss, wanted)
        if database.has(path, "configs", {run_id, "config"}):
            for key, text in connection.execute(f"SELECT {run_id}, config FROM configs"):
                if known := runs.known(key):
                    known.arguments |= dict(flat(_object(text) or {}))
    return Contents(FORMAT, runs.all(), warnings=[f"{bad:,} rows are damaged and were left out"] if bad else [])


def _object(text: object) -> dict[str, Any] | None:
    if not isinstance(text, str | bytes):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
