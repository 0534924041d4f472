"""JSON files with a checksum, their seal; and the files of runs, in a folder per run or packed in one file.

A file ends with `seal`, the hash of all its text before that; in schema 2, of all other fields; in schema 1 there is
none. A packed study is a sealed line with the number of runs, then a sealed line per run, sorted by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from oneclock.guards import LARGEST_CURVE, LARGEST_WHOLE, plain_file, small_bytes
from oneclock.runs.key import hash_of
from oneclock.runs.lock import aside_of, check_held

SCHEMA = 3
"""The version of the layout that is written."""


class Damaged(ValueError):
    """The content of a file is not what oneclock wrote."""


def read_json(path: Path) -> dict[str, Any]:
    """A sealed JSON object; anything else is a one-line ValueError, `Damaged` if its seal does not match."""
    try:
        return unsealed(small_bytes(path), path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: this is not a record of oneclock") from None


def unsealed(data: bytes, source: object) -> dict[str, Any]:
    """The JSON object in these bytes, as `read_json` of a file; `source` names them in an error."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{source} is not JSON: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, int):
        raise ValueError(f"{source} is not a record of oneclock: it has no schema")
    if schema > SCHEMA:
        raise ValueError(f"{source} has schema {schema}, newer than this oneclock knows ({SCHEMA}); upgrade oneclock")
    seal = value.pop("seal", None)
    before, mark, end = data.rpartition(f'"{seal}"'.encode())
    whole = bool(mark) and _seal(before) == seal and end.split() == [b"}"] if schema > 2 else seal == hash_of(value)
    if (schema > 1 or seal is not None) and not whole:
        raise Damaged(f"{source} is damaged: its content has changed since it was written (its seal does not match)")
    return value


def sealed(value: Mapping[str, Any], indent: int | None = None) -> str:
    """The object as JSON text under this schema, with its seal; `unsealed` reads it."""
    text = json.dumps({"schema": SCHEMA, **value, "seal": ""}, indent=indent, allow_nan=False)
    before, _, end = text.rpartition('""')
    return f'{before}"{_seal(before.encode())}"{end}'


def _seal(before: bytes) -> str:
    return hashlib.sha256(before).hexdigest()[:16]


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write the object with its seal: a reader sees the complete file or none."""
    write_aside(path, sealed(value, indent=1) + "\n")


def write_aside(path: Path, text: str) -> None:
    """Write to a temporary file, then move it: after any crash the old or the new file is there, complete.

    `Held` if another process has taken the folder over meanwhile: the file is then the other's.
    """
    aside = aside_of(path)
    try:
        with open(aside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        check_held(path.parent)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def sweep_asides(folder: Path) -> None:
    """Remove temporary files of killed writers, in a folder on which only this process works."""
    for left in folder.glob(".*.json*.[0-9]*"):
        left.unlink(missing_ok=True)


PACKED = "runs.jsonl"
RECORD_FILE = re.compile(r"curve\.jsonl|result\.json|run\.json|output(-\d+)?\.log")
"""The names of the files that belong to the record of a run."""


class Files:
    """The files of one run by name: in its own folder, or as texts from its line of a packed study.

    Bytes that are not text are packed as lone surrogates. A missing file is None.
    """

    def __init__(self, path: str | Path, packed: Mapping[str, str] | None = None) -> None:
        self._path = os.fspath(path)
        self.packed = packed

    def read(self, name: str, most: int = LARGEST_WHOLE) -> bytes | None:
        if self.packed is not None:
            return self.packed[name].encode("utf-8", "surrogateescape") if name in self.packed else None
        with suppress(FileNotFoundError, NotADirectoryError):
            return small_bytes(f"{self._path}/{name}", most)
        return None

    def length(self, name: str) -> int | None:
        if self.packed is not None:
            return None if (data := self.read(name)) is None else len(data)
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.stat(f"{self._path}/{name}").st_size
        return None


def files_of_runs(study: Path) -> Iterator[tuple[str, Files]]:
    """Every run that was started, as EXPERIMENT/RUN with its files, in a fixed order."""
    if is_packed(study):
        try:
            yield from packed_runs(study)
        except FileNotFoundError:
            raise ValueError(f"{study} was unpacked while it was read; run the command again") from None
    else:
        yield from ((folder, Files(f"{study}/runs/{folder}")) for folder in folders(study))
        if os.path.exists(f"{study}/{PACKED}") and not os.path.exists(f"{study}/runs"):
            raise ValueError(f"{study} was packed while it was read; run the command again")


def is_packed(study: Path) -> bool:
    """Whether the runs are in one file; ValueError if they are in folders too."""
    packed = os.path.exists(f"{study}/{PACKED}")
    if packed and os.path.exists(f"{study}/runs"):
        raise ValueError(f"{study} has both runs/ and {PACKED}; `oneclock lab unpack` completes the folders")
    return packed


def refuse_packed(study: Path) -> None:
    """ValueError before a sweep writes to a packed study."""
    if is_packed(study):
        raise ValueError(f"the runs of {study} are packed in one file: `oneclock lab unpack {study}` first")


def folders(study: Path) -> list[str]:
    """The folders below `runs`, EXPERIMENT/RUN, in a fixed order."""
    runs = f"{study}/runs"
    return [f"{experiment}/{run}" for experiment in _entries(runs) for run in _entries(f"{runs}/{experiment}")]


def packed_runs(study: Path) -> Iterator[tuple[str, Files]]:
    """The runs of a packed study; `Damaged` if a line has changed, is missing or is too many."""
    path = Path(study) / PACKED
    with open(plain_file(path), "rb") as file:
        expected = unsealed(file.readline(LARGEST_WHOLE), f"{path}, line 1").get("runs")
        number, last = 0, ""
        while line := file.readline(2 * LARGEST_CURVE):
            number += 1
            value = unsealed(line, where := f"{path}, line {number + 1}")
            run, texts = value.get("run"), value.get("files")
            if not isinstance(run, str) or not isinstance(texts, dict) or not last < run:
                raise Damaged(f"{where} is damaged: it is not a run, or has moved")
            if not re.fullmatch(r"[^/\\.][^/\\]*/[^/\\.][^/\\]*", run) or not all(map(RECORD_FILE.fullmatch, texts)):
                raise ValueError(f"{where} holds files that do not belong to a run of oneclock; it is not read")
            last = run
            yield run, Files(run, texts)
    if number != expected:
        raise Damaged(f"{path} is damaged: it has {number} runs, and was written with {expected}")


def _entries(folder: str) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
