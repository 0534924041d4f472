"""The CSV that W&B's charts export: a step, and for each run `RUN - METRIC` with its `__MIN` and `__MAX`."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from oneclock.logs import names
from oneclock.logs.formats.table import CsvTable, columns_of
from oneclock.logs.series import MetricSeries
from oneclock.logs.source import Contents, RawRun, Wanted

FORMAT = "W&B CSV export"
_HISTORY = 500  # W&B samples a run's history down to this many points
_COLUMN = re.compile(r"(?P<run>.+) - (?P<metric>[^-].*?)(?P<bound>__MIN|__MAX)?", re.DOTALL)


def sniff(path: Path) -> bool:
    return any((match := _COLUMN.fullmatch(column)) and match["bound"] for column in columns_of(path))


def load(path: Path, wanted: Wanted) -> Contents:
    table = CsvTable.open(path)
    others = [column for column in table.columns if not _COLUMN.fullmatch(column)]
    step = names.choose_step(others, wanted.step, path)
    step_of = table.steps(step)
    curves = {
        index: (match["run"], match["metric"])
        for index, column in enumerate(table.columns)
        if (match := _COLUMN.fullmatch(column)) and not match["bound"] and match["metric"] != "_step"
    }
    metric = names.choose_metric([metric for _, metric in curves.values()], wanted.metric, path)
    runs = {index: RawRun(run) for index, (run, one) in curves.items() if one == metric}
    series = {index: run.keep(metric) for index, run in runs.items()}
    for cells in table.rows(table.columns):
        at = step_of(cells)
        for index, points in series.items():
            value = table.number_in(table.columns[index], cells[index])
            if at is not None and value is not None:
                points.add(at, value)
    for run in runs.values():
        run.note(one for name, one in curves.values() if name == run.name)
    warnings = table.warnings() + _about_sampling({runs[index].name: points for index, points in series.items()})
    return Contents(FORMAT, list(runs.values()), step, names.step_candidates(others), warnings)


def _about_sampling(runs: dict[str, MetricSeries]) -> list[str]:
    sampled = [name for name, series in runs.items() if len(series) == _HISTORY and not _evenly_spaced(series)]
    if not sampled:
        return []
    return [
        f"{names.name_list(sampled)}: exactly {_HISTORY} points, unevenly spaced: W&B has sampled the history; "
        "export it whole (run.scan_history)"
    ]


def _evenly_spaced(series: MetricSeries) -> bool:
    steps, _ = series.points()
    return len({after - before for before, after in pairwise(steps)}) < 2
