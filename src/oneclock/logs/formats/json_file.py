"""JSON lines, an object per line, or one JSON document: an array of objects, or columns, perhaps below a key.

transformers' `trainer_state.json` is such a document, and a folder of its checkpoints is read too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.arguments import BETA_PAIRS
from oneclock.logs.rows import Row, flat, read_rows
from oneclock.logs.source import Contents, Wanted

FORMAT = "JSON"
_STATE = "trainer_state.json"
_LARGEST = 2**26
_START = re.compile(r'\s*(?:\{\s*"|\[\s*\{)')  # not a line of text such as [12:00:01] or {'loss': 1.5}


def sniff(path: Path) -> bool:
    """Whether it holds JSON lines, or one document that is whole or too large, which `load` reports."""
    if path.is_dir():
        return bool(_states(path))
    start = guards.head(path)
    if not _START.match(start):
        return False
    if '"log_history"' in start or not _is_document(path) or os.path.getsize(path) > _LARGEST:
        return True
    try:
        return bool(_whole_document(path))
    except ValueError:
        return False


def load(path: Path, wanted: Wanted) -> Contents:
    """A file; or a Trainer's output folder: its state, or that of its newest checkpoint if it is ahead."""
    if not path.is_dir():
        return _load_document(path, _whole_document(path), wanted) if _is_document(path) else _load_lines(path, wanted)
    states = [(_whole_document(file), file) for file in _states(path)]
    state, file = max(states, key=lambda pair: _steps(pair[0], "global_step"))
    source = _load_document(path, state, wanted)
    if file.parent != path:
        source.warnings.append(f"read from {file.parent.name}, the newest: what was logged after it is not in it")
    return source


def _states(folder: Path) -> list[Path]:
    """The state of the folder itself, and of its newest checkpoint."""
    numbered = [(re.fullmatch(r"checkpoint-(\d{1,18})", file.parent.name), file) for file in folder.glob(f"*/{_STATE}")]
    newest = sorted((int(match[1]), file) for match, file in numbered if match)[-1:]
    return [file for file in (folder / _STATE, *(file for _, file in newest)) if file.is_file()]


def _steps(state: object, key: str) -> int:
    value = state.get(key) if isinstance(state, dict) else None
    return value if isinstance(value, int) else -1


def _is_document(path: Path) -> bool:
    """Whether the first line is no object of its own, or is alone and has something in it to be read as a column."""
    lines = [line for line in guards.head(path).splitlines() if line.strip()]
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError, IndexError):
        return True
    columns = first.values() if isinstance(first, dict) and len(lines) == 1 else ()
    return not isinstance(first, dict) or any(isinstance(value, list | dict) and len(value) > 1 for value in columns)


def _whole_document(path: Path) -> Any:
    """The content of a file; ValueError if it is too large or no JSON."""
    text = guards.small_bytes(path, _LARGEST).decode("utf-8-sig", errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not complete JSON; it may be cut off: use an earlier copy") from None


def _load_document(path: Path, document: Any, wanted: Wanted) -> Contents:
    """Objects where there are any, else columns, which pandas writes as objects; all other values are settings."""
    if not isinstance(document, list | dict):
        raise ValueError(f"{path} is not a JSON array or object")
    values: dict[str, Any] = document if isinstance(document, dict) else {"": document}
    kinds = {key: type(value) for key, value in values.items() if key.lower() not in BETA_PAIRS}
    column = list if list in kinds.values() else dict
    columns = {
        key: list(values[key] if column is list else values[key].values())
        for key, kind in kinds.items()
        if kind is column
    }
    rows = [one for column in columns.values() for one in column if isinstance(one, Mapping)]
    aligned = (dict(zip(columns, cells, strict=True)) for cells in zip_longest(*columns.values()))
    is_state = "log_history" in columns
    source = read_rows(rows or aligned, path, wanted, f"transformers {_STATE}" if is_state else "JSON document")
    for run in source.runs:
        run.name = path.name if is_state else run.name
        run.arguments |= flat({key: value for key, value in values.items() if key not in columns})
    done, planned = _steps(document, "global_step"), _steps(document, "max_steps")
    if 0 <= done < planned:
        source.warnings.append(f"it holds {done:,} of {planned:,} planned steps: stopped early, or not the end of it")
    return source


def _load_lines(path: Path, wanted: Wanted) -> Contents:
    """A file of JSON lines; lines that are not JSON are counted."""
    bad, torn = 0, False

    def rows() -> Iterator[Row]:
        nonlocal bad, torn
        for line in filter(str.strip, guards.read_lines(path)):
            try:
                value, torn = json.loads(line), False
            except (ValueError, RecursionError):
                value, torn, bad = None, True, bad + 1
            if isinstance(value, dict):
                yield value

    source = read_rows(rows(), path, wanted, "JSON lines")
    if torn := torn and not guards.ends_whole(path):
        source.warnings.append("the last line is cut off and was left out: the log may be truncated")
    if bad := bad - torn:
        source.warnings.append(f"left out: {names.counted(bad, 'line')} without JSON")
    return source
