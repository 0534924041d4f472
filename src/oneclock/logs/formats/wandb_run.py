"""W&B's own run file, `run-ID.wandb`, of runs online and offline, read without wandb: every point, without sampling.

Field numbers are those of W&B's wandb_internal.proto.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from oneclock.logs.arguments import ARGUMENTS
from oneclock.logs.formats import protobuf
from oneclock.logs.formats.json_lines import runs_of_objects
from oneclock.logs.formats.protobuf import BYTES, FIXED64, VARINT
from oneclock.logs.formats.wandb_records import Records, is_run_file
from oneclock.logs.source import MOST_RUNS, Contents, Wanted, together

FORMAT = "W&B run file"
_HISTORY, _CONFIG, _RUN = 2, 5, 17  # fields of Record
_RUN_ID, _RUN_CONFIG, _RUN_NAME = 1, 4, 8
_KEY, _NESTED, _INTEGER, _NUMBER, _JSON = 1, 2, 5, 6, 16  # fields of an item of a history or a config
_MOST_ITEMS = 2**14


def sniff(path: Path) -> bool:
    return next(_files(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """One run's file or folder, or W&B's own folder with several runs."""
    files = sorted({file.resolve() for file in islice(_files(path), 2 * MOST_RUNS)})
    if len(files) > MOST_RUNS:
        raise ValueError(f"{path} holds more than {MOST_RUNS} runs; name the folder of one")
    return together([_read(file, wanted) for file in files], path)


def _files(path: Path) -> Iterator[Path]:
    patterns = ("*.wandb", "*run-*/run-*.wandb", "wandb/*run-*/run-*.wandb")
    files = [path] if path.is_file() else (file for pattern in patterns for file in path.glob(pattern))
    return (file for file in files if file.is_file() and is_run_file(file))


def _read(file: Path, wanted: Wanted) -> Contents:
    run = _Run(file)
    source = runs_of_objects(run, file, wanted, FORMAT)
    for one in source.runs:
        one.name = run.name
        one.arguments |= run.arguments
    if source.step == "_step":
        source.warnings.append("its steps are W&B's own: where the run gave no step, they count calls to log")
    source.warnings += [f"{file.name}: {warning}" for warning in run.warnings()]
    return source


class _Run:
    """The history of a run file, one object per logging call, with the run's name and arguments."""

    def __init__(self, file: Path) -> None:
        self._records, self._bad = Records(file), 0
        self.name = file.stem
        self.arguments: dict[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self._records:
            yield from self._entries(record)

    def _entries(self, record: bytes) -> Iterator[dict[str, Any]]:
        try:
            for number, kind, value in protobuf.fields(record):
                if kind == BYTES and number == _HISTORY:
                    yield _entry(value)
                elif kind == BYTES and number == _RUN:
                    self._begin(value)
                elif kind == BYTES and number == _CONFIG:
                    self._configure(value)
        except ValueError:
            self._bad += 1

    def warnings(self) -> list[str]:
        """Warnings about what was left out, after the history is read."""
        warnings = ["its last record is cut off: the run may still go on"] if self._records.torn else []
        if lost := self._bad + self._records.damaged:
            warnings.append(f"{lost:,} damaged parts, and the records in them were left out")
        return warnings

    def _begin(self, run: bytes) -> None:
        for number, kind, value in protobuf.fields(run):
            if number in (_RUN_ID, _RUN_NAME) and kind == BYTES and value:
                self.name = value.decode(errors="replace")[:200]
            elif number == _RUN_CONFIG and kind == BYTES:
                self._configure(value)

    def _configure(self, config: bytes) -> None:
        values = _values(item for item in protobuf.descend(config, (1,)))
        self.arguments |= {key: value for key, value in values if key.lower() in ARGUMENTS}


def _entry(history: bytes) -> dict[str, Any]:
    """The numbers of one call, and its `_step`, which is W&B's count of calls unless the run gives one."""
    steps = [number for step in protobuf.descend(history, (2,)) for field, _, number in protobuf.fields(step)]
    return {**({"_step": steps[-1]} if steps else {}), **dict(_values(protobuf.descend(history, (1,))))}


def _values(items: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    for item in islice(items, _MOST_ITEMS):
        name, nested, value = "", [], None
        for number, kind, content in protobuf.fields(item):
            if number == _KEY and kind == BYTES:
                name = content.decode(errors="replace")
            elif number == _NESTED and kind == BYTES:
                nested.append(content.decode(errors="replace"))
            elif (number, kind) in _READ:
                value = _READ[number, kind](content)
        if value is not None:
            yield name or "/".join(nested), value


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_READ: dict[tuple[int, int], Callable[[Any], Any]] = {
    (_JSON, BYTES): _json,
    (_NUMBER, FIXED64): lambda content: struct.unpack("<d", content)[0],
    (_INTEGER, VARINT): lambda content: (content >> 1) ^ -(content & 1),
}
"""How each kind of value is read: field and wire type -> function of its content."""
