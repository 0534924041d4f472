"""Reads sweeps: from a long table, a file with one, or a study's folder of records to a `Sweeps` value.

docs/analysis.md lists the columns. Without `status`, a run diverged when its last validation loss is not finite. A row
with a training loss alone is no validation. Rows count from 1 below the header; their order does not matter.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oneclock.guards import plain_file, plain_table, read_lines, refuse_vast
from oneclock.plain_text import cell_as_it_was, printable, without_places
from oneclock.runs.columns import Rows
from oneclock.runs.files import files_of_runs, read_json
from oneclock.runs.folder import RunFolder
from oneclock.runs.planned import missing_in_words, missing_runs, waiting_runs
from oneclock.runs.record import ENDS, RunRecord, with_learning_rate
from oneclock.runs.sweeps import SPLITS, Sweep, Sweeps, sweep_of

if TYPE_CHECKING:
    import pandas as pd

_READ = "experiment split budget beta beta2 lr seed status t_es step val_loss train_loss min_val_loss min_train_loss"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_source(source: str | Path | pd.DataFrame | Mapping[str, Sequence[Any]]) -> Sweeps:
    """A study from a CSV, TSV or Parquet file, a study's folder, a DataFrame or a mapping of columns.

    >>> columns = {"experiment": ["digits"] * 2, "budget": [500] * 2, "beta": [0.9, 0.99], "min_val_loss": [1, 2]}
    >>> read_source(columns).sweeps[0].betas
    (0.9, 0.99)
    """
    if not isinstance(source, str | Path):
        return sweeps_of(source if isinstance(source, Mapping) else _columns(source))
    path = Path(source)
    if path.is_dir():
        return _sweeps_of_records(path)
    columns = read_columns(path)
    try:
        return sweeps_of(columns)
    except ValueError as error:
        raise ValueError(f"{path.name}, {error}") from None


def read_columns(path: Path) -> dict[str, Sequence[Any]]:
    """The columns of a table in a file."""
    if not path.exists():
        raise ValueError(f"{path} does not exist; give a CSV or Parquet file, or a study's folder")
    suffix = plain_file(path).suffix.lower()
    if suffix == ".parquet":
        return _columns(_parquet(path))
    if suffix not in _DELIMITERS:
        raise ValueError(f"{path.name} is neither .csv, .tsv nor .parquet; save the table as one of them")
    return _columns(_text(path, _DELIMITERS[suffix]))


def _text(path: Path, delimiter: str) -> pd.DataFrame:
    """A text table with every cell as text, so that numbers keep every digit."""
    import pandas as pd

    plain_table(path, delimiter)
    try:
        _refuse_repeated(next(csv.reader(read_lines(path), delimiter=delimiter), []))
        frame = pd.read_csv(path, sep=delimiter, dtype=object)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV in UTF-8") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise ValueError(f"{path.name} is not a table: {str(error).strip()}") from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas would use the first cells as row names
        raise ValueError(f"{path.name} is not a table: its rows have more cells than its header")
    for name in frame.columns.difference(_READ.split()):  # two stray quotes turn all between them into one cell
        cells = frame[name].dropna()
        hidden = cells[cells.str.contains(r"[\r\n]") & cells.str.contains(delimiter, regex=False)]
        if count := int(hidden.str.count(r"\r\n|\r|\n").sum()):
            where = f"the column {printable(str(name))!r}, row {hidden.index[0] + 1}"
            way = "a stray quote does that: mend it, or leave the column out"
            raise ValueError(f"{path.name} hides {count} line(s) in quoted cells of {where}; {way}")
    if "experiment" in frame:
        frame["experiment"] = frame["experiment"].map(cell_as_it_was, na_action="ignore")
    return frame


def _parquet(path: Path) -> pd.DataFrame:
    """A Parquet table, unpacked only if the size in its header is small enough."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("a Parquet file needs pyarrow: pip install 'oneclock[logs]'") from None
    try:
        metadata = parquet.read_metadata(path)
        refuse_vast(path, metadata.num_rows, metadata.num_columns)
        return parquet.read_table(path).to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, ValueError, TypeError, KeyError, OSError, NotImplementedError) as error:
        why = printable(" ".join(str(error).split()))
        raise ValueError(f"{path.name} cannot be read as a Parquet table: {why}") from None


def _columns(frame: pd.DataFrame) -> dict[str, Sequence[Any]]:
    """A frame's columns as plain lists or arrays, for all of pandas' types of strings and missing values."""
    _refuse_repeated([str(name) for name in frame.columns])

    def column(values: pd.Series[Any]) -> Any:
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "if":
            return values.to_numpy()
        return [None if absent else value for value, absent in zip(values, values.isna(), strict=True)]

    return {str(name): column(frame[name]) for name in frame.columns}


