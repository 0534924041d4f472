"""Lightning's CSVLogger: `metrics.csv`, sparse rows, with the hyperparameters in `hparams.yaml` beside it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from oneclock.logs import names
from oneclock.logs.formats.plain_csv import read_table
from oneclock.logs.formats.table import CsvTable, columns_of
from oneclock.logs.formats.yaml_lines import plain_pairs
from oneclock.logs.source import MOST_RUNS, Contents, Wanted, together

FORMAT = "Lightning CSVLogger"
_PATTERNS = ("metrics.csv", "version_*/metrics.csv", "*/version_*/metrics.csv")


def sniff(path: Path) -> bool:
    return next(_versions(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """One version's folder or file, the folder of several versions, or the logger's `save_dir`; each version is a
    run.
    """
    files = sorted(islice(_versions(path), MOST_RUNS + 1))
    above = sorted({file.parent.parent.name for file in files} - {path.name, path.parent.name})
    if len(above) > 1:
        raise ValueError(f"{path} holds the logs of {names.name_list(above)}; name the folder of one")
    if len(files) > MOST_RUNS:
        raise ValueError(f"{path} holds more than {MOST_RUNS} versions; name the folder of one")
    return together([_read(file, wanted) for file in files], path)


def _read(file: Path, wanted: Wanted) -> Contents:
    source = read_table(CsvTable.open(file), wanted, FORMAT)
    for run in source.runs:
        run.name = file.parent.name
        run.arguments |= dict(plain_pairs(file.parent / "hparams.yaml"))
    return source


def _versions(path: Path) -> Iterator[Path]:
    files = [path] if path.is_file() else [file for pattern in _PATTERNS for file in path.glob(pattern)]
    return (file for file in files if file.is_file() and _is_metrics(file))


def _is_metrics(path: Path) -> bool:
    known = (path.parent / "hparams.yaml").is_file() or path.parent.name.startswith("version_")
    return known and {"epoch", "step"} <= set(columns_of(path))
