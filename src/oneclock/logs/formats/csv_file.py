"""CSV files: any with a header, W&B's chart exports, and the folders of Lightning's CSVLogger.

A long table has several metrics in one column, and names them in another: `metric` with `value`, or `split`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.arguments import is_argument
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.number_text import number
from oneclock.logs.rows import Row, part_prefix, read_rows
from oneclock.logs.series import MetricSeries
from oneclock.logs.source import MOST_RUNS, Contents, Wanted, together

FORMAT = "CSV"
_TENSORBOARD_EXPORT, _TENSORBOARD_RESERVOIR = ["Wall time", "Step", "Value"], 1000
_WANDB_COLUMN = re.compile(r"(?P<run>.+) - (?P<metric>[^-].*?)(?P<bound>__MIN|__MAX)?", re.DOTALL)
_WANDB_HISTORY = 500  # W&B samples a run's history down to this many points
_VERSIONS = ("metrics.csv", "version_*/metrics.csv", "*/version_*/metrics.csv")


def sniff(path: Path) -> bool:
    if path.is_dir():
        return next(_versions(path), None) is not None
    try:
        table = CsvTable.open(path)
    except ValueError:
        return False
    numbers = [table.number(cell) is not None for cell in table.first_row]
    return any(numbers) and (len(table.columns) > 1 or len(numbers) == 1)


def load(path: Path, wanted: Wanted) -> Contents:
    """A table; or the folder of one or several of Lightning's versions, or its `save_dir`: each version is a run."""
    if not path.is_dir():
        return _load_version(path, wanted) if _is_version(path) else _load_table(path, wanted)
    files = sorted(islice(_versions(path), MOST_RUNS + 1))
    above = sorted({file.parent.parent.name for file in files} - {path.name, path.parent.name})
    if len(above) > 1:
        raise ValueError(f"{path} holds the logs of {names.name_list(above)}; name the folder of one")
    if len(files) > MOST_RUNS:
        raise ValueError(f"{path} holds more than {MOST_RUNS} versions; name the folder of one")
    return together([_load_version(file, wanted) for file in files], path)


def _load_table(path: Path, wanted: Wanted, format: str = FORMAT) -> Contents:
    table = CsvTable.open(path, wanted.columns)
    first_row = dict(zip(table.columns, table.first_row, strict=False))
    charts = {column: match for column in table.columns if (match := _WANDB_COLUMN.fullmatch(column))}
    columns, others = [column for column in table.columns if column], []
    is_export = any(match["bound"] for match in charts.values())
    if is_export:
        rows = _rows_of_charts(table, charts)
        format, columns = "W&B CSV export", [column for column in columns if column not in charts]
    elif (labels := _labels(table, first_row)) is not None:
        rows = _rows_of_labels(table, *labels)
    elif part_prefix(first_row):
        rows = table.rows(columns)
    else:  # only the columns that are needed
        step = names.choose_step(columns, wanted.step, path)
        others = [column for column in columns if column != step and not names.is_position(column)]
        metric = names.choose_metric(columns if wanted.metric else others, wanted.metric, path)
        beside = {column for column in columns if names.kind(column) == "run"} | set(filter(is_argument, others))
        rows, wanted = table.rows(beside | {metric, *([step] if step else [])}), replace(wanted, metric=metric)
    source = read_rows(rows, path, wanted, format, columns, table.number, table.decimal)
    source.warnings += table.warnings()
    for run in source.runs:
        run.note(others)
        run.name = run.name.removeprefix("run ") if is_export else run.name
        if is_export and any(map(_is_sampled, run.series.values())):
            source.warnings.append(
                f"{run.name!r}: exactly {_WANDB_HISTORY} points, unevenly spaced: W&B has sampled the history; "
                "export it whole (run.scan_history)"
            )
    if table.columns == _TENSORBOARD_EXPORT and table.counted == _TENSORBOARD_RESERVOIR:
        source.warnings.append(
            f"exactly {_TENSORBOARD_RESERVOIR} rows: TensorBoard's export is a random sample of a longer curve; "
            "read the event files themselves"
        )
    return source


def _labels(table: CsvTable, first_row: dict[str, str]) -> tuple[str, str] | None:
    """The columns of the metrics' names and values, which hold a word and a number; None if it is no long table."""
    label, value = ([one for one in first_row if names.kind(one) == kind] for kind in ("label", "value"))
    if not label or not value or table.number(first_row[value[0]]) is None:
        return None
    return (label[0], value[0]) if first_row[label[0]] and table.number(first_row[label[0]]) is None else None


def _rows_of_labels(table: CsvTable, label: str, value: str) -> Iterator[Row]:
    """Rows of a long table, each with the value under its own name."""
    for row in table.rows(table.columns):
        name, cell = row.pop(label, "").strip(), row.pop(value, None)
        if name:
            yield {**row, name: cell}


def _rows_of_charts(table: CsvTable, charts: dict[str, re.Match[str]]) -> Iterator[Row]:
    """Rows of W&B's export: a step, and for each run `RUN - METRIC` with its `__MIN` and `__MAX`."""
    columns: dict[str, dict[str, str]] = {}
    for column, match in charts.items():
        if not match["bound"]:
            columns.setdefault(match["run"], {})[match["metric"]] = column
    beside = [column for column in table.columns if column not in charts]
    for row in table.rows(table.columns):
        for run, metrics in columns.items():
            values = {metric: row.get(column) for metric, column in metrics.items()}
            yield {**{column: row.get(column) for column in beside}, "run": run, **values}


def _is_sampled(series: MetricSeries) -> bool:
    return len(series) == _WANDB_HISTORY and len({after - before for before, after in pairwise(series.steps)}) > 1


def _load_version(file: Path, wanted: Wanted) -> Contents:
    """One version of Lightning's CSVLogger: sparse rows, with the hyperparameters in `hparams.yaml` beside it."""
    source = _load_table(file, wanted, "Lightning CSVLogger")
    for run in source.runs:
        run.name = file.parent.name
        run.arguments |= dict(_plain_pairs(file.parent / "hparams.yaml"))
    return source


def _versions(folder: Path) -> Iterator[Path]:
    return (file for pattern in _VERSIONS for file in folder.glob(pattern) if _is_version(file))


def _is_version(file: Path) -> bool:
    known = (file.parent / "hparams.yaml").is_file() or file.parent.name.startswith("version_")
    header = guards.head(file).partition("\n")[0] if known and file.is_file() else ""
    return {"epoch", "step"} <= set(header.strip().split(","))


def _plain_pairs(path: Path) -> Iterator[tuple[str, object]]:
    """The `name: value` lines of a YAML file, and lists of numbers below a name: no tags, no nesting, no objects."""
    key, items = "", list[float]()
    for line in guards.head(path).splitlines() if path.is_file() else []:
        if (item := re.fullmatch(r"\s*- (\S+)", line)) and (value := number(item[1])) is not None:
            items = [*items, value]
            yield key, items
        elif pair := re.fullmatch(r"([\w./-]+):\s*(.*)", line):
            key, items = pair[1], []
            if pair[2] and not pair[2].startswith(("!", "&")):
                yield key, pair[2].strip("'\"")