def _refuse_repeated(names: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1 and name]
    if repeated:
        raise ValueError(f"the table has the column {repeated[0]!r} more than once; rename one of them")


def sweeps_of(columns: Mapping[str, Sequence[Any]]) -> Sweeps:
    """A study from the columns of a long table, all of one length. Every ValueError names the row."""
    return _in_order(Rows(columns).sweeps())


def _in_order(sweeps: Iterable[Sweep], missing: Sequence[str] = ()) -> Sweeps:
    """Sweeps as one value, development first; those without a finite loss are left out."""
    every = sorted(sweeps, key=lambda sweep: (SPLITS.index(sweep.split), _natural(sweep.name)))
    kept = [sweep for sweep in every if any(math.isfinite(run.loss) for run in sweep.tied)]
    if not kept:
        raise ValueError("no experiment has a tied beta with a finite loss; there is nothing to analyse")
    left_out = (f"{sweep.name}: no tied beta has a finite loss; left out" for sweep in every if sweep not in kept)
    return Sweeps(tuple(kept), (*missing, *left_out))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts 2 before 10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def _sweeps_of_records(path: Path) -> Sweeps:
    """A study from its records. Unfinished, failed and missing runs have no loss, and `missing` lists them."""
    missing: list[str] = []
    records: list[RunRecord] = []
    for folder, files in files_of_runs(path):
        if files.length("run.json") is None:
            missing.append(f"{folder}: its run.json is missing, so that it cannot be read; left out")
            continue
        run = RunFolder.read(f"{path}/runs/{folder}", files)
        record = run.record() or RunRecord(run.key, "interrupted", environment=run.environment)
        records.append(record)
        if not record.has_loss:
            why = f"failed ({_reason(record)})" if record.status == "failed" else "is not finished"
            missing.append(f"{record.experiment}: beta {record.beta}, seed {record.seed} {why}; left out")
    waiting, notes = _planned(path, records)
    missing += [*notes, *_different_data(records)]
    by_experiment: dict[str, list[RunRecord]] = {}
    for record in (*map(with_learning_rate, records), *waiting):
        by_experiment.setdefault(record.experiment, []).append(record)
    if not any(record.has_loss for record in records):
        failed = [record for record in records if record.status == "failed"]
        why = f"{len(failed)} failed: {_reason(failed[0])}" if failed else "finish the sweep first"
        raise ValueError(f"{path} holds no finished run; {why}")
    states = Counter("unfinished" if one.status == "interrupted" else str(one.status) for one in records)
    ran_on = Counter(json.dumps(record.environment, sort_keys=True) for record in records).most_common()
    environments = [(json.loads(text), count) for text, count in ran_on if text != "{}"]
    measured = sorted({record.experiment for record in records if record.has_loss})
    swept = _in_order((_sweep(by_experiment[name]) for name in measured), missing)
    return replace(swept, states=states, environments=tuple(environments))


def _reason(record: RunRecord) -> str:
    return without_places(record.reason or "no reason recorded")


def _sweep(records: Sequence[RunRecord]) -> Sweep:
    """One experiment from its records, which have one split and one budget."""
    measured = [record for record in records if record.has_loss]
    first = measured[0].key
    for key in (record.key for record in measured):
        if (key.split, key.budget) != (first.split, first.budget):
            other = f"{first.folder} has {first.budget}, {first.split}"
            raise ValueError(
                f"{key.folder} has {key.budget} steps, {key.split}; {other}: an experiment has one of each"
            )
    without = [record for record in records if not record.has_loss]
    return sweep_of([*sorted(measured, key=lambda run: run.key.order), *without], first.budget)


def _planned(path: Path, records: Sequence[RunRecord]) -> tuple[list[RunRecord], list[str]]:
    """The planned runs that have not begun, as records, and what to say of them."""
    if not (path / "study.json").exists():
        return [], []
    ended = [record for record in records if record.status in ENDS]
    try:
        missing = missing_runs(read_json(path / "study.json"), ended)
    except ValueError:  # study.json is damaged: the runs can be read without it
        return [], ["study.json is damaged, so missing runs cannot be noticed; run the same sweep again to write it"]
    begun = {record.key.folder for record in records if not record.has_loss}
    absent = {name: [key for key in keys if key.folder not in begun] for name, keys in missing.items()}
    notes = [f"{name}: {missing_in_words(keys)}" for name, keys in absent.items() if keys]
    return waiting_runs([key for keys in absent.values() for key in keys], ended), notes


def _different_data(records: Sequence[RunRecord]) -> list[str]:
    """A sentence for each experiment whose records have more than one hash of data; an empty one is unknown."""
    pairs = {(record.experiment, str(data)) for record in records if (data := record.environment.get("data"))}
    counts = sorted(Counter(name for name, _ in pairs).items())
    return [f"{name}: its runs were trained on {count} different sets of data" for name, count in counts if count > 1]
