"""Where the files of runs lie, for whoever reads them: a folder per run, or a line per run of one packed file.

    STUDY/runs/EXPERIMENT/RUN/     run.json, curve.jsonl, result.json; see `oneclock.runs.record`
    STUDY/runs.jsonl               the same files of runs that have ended; see `oneclock.runs.pack`

Readers ask for a file by its name, and need not know where it lies. A packed study is unpacked before it is written to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from oneclock.guards import LARGEST_CURVE, LARGEST_WHOLE, plain_file, small_bytes
from oneclock.runs.files import Damaged, unsealed
from oneclock.runs.lock import holder

PACKED = "runs.jsonl"
_RECORD_FILE = re.compile(r"curve\.jsonl|result\.json|run\.json|output(-\d+)?\.log")


def is_record_file(name: str) -> bool:
    """Whether a file of this name belongs to the record of a run that has ended.

    >>> [is_record_file(name) for name in ("curve.jsonl", "output-2.log", "weights.pt")]
    [True, True, False]
    """
    return _RECORD_FILE.fullmatch(name) is not None


class Files(Protocol):
    """The files of one run, by name: their bytes and their lengths; None where there is no such file."""

    def read(self, name: str, most: int = LARGEST_WHOLE) -> bytes | None: ...

    def length(self, name: str) -> int | None: ...


class Folder:
    """The files of a run in a folder of its own."""

    def __init__(self, path: str | Path) -> None:
        self._path = os.fspath(path)

    def read(self, name: str, most: int = LARGEST_WHOLE) -> bytes | None:
        try:
            return small_bytes(f"{self._path}/{name}", most)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def length(self, name: str) -> int | None:
        try:
            return os.stat(f"{self._path}/{name}").st_size
        except (FileNotFoundError, NotADirectoryError):
            return None


class Line:
    """The files of a run in its line of a packed study; bytes that are no text stand in it as lone surrogates.

    >>> Line({"run.json": "{}"}).read("run.json"), Line({}).length("curve.jsonl")
    (b'{}', None)
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.files = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}

    def read(self, name: str, most: int = LARGEST_WHOLE) -> bytes | None:
        return self.files.get(name)

    def length(self, name: str) -> int | None:
        return len(self.files[name]) if name in self.files else None


def files_of_runs(study: Path) -> Iterator[tuple[str, Files]]:
    """Every run that was started, as EXPERIMENT/RUN with its files, in a fixed order."""
    if is_packed(study):
        try:
            yield from lines(study)
        except FileNotFoundError:
            raise ValueError(f"{study} was unpacked while it was read; do it again") from None
    else:
        yield from ((folder, Folder(f"{study}/runs/{folder}")) for folder in folders(study))
        if os.path.exists(f"{study}/{PACKED}") and not os.path.exists(f"{study}/runs"):
            raise ValueError(f"{study} was packed while it was read; do it again")


def is_packed(study: Path) -> bool:
    """Whether the runs are in one file; ValueError where they are in folders too, and nobody is moving them."""
    packed = os.path.exists(f"{study}/{PACKED}")
    if packed and os.path.exists(f"{study}/runs") and holder(Path(study)) is None:
        raise ValueError(
            f"{study} has both runs/ and {PACKED}, for packing or unpacking was cut short; `oneclock unpack` ends it"
        )
    return packed


def folders(study: Path) -> list[str]:
    """The folders below `runs`, EXPERIMENT/RUN, in a fixed order."""
    runs = f"{study}/runs"
    return [f"{experiment}/{run}" for experiment in _entries(runs) for run in _entries(f"{runs}/{experiment}")]


def lines(study: Path) -> Iterator[tuple[str, Line]]:
    """The runs of a packed study; `Damaged` where a line is not what was written, or lines are too few or too many."""
    path = Path(study) / PACKED
    with open(plain_file(path), "rb") as file:
        expected = unsealed(file.readline(LARGEST_WHOLE), f"{path}, line 1").get("runs")
        number, last = 0, ""
        while line := file.readline(2 * LARGEST_CURVE):
            number += 1
            value = unsealed(line, f"{path}, line {number + 1}")
            run, files = value.get("run"), value.get("files")
            if not isinstance(run, str) or not isinstance(files, dict) or not last < run:
                raise Damaged(f"{path}, line {number + 1} is damaged: it is no run, or not where it was written")
            if not re.fullmatch(r"[^/\\.][^/\\]*/[^/\\.][^/\\]*", run) or not all(map(is_record_file, files)):
                raise ValueError(f"{path}, line {number + 1} holds files that no run of oneclock has; it is not read")
            last = run
            yield run, Line(files)
    if number != expected:
        raise Damaged(f"{path} is damaged: it has {number} runs, and was written with {expected}")


def _entries(folder: str) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
