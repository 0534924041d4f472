"""Any CSV file with a header: a step, a loss, and perhaps a column that tells runs apart."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import names
from oneclock.logs.series import Series
from oneclock.logs.source import Found, Source, Wanted
from oneclock.logs.table import Table

FORMAT = "CSV"
_MOST_RUNS = 256
_TENSORBOARD_EXPORT = ["Wall time", "Step", "Value"]
_TENSORBOARD_RESERVOIR = 1000


def sniff(path: Path) -> bool:
    try:
        table = Table.open(path)
    except ValueError:
        return False
    return any(table.number(cell) is not None for cell in table.first_row)


def load(path: Path, wanted: Wanted) -> Source:
    table = Table.open(path)
    source = read_table(table, wanted, FORMAT)
    if table.columns == _TENSORBOARD_EXPORT and table.counted == _TENSORBOARD_RESERVOIR:
        source.warnings.append(
            f"exactly {_TENSORBOARD_RESERVOIR} rows: TensorBoard's export is a random sample of a longer curve; "
            "read the event files themselves"
        )
    return source


def read_table(table: Table, wanted: Wanted, format: str) -> Source:
    """The chosen metric over the chosen step, one run for each value of the columns that tell runs apart."""
    columns = [column for column in table.columns if column]
    step = names.choose_step(columns, wanted.step, table.path)
    tell_apart = [table.columns.index(column) for column in columns if names.is_run(column)]
    others = [column for column in columns if column != step and not _is_place(column)]
    metric = names.choose_metric(columns if wanted.metric else others, wanted.metric, table.path)
    at, step_at = table.columns.index(metric), None if step is None else table.columns.index(step)
    runs: dict[tuple[str, ...], Series] = {}
    for cells in table.rows([metric, *([step] if step else []), *(table.columns[index] for index in tell_apart)]):
        if not cells[at]:
            continue
        value = table.number(cells[at])
        where = float(table.counted) if step_at is None else table.number(cells[step_at])
        if value is None or where is None:
            continue
        key = tuple([cells[index] for index in tell_apart])
        series = runs.get(key)
        if series is None:
            if len(runs) >= _MOST_RUNS:
                raise ValueError(f"{table.path} holds more than {_MOST_RUNS} runs; give them one file each")
            series = runs.setdefault(key, Series())
        series.add(where, value)
    found = []
    for key, series in runs.items():
        label = ", ".join(f"{table.columns[i]} {cell}" for i, cell in zip(tell_apart, key, strict=True))
        run = Found(label or table.path.stem)
        run.saw([metric, *others])
        run.series[metric] = series
        found.append(run)
    return Source(format, found, step, names.step_candidates(columns), table.warnings())


def _is_place(column: str) -> bool:
    """Whether the column says where or when a row was logged, and not what."""
    if names.is_step(column) or names.is_epoch(column) or names.is_run(column):
        return True
    return column.lower() in ("wall time", "walltime", "timestamp", "time")
