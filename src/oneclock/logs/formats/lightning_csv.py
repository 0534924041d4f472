"""Lightning's CSVLogger: `metrics.csv`, sparse rows, with the hyperparameters in `hparams.yaml` beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from oneclock import guards
from oneclock.logs.formats.plain_csv import read_table
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.source import MOST_RUNS, Contents, Wanted, number

FORMAT = "Lightning CSVLogger"


def sniff(path: Path) -> bool:
    return next(_versions(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """One version's folder or file, or the folder of several versions: a run each."""
    together: Contents | None = None
    for number_of, file in enumerate(sorted(_versions(path))):
        if number_of >= MOST_RUNS:
            raise ValueError(f"{path} holds more than {MOST_RUNS} versions; name the folder of one")
        source = read_table(CsvTable.open(file), wanted, FORMAT)
        for run in source.runs:
            run.name = file.parent.name
            run.arguments |= dict(_hparams(file.parent / "hparams.yaml"))
        if together is None:
            together = source
        elif together.step == source.step:
            together.runs += source.runs
            together.warnings += source.warnings
        else:
            raise ValueError(f"{path}: its versions count {together.step!r} and {source.step!r}; read them one by one")
    if together is None:
        raise ValueError(f"{path} holds no metrics.csv of Lightning's, with hparams.yaml beside it")
    return together


def _versions(path: Path) -> Iterator[Path]:
    places = [path] if path.is_file() else [path / "metrics.csv", *path.glob("version_*/metrics.csv")]
    return (place for place in places if place.is_file() and _is_metrics(place))


def _is_metrics(path: Path) -> bool:
    if not (path.parent / "hparams.yaml").is_file():
        return False
    try:
        columns = CsvTable.open(path).columns
    except ValueError:
        return False
    return "epoch" in columns and "step" in columns


def _hparams(path: Path) -> Iterator[tuple[str, object]]:
    """The plain `name: value` lines of a YAML file, and lists of numbers; tags and nesting are not opened."""
    key, items = "", []
    for line in guards.head(path).splitlines() if path.is_file() else []:
        if (item := re.fullmatch(r"\s*- (\S+)", line)) and number(item[1]) is not None:
            items.append(number(item[1]))
            yield key, list(items)
        elif pair := re.fullmatch(r"([\w./-]+):\s*(.*)", line):
            key, items = pair[1], []
            if pair[2] and not pair[2].startswith(("!", "&")):
                yield key, pair[2].strip("'\"")
