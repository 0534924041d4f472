"""Explains a path that no reader knows: a guess from its first bytes and its name, and what to do."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.formats.table import CsvTable

_MOST_FILES = 1000
_BY_START = {
    b"PK\x03\x04": "a zip or a PyTorch checkpoint, which holds weights and no curve; name the log beside it",
    b"\x80": "a pickle, which is never opened; save the curve as CSV",
    b"PAR1": "a Parquet table; save it as CSV: pandas.read_parquet(..).to_csv(..)",
    b"\x1f\x8b": "a gzip file; unpack it: gunzip",
    b"SQLite format 3\0": "a SQLite database without MLflow's tables; export the curve as CSV",
    b":W&B": "a W&B run file of another version; export the run's chart as CSV, or use run.scan_history()",
}
_BY_FILE = {
    ".aim": "an Aim repository, which only Aim itself can open; export the metric as CSV from its page",
    "wandb": "a W&B folder without run files; export the run's chart as CSV, or use run.scan_history()",
}


def describe(path: Path) -> str:
    """What the path may be, and what to do."""
    if path.is_dir():
        files = sorted(one.name for one in islice(path.iterdir(), _MOST_FILES))
        other = f"a folder without a log, with {names.name_list(files, 6)} in it; name the file that holds the losses"
        return next((words for name, words in _BY_FILE.items() if name in files or path.name == name), other)
    if not (start := guards.head_bytes(path, 16)):
        return "an empty file; name one with losses in it"
    known = next((words for first, words in _BY_START.items() if start.startswith(first)), None)
    if known or not (text := guards.head(path).lstrip()):
        return known or "not text; name a log, or export the curve as CSV"
    if text.startswith(("{", "[")):
        return "JSON without a loss at several steps, or cut off; give one object per line: step and val_loss"
    try:
        columns = CsvTable.open(path).columns
    except ValueError as error:
        if "without a header" in str(error):
            return "a table without a header; name its columns: --columns step,val_loss"
        columns = []
    if len(columns) > 1:
        return "a table without a number in its first row, or text; put the columns' names on the first line"
    return "text without two lines that name a step and a loss; print both on one line: step 500: val loss 1.25"
