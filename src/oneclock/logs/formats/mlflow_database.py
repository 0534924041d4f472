"""MLflow's SQLite store (`mlflow.db`), read with the standard library."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import names
from oneclock.logs.arguments import ARGUMENTS
from oneclock.logs.formats import database
from oneclock.logs.source import Contents, Runs, Wanted, number

FORMAT = "MLflow database"


def sniff(path: Path) -> bool:
    tables = {"metrics": {"key", "value", "run_uuid", "step", "is_nan"}, "runs": {"run_uuid", "name"}}
    return all(database.has(path, table, columns) for table, columns in tables.items())


def load(path: Path, wanted: Wanted) -> Contents:
    with database.opened(path) as connection:
        keys = [str(row[0]) for row in connection.execute("SELECT DISTINCT key FROM metrics LIMIT 4096")]
        metric = names.choose_metric(sorted(keys), wanted.metric, path)
        runs = Runs(path)
        rows = connection.execute(
            "SELECT run_uuid, step, value, is_nan FROM metrics WHERE key = ? ORDER BY timestamp", [metric]
        )
        for run_id, step, value, is_nan in rows:
            where, loss = number(step), float("nan") if is_nan else number(value)
            if where is not None and loss is not None:
                runs.of(run_id, str(run_id)).add(metric, where, loss, Wanted(metric))
        for run_id, name in connection.execute("SELECT run_uuid, name FROM runs"):
            if name and (run := runs.known(run_id)):
                run.name = str(name)
        if database.has(path, "params", {"key", "value", "run_uuid"}):
            for run_id, key, value in connection.execute("SELECT run_uuid, key, value FROM params"):
                if str(key).lower() in ARGUMENTS and (run := runs.known(run_id)):
                    run.arguments[str(key)] = value
    for run in runs.all():
        run.saw(keys)
    return Contents(FORMAT, runs.all())
