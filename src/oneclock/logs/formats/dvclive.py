"""A DVCLive folder: `plots/metrics/NAME.tsv`, a step and a value per row, with `params.yaml` beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.formats.plain_csv import read_table
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.formats.yaml_lines import plain_pairs
from oneclock.logs.source import Contents, RawRun, Wanted

FORMAT = "DVCLive folder"
_MOST_FILES = 4096


def sniff(path: Path) -> bool:
    return next(_metrics(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    files = dict(sorted(islice(_metrics(path), _MOST_FILES)))
    metric = names.choose_metric(files, wanted.metric, path)
    table = CsvTable.open(files[metric])
    source = read_table(table, replace(wanted, metric=files[metric].stem), FORMAT)
    run = RawRun(path.name, dict(plain_pairs(_root(path) / "params.yaml")))
    for one in source.runs:
        run.series[metric] = one.series[files[metric].stem]
    run.note(files)
    return Contents(FORMAT, [run], source.step, source.steps, source.warnings)


def _root(path: Path) -> Path:
    return path / "dvclive" if (path / "dvclive" / "plots").is_dir() else path


def _metrics(path: Path) -> Iterator[tuple[str, Path]]:
    folder = _root(path) / "plots" / "metrics"
    for file in guards.files(folder):
        if file.suffix == ".tsv":
            yield file.relative_to(folder).with_suffix("").as_posix(), file
