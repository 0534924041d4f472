"""A run's own output while it is written: what was printed since the last look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from oneclock import guards
from oneclock.logs.formats.printed import LineReader

_MOST_AT_ONCE = 2**24


class PrintedValue(NamedTuple):
    """One printed value: `unit` is "step", "epoch" or "tokens", and `position` counts it."""

    unit: str
    position: float
    metric: str
    value: float


class Followed:
    """The terminal output of a run that may still go on. No byte is read twice.

    `new` may be called at any time, also before the file exists. Only complete lines count, so the last line of a
    finished run must end with a newline, as `print` does it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "output.log"
    >>> output = Followed(path)
    >>> output.new()
    []
    >>> _ = path.write_text("compiling ...\\nstep 250: train loss 2.4, val loss 2.5\\nstep 500: tra")
    >>> for point in output.new():
    ...     print(point)
    PrintedValue(unit='step', position=250.0, metric='train_loss', value=2.4)
    PrintedValue(unit='step', position=250.0, metric='val_loss', value=2.5)
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._at = Path(path), 0
        self._lines = LineReader()

    def new(self) -> list[PrintedValue]:
        """What was printed since the last call; at most 16 MB of text are read in one."""
        try:
            size = os.path.getsize(guards.plain_file(self._path))
        except FileNotFoundError:
            return []
        with open(self._path, "rb") as file:
            file.seek(self._at)
            data = file.read(max(min(size - self._at, _MOST_AT_ONCE), 0))
        whole = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 or (len(data) if len(data) == _MOST_AT_ONCE else 0)
        self._at += whole
        lines = (self._lines.take(line) for line in data[:whole].decode(errors="replace").splitlines())
        return [
            PrintedValue(one.unit, one.position, metric, value)
            for one in lines
            if one is not None
            for metric, value in one.metrics.items()
        ]
