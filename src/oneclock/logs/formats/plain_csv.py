"""Any CSV file with a header: a step, a loss, and perhaps a column that names the run or the seed.

A long table has several metrics in one column, and names them in another: `metric` with `value`, or `split`.
"""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import names
from oneclock.logs.arguments import is_learning_rate
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.source import Contents, Runs, Wanted, part_prefix

FORMAT = "CSV"
_TENSORBOARD_EXPORT = ["Wall time", "Step", "Value"]
_TENSORBOARD_RESERVOIR = 1000


def sniff(path: Path) -> bool:
    try:
        table = CsvTable.open(path)
    except ValueError:
        return False
    numbers = [table.number(cell) is not None for cell in table.first_row]
    return any(numbers) and (len(table.columns) > 1 or len(numbers) == 1)


def load(path: Path, wanted: Wanted) -> Contents:
    table = CsvTable.open(path, wanted.columns)
    labelled = _labelled(table)
    if labelled is not None or part_prefix(dict(zip(table.columns, table.first_row, strict=False))):
        return _read_long(table, labelled, wanted)
    keras = table.columns[0] == "epoch" and "loss" in table.columns and not any(map(names.is_step, table.columns))
    source = read_table(table, wanted, "Keras CSVLogger" if keras else FORMAT)
    if table.columns == _TENSORBOARD_EXPORT and table.counted == _TENSORBOARD_RESERVOIR:
        source.warnings.append(
            f"exactly {_TENSORBOARD_RESERVOIR} rows: TensorBoard's export is a random sample of a longer curve; "
            "read the event files themselves"
        )
    return source


def read_table(table: CsvTable, wanted: Wanted, format: str) -> Contents:
    """The chosen metric over the chosen step, one run for each value of the columns that name a run or a seed."""
    columns = [column for column in table.columns if column]
    step = names.choose_step(columns, wanted.step, table.path)
    run_columns = [table.columns.index(column) for column in columns if names.is_run(column)]
    others = [column for column in columns if column != step and not names.is_position(column)]
    metric = names.choose_metric(columns if wanted.metric else others, wanted.metric, table.path)
    index_of_metric, step_of = table.columns.index(metric), table.steps(step)
    lr_columns = [table.columns.index(column) for column in columns if is_learning_rate(column)]
    runs, only = Runs(table.path), wanted.only(metric)
    beside = [table.columns[index] for index in (*run_columns, *lr_columns)]
    for cells in table.rows([metric, *([step] if step else []), *beside]):
        value = table.number_in(metric, cells[index_of_metric])
        if value is None and not any(cells[index] for index in lr_columns):
            continue
        at = step_of(cells)
        if at is None:
            continue
        label = ", ".join([f"{table.columns[index]} {cells[index]}" for index in run_columns])
        run = runs.of(label, label or table.path.stem)
        if value is not None:
            run.add(metric, at, value, only)
        for index in lr_columns:
            if (lr := table.number(cells[index])) is not None:
                run.log_argument(table.columns[index], lr)
    for run in runs.values():
        run.note(others)
    return Contents(format, list(runs.values()), step, names.step_candidates(columns), table.warnings())


def _labelled(table: CsvTable) -> tuple[str, str] | None:
    """The columns of names and values of a long table: in the first row they hold a word and a number."""
    columns = names.long_columns(table.columns)
    if columns is None or len(table.first_row) != len(table.columns):
        return None
    label, value = (table.first_row[table.columns.index(column)] for column in columns)
    return columns if label and table.number(label) is None and table.number(value) is not None else None


def _read_long(table: CsvTable, labelled: tuple[str, str] | None, wanted: Wanted) -> Contents:
    """Each row's own cells name its metrics: the value of `metric`, or `val/loss` if `split` is `val`.

    So training and validation are never mixed.
    """
    step = names.choose_step(table.columns, wanted.step, table.path)
    runs, step_of = Runs(table.path), table.steps(step)
    for cells in table.rows(table.columns):
        row = dict(zip(table.columns, cells, strict=True))
        at = step_of(cells)
        label = ", ".join(f"{column} {cell}" for column, cell in row.items() if names.is_run(column))
        run, prefix = runs.of(label, label or table.path.stem), part_prefix(row)
        if labelled is None:
            values = {column: table.number(cell) for column, cell in row.items() if not names.is_position(column)}
        else:
            values = {row[labelled[0]].strip(): table.number_in(labelled[1], row[labelled[1]])}
        for metric, value in values.items():
            if at is not None and value is not None:
                run.add(prefix + metric, at, value, wanted)
    return Contents("long CSV", list(runs.values()), step, names.step_candidates(table.columns), table.warnings())
