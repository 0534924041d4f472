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
    try:
        return (
            '"log_history"' in start
            or not _is_document(path)
            or os.path.getsize(path) > _LARGEST
            or bool(_whole_document(path))
        )
    except ValueError:
        return False


def load(path: Path, wanted: Wanted) -> Contents:
    if path.is_dir():
        return _load_newest(path, wanted)
    if _is_document(path):
        return _load_document(path, _whole_document(path), wanted)
    lines = _Lines(path)
    source = read_rows(lines, path, wanted, "JSON lines")
    source.warnings += lines.warnings()
    return source


def _load_newest(folder: Path, wanted: Wanted) -> Contents:
    """The state of a Trainer's output folder, or that of its newest checkpoint if it is ahead."""
    states = [(_whole_document(file), file) for file in _states(folder)]
    state, file = max(states, key=lambda pair: _steps(pair[0], "global_step"))
    source = _load_document(folder, state, wanted)
    if file.parent != folder:
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
    if not isinstance(first, dict):
        return True
    return len(lines) == 1 and any(isinstance(value, list | dict) and len(value) > 1 for value in first.values())


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
    values = document if isinstance(document, dict) else {"": document}
    settings, columns = dict[str, Any](), dict[str, list[Any]]()
    has_lists = any(isinstance(value, list) and key.lower() not in BETA_PAIRS for key, value in values.items())
    for key, value in values.items():
        if key.lower() in BETA_PAIRS or not isinstance(value, list if has_lists else dict):
            settings[key] = value
        else:
            columns[key] = list(value) if isinstance(value, list) else list(value.values())
    rows = [one for column in columns.values() for one in column if isinstance(one, Mapping)]
    aligned = (dict(zip(columns, cells, strict=True)) for cells in zip_longest(*columns.values()))
    is_state = "log_history" in columns
    source = read_rows(rows or aligned, path, wanted, f"transformers {_STATE}" if is_state else "JSON document")
    for run in source.runs:
        run.name = path.name if is_state else run.name
        run.arguments |= flat(settings)
    done, planned = _steps(document, "global_step"), _steps(document, "max_steps")
    if 0 <= done < planned:
        source.warnings.append(f"it holds {done:,} of {planned:,} planned steps: stopped early, or not the end of it")
    return source


class _Lines:
    """The objects of a file of JSON lines; lines that are not JSON are counted."""

    def __init__(self, path: Path) -> None:
        self._path, self._bad, self._torn = path, 0, False

    def __iter__(self) -> Iterator[Row]:
        for line in guards.read_lines(self._path):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                self._bad += 1
                self._torn = True
                continue
            self._torn = False
            if isinstance(value, dict):
                yield value
        self._torn = self._torn and not guards.ends_whole(self._path)

    def warnings(self) -> list[str]:
        """Warnings about what was left out, after the file is read."""
        warnings = ["the last line is cut off and was left out: the log may be truncated"] if self._torn else []
        if bad := self._bad - self._torn:
            warnings.append(f"{bad:,} lines are not JSON and were left out")
        return warnings
