"""MLflow's SQLite store (`mlflow.db`), read with the standard library."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import database, names
from oneclock.logs.source import Found, Source, Wanted, number

FORMAT = "MLflow database"
_MOST_RUNS = 256


def sniff(path: Path) -> bool:
    tables = {"metrics": {"key", "value", "run_uuid", "step", "is_nan"}, "runs": {"run_uuid", "name"}}
    return all(database.has(path, table, columns) for table, columns in tables.items())


def load(path: Path, wanted: Wanted) -> Source:
    with database.opened(path) as connection:
        keys = [str(row[0]) for row in connection.execute("SELECT DISTINCT key FROM metrics LIMIT 4096")]
        metric = names.choose_metric(sorted(keys), wanted.metric, path)
        runs: dict[str, Found] = {}
        rows = connection.execute(
            "SELECT run_uuid, step, value, is_nan FROM metrics WHERE key = ? ORDER BY timestamp", [metric]
        )
        for run_id, step, value, is_nan in rows:
            if run_id not in runs and len(runs) >= _MOST_RUNS:
                raise ValueError(f"{path} holds more than {_MOST_RUNS} runs with {metric!r}")
            run = runs.setdefault(run_id, Found(str(run_id)))
            where, loss = number(step), float("nan") if is_nan else number(value)
            if where is not None and loss is not None:
                run.add(metric, where, loss, Wanted(metric))
        for run_id, run in runs.items():
            run.saw(keys)
            named = connection.execute("SELECT name FROM runs WHERE run_uuid = ?", [run_id]).fetchone()
            run.name = str(named[0]) if named and named[0] else run.name
            if database.has(path, "params", {"key", "value", "run_uuid"}):
                params = connection.execute("SELECT key, value FROM params WHERE run_uuid = ? LIMIT 4096", [run_id])
                run.arguments |= {str(key): value for key, value in params}
    return Source(FORMAT, list(runs.values()))
