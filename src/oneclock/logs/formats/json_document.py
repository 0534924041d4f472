"""One JSON document with a curve in it: an array of objects, or columns (`history.json`), perhaps below a key."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.arguments import BETA_PAIRS, is_argument
from oneclock.logs.formats.json_lines import runs_of_objects
from oneclock.logs.number_text import number
from oneclock.logs.source import Contents, RawRun, Wanted

FORMAT = "JSON document"
_LARGEST = 2**26


def sniff(path: Path) -> bool:
    """Whether it is one JSON document, and not JSON lines, which `json_lines` reads."""
    start = guards.head(path).lstrip()
    if not start.startswith(("{", "[")):
        return False
    lines = [line for line in start.splitlines() if line.strip()]
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, dict):
        return len(lines) == 1 and any(isinstance(value, list | dict) and len(value) > 1 for value in first.values())
    if os.path.getsize(path) > _LARGEST:
        return len(lines) == 1 or lines[0].strip() in ("{", "[")  # `load` reports that it is too large
    try:
        document = whole_document(path)
    except ValueError:
        return False
    return bool(document) and (isinstance(document, dict) or isinstance(document[0], dict))


def load(path: Path, wanted: Wanted) -> Contents:
    """Objects where there are any, columns of numbers otherwise; single values are arguments."""
    document = whole_document(path)
    columns = document if isinstance(document, dict) else {"": document}
    arrays = [value for value in columns.values() if isinstance(value, list)]
    objects = [one for array in arrays for one in array if isinstance(one, dict)]
    if not objects:
        return _of_columns(columns, path, wanted)
    settings = {key: value for key, value in columns.items() if not isinstance(value, list) or _is_number_pair(value)}
    return runs_of_objects([settings, *objects], path, wanted, FORMAT)


def whole_document(path: Path) -> Any:
    """The array or object of a file; ValueError if it is too large, no JSON, or something else."""
    text = guards.small_bytes(path, _LARGEST).decode("utf-8-sig", errors="replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not complete JSON; it may be cut off: use an earlier copy") from None
    if not isinstance(document, list | dict):
        raise ValueError(f"{path} is not a JSON array or object")
    return document


def _is_number_pair(value: object) -> bool:
    """Whether it is a list of two numbers, such as betas."""
    return isinstance(value, list) and len(value) == 2 and None not in map(number, value)


def _of_columns(document: Mapping[str, Any], path: Path, wanted: Wanted) -> Contents:
    """The step is a column too, or the position in the others, counted from 1. pandas writes a column as an object."""
    columns = {
        key: list(value.values()) if isinstance(value, dict) else value
        for key, value in document.items()
        if isinstance(value, list | dict)
    }
    step = names.choose_step(columns, wanted.step, path)
    metric = names.choose_metric([key for key in columns if not names.is_position(key)], wanted.metric, path)
    run = RawRun(path.stem, {key: value for key, value in document.items() if is_argument(key) and key not in columns})
    for key in filter(is_argument, columns):
        if key.lower() in BETA_PAIRS:
            run.arguments[key] = columns[key]
        else:
            for value in columns[key]:
                run.log_argument(key, value)
    values = columns[metric]
    steps = range(1, len(values) + 1) if step is None else columns[step]
    series = run.keep(metric)
    for at, value in zip(map(number, steps), map(number, values), strict=False):
        if at is not None and at == at and value is not None:
            series.add(at, value)
    run.note(columns)
    lost = len(values) - len(series) - series.ignored
    warnings = [f"{lost:,} values have no step, or are not a number, and were left out"] if lost else []
    return Contents(FORMAT, [run], step, names.step_candidates(columns), warnings)
