"""Lightning's CSVLogger: `metrics.csv`, sparse rows, with the hyperparameters in `hparams.yaml` beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oneclock.logs import names
from oneclock.logs.formats.plain_csv import read_table
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.formats.yaml_lines import plain_pairs
from oneclock.logs.source import MOST_RUNS, Contents, Wanted

FORMAT = "Lightning CSVLogger"
_PLACES = ("metrics.csv", "version_*/metrics.csv", "*/version_*/metrics.csv")


def sniff(path: Path) -> bool:
    return next(_versions(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """One version's folder or file, the folder of several versions, or the logger's `save_dir`: a run each."""
    above = sorted({file.parent.parent.name for file in _versions(path)} - {path.name, path.parent.name})
    if len(above) > 1:
        raise ValueError(f"{path} holds the logs of {names.listed(above)}; name the folder of one")
    together: Contents | None = None
    for number_of, file in enumerate(sorted(_versions(path))):
        if number_of >= MOST_RUNS:
            raise ValueError(f"{path} holds more than {MOST_RUNS} versions; name the folder of one")
        source = read_table(CsvTable.open(file), wanted, FORMAT)
        for run in source.runs:
            run.name = file.parent.name
            run.arguments |= dict(plain_pairs(file.parent / "hparams.yaml"))
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
    places = [path] if path.is_file() else [place for pattern in _PLACES for place in path.glob(pattern)]
    return (place for place in places if place.is_file() and _is_metrics(place))


def _is_metrics(path: Path) -> bool:
    if not (path.parent / "hparams.yaml").is_file():
        return False
    try:
        columns = CsvTable.open(path).columns
    except ValueError:
        return False
    return "epoch" in columns and "step" in columns
