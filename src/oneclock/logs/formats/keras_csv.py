"""Keras' CSVLogger: one row per epoch, counted from 0, and no step."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import names
from oneclock.logs.formats.plain_csv import read_table
from oneclock.logs.formats.table import CsvTable
from oneclock.logs.source import Contents, Wanted

FORMAT = "Keras CSVLogger"


def sniff(path: Path) -> bool:
    try:
        columns = CsvTable.open(path).columns
    except ValueError:
        return False
    return columns[0] == "epoch" and "loss" in columns and not any(map(names.is_step, columns))


def load(path: Path, wanted: Wanted) -> Contents:
    return read_table(CsvTable.open(path), wanted, FORMAT)
