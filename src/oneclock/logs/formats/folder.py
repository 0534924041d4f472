"""A folder that holds one log, in any format that is a single file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from oneclock.logs.source import Contents, Reader, Wanted

_MOST_FILES = 1000
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".log", ".txt", ".out", ".db", ".sqlite")


class FolderReader:
    """Reads the only file of a folder that one of `readers` recognises."""

    FORMAT = "folder with one log"

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def sniff(self, path: Path) -> bool:
        return path.is_dir() and next(self._logs(path), None) is not None

    def load(self, path: Path, wanted: Wanted) -> Contents:
        logs = list(self._logs(path))
        if len(logs) > 1:
            listed = ", ".join(file.name for _, file in logs[:12])
            raise ValueError(f"{path} holds {len(logs)} logs: {listed}; name the one you mean")
        reader, file = logs[0]
        return reader.load(file, wanted)

    def _logs(self, folder: Path) -> Iterator[tuple[Reader, Path]]:
        for file in sorted(islice(folder.iterdir(), _MOST_FILES)):
            if file.is_file() and file.suffix in _SUFFIXES:
                reader = next((reader for reader in self._readers if reader.sniff(file)), None)
                if reader is not None:
                    yield reader, file
