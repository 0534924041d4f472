"""One run as it travels to whatever executes it, and its execution."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneclock.study.claims import Claim, Held, holder, me, under
from oneclock.study.identity import Identity
from oneclock.study.records import Result, Run
from oneclock.sweep import family
from oneclock.sweep.cells import Cell
from oneclock.sweep.targets import Target

Message = tuple[str, Any]
"""What a run tells: ("result", Result), ("error", reason), ("busy", who), ("disk", why it takes nothing more)."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What no other run would escape either."""

PROBE = 64 * 1024
"""Bytes that a disk must take to count as one that takes records."""


@dataclass(frozen=True)
class Job:
    """One run. `claim` is the sweep's own: the run stops when it is gone. `environment` is where it was placed.

    Where another process is at the run, a job that `waits` waits for that one to end; a worker's does not.
    """

    path: str
    target: Target
    cell: Cell
    claim: str
    folder: str
    search: tuple[str, ...]
    modules: tuple[str, ...]
    retries: int = 2
    timeout: float | None = None
    waits: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        return self.target.identity(self.cell)


@dataclass(frozen=True)
class Ended:
    """How a job ended. `result` is None where its sweep stopped, or where the disk took none: `trouble` says why."""

    path: str
    result: Result | None = None
    trouble: str | None = None


def execute(job: Job) -> Message:
    """Execute a job in this process, holding the run's claim; what the run raises is raised."""
    path = Path(job.path)
    try:
        claim = claimed(path)
    except Held as error:
        return "busy", str(error)
    with claim, under(claim):
        result = ended(path)
        return "result", result if result is not None else job.target.execute(path, job.cell)


def claimed(path: Path) -> Claim:
    """The run's claim, or `Held`. What a process that died with it has left running is killed first."""
    claim = Claim.take(path)
    if claim.inherited:
        kill_left(path)
    return claim


def kill_left(path: Path) -> None:
    """Kill what dead runs in a folder or below it have started and left running, whoever its parent is now."""
    for pid, folder in family.marked().items():
        if Path(folder).is_relative_to(path) and holder(Path(folder)) in (None, me()):
            family.send(pid, signal.SIGKILL)


def ended(path: Path) -> Result | None:
    """How the run in a folder ended, or None where it has not."""
    return Run.read(path).result if (path / "result.json").exists() else None


def refusal(path: Path) -> str | None:
    """Why the disk does not take a run's records, or None where it does; tried with a small file.

    >>> refusal(Path(tempfile.mkdtemp()) / "run") is None
    True
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(bytes(PROBE))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return described(error)
    return None


def told(error: BaseException) -> Message:
    """An error of a run as a message.

    >>> told(KeyError("layer")), told(OSError(errno.ENOSPC, "No space left on device"))[0]
    (('error', "KeyError: 'layer'"), 'disk')
    """
    full = isinstance(error, OSError) and error.errno in FULL
    return "disk" if full else "error", described(error)


def described(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text}" if text else name
