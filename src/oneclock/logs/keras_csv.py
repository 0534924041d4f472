"""Keras' CSVLogger: one row per epoch, counted from 0, and no step."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs import names
from oneclock.logs.plain_csv import read_table
from oneclock.logs.source import Source, Wanted
from oneclock.logs.table import Table

FORMAT = "Keras CSVLogger"


def sniff(path: Path) -> bool:
    try:
        columns = Table.open(path).columns
    except ValueError:
        return False
    return columns[0] == "epoch" and "loss" in columns and not any(map(names.is_step, columns))


def load(path: Path, wanted: Wanted) -> Source:
    return read_table(Table.open(path), wanted, FORMAT)
