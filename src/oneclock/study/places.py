"""Where the files of runs lie, for whoever reads them: STUDY/runs/EXPERIMENT/RUN, a folder per run.

Readers ask for a file by its name, and are told at once where there is none: one look at the disk, not two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from oneclock.guards import LARGEST_WHOLE, small_bytes


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


def folders(study: Path) -> list[str]:
    """The folders of all runs that were started, EXPERIMENT/RUN below `runs`, in a fixed order."""
    runs = Path(study) / "runs"
    return [f"{experiment}/{run}" for experiment in _entries(runs) for run in _entries(runs / experiment)]


def _entries(folder: Path) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from sorted(entry.name for entry in entries if entry.is_dir())
