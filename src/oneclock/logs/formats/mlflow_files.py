"""MLflow's store of plain files: `mlruns/EXPERIMENT/RUN/metrics/NAME`, a line per value: timestamp, value, step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.number_text import number
from oneclock.logs.series import MetricSeries
from oneclock.logs.source import MOST_RUNS, Contents, RawRun, Wanted

FORMAT = "MLflow file store"
_MOST_FILES = 4096


def sniff(path: Path) -> bool:
    return path.is_dir() and next(_runs(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """One run's folder, an experiment's or the whole store's; of each run only the metric's own file is read."""
    folders = sorted(islice(_runs(path), MOST_RUNS + 1))
    if len(folders) > MOST_RUNS:
        raise ValueError(f"{path} holds more than {MOST_RUNS} runs; name the folder of one run or experiment")
    metrics = {folder: _files(folder / "metrics") for folder in folders}
    metric = names.choose_metric([name for files in metrics.values() for name in files], wanted.metric, path)
    runs, bad = [], 0
    for folder, files in metrics.items():
        params = _files(folder / "params")
        run = RawRun(_name(folder), {name: guards.head(file, 4096) for name, file in params.items()})
        run.note(files)
        if metric in files:
            bad += _add(files[metric], run.keep(metric))
        runs.append(run)
    return Contents(FORMAT, runs, warnings=[f"{bad:,} lines are not values and were left out"] if bad else [])


def _add(file: Path, series: MetricSeries) -> int:
    """Add the lines of a metric's file; returns how many were not values."""
    bad = 0
    for line in guards.read_lines(file):
        values = [number(part) for part in line.split()]
        if len(values) >= 3 and values[1] is not None and values[2] is not None:
            series.add(values[2], values[1])
        else:
            bad += 1
    return bad


def _runs(path: Path) -> Iterator[Path]:
    for pattern in ("metrics", "*/metrics", "*/*/metrics", "mlruns/*/*/metrics"):
        for metrics in path.glob(pattern):
            if metrics.is_dir() and (metrics.parent / "meta.yaml").is_file() and ".trash" not in metrics.parts:
                yield metrics.parent


def _files(folder: Path) -> dict[str, Path]:
    """Name -> file; a name with a slash is a file in a folder."""
    return {file.relative_to(folder).as_posix(): file for file in sorted(islice(guards.files(folder), _MOST_FILES))}


def _name(folder: Path) -> str:
    for line in guards.head(folder / "meta.yaml").splitlines():
        if line.startswith("run_name:"):
            return line.partition(":")[2].strip().strip("'\"") or folder.name
    return folder.name
