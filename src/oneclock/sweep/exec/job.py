"""A run as a job that is sent to an engine, and its execution in its own process."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.lock import Claim, Held, holder, me, under
from oneclock.runs.record import RunRecord
from oneclock.sweep.exec.processes import MARK, Died, Failed, error_in_words, marked, send

if TYPE_CHECKING:
    from oneclock.sweep.targets import Target

RunEvent = tuple[str, Any]
"""What a run's process reports: ("result", record), ("raised", reason) for an exception of the run's own, ("died",
reason), ("busy", who) where another process works on the run, ("lost", reason) where another has taken it over,
("disk", reason) where the disk takes nothing more."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Disk errors that every other run would get too."""


@dataclass(frozen=True)
class Job:
    """One run. `claim` is the sweep's own: the run stops when it is gone.

    If another process has the run, a job that `waits` waits for it to end; a worker's job does not. An engine sets the
    `modules` that a run will import, and its `environment` with GPUs and threads.
    """

    path: str
    target: Target
    key: RunKey
    claim: str
    folder: str
    search: tuple[str, ...]
    retries: int = 2
    timeout: float | None = None
    waits: bool = True
    modules: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a job ended. `result` is None if its sweep stopped, or if the disk refused the record: `trouble` says why."""

    path: str
    result: RunRecord | None = None
    trouble: str | None = None


def execute(job: Job) -> RunEvent:
    """Execute a job in this process, holding the run's claim; errors of the run are raised.

    After another process has taken the run over, an error here says nothing about the run.
    """
    path = Path(job.path)
    try:
        claim = claimed(path)
    except Held as error:
        return "busy", str(error)
    with claim, under(claim):
        result = ended(path)
        if result is not None:
            return "result", result
        start_output(path)
        try:
            return "result", job.target.execute(path, job.key)
        except Exception as error:
            if not claim.lost:
                raise
            return "lost", error_in_words(error)


def start_output(path: Path) -> None:
    """Give this attempt an output file, where the run's own process prints; earlier ones stay as output-1.log, .."""
    output = path / "output.log"
    path.mkdir(parents=True, exist_ok=True)
    if output.exists() and output.stat().st_size:
        count = sum(1 for _ in path.glob("output-*.log"))
        output.rename(path / f"output-{count + 1}.log")
    if MARK in os.environ:
        redirect(output)


def redirect(output: Path) -> None:
    """Have this process print into a file."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)


def last_lines(path: Path, count: int = 8) -> list[str]:
    """The last lines that the latest attempt of a run printed, without empty ones; none where it printed nothing."""
    with suppress(OSError), open(path / "output.log", "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - 16_384, 0))
        lines = file.read().decode("utf-8", "replace").splitlines()
        return [line.rstrip() for line in lines if line.strip()][-count:]
    return []


def claimed(path: Path) -> Claim:
    """The run's claim, or `Held`. Processes that a dead holder has left running are killed first."""
    claim = Claim.take(path)
    if claim.inherited:
        kill_left(path)
    return claim


def kill_left(path: Path) -> None:
    """Kill processes that dead runs in or below a folder have left running, whatever their parent is now."""
    for pid, folder in marked().items():
        if Path(folder).is_relative_to(path) and holder(Path(folder)) in (None, me()):
            send(pid, signal.SIGKILL)


def ended(path: Path) -> RunRecord | None:
    """How the run in a folder ended, or None if it has not."""
    return RunFolder.read(path).result if (path / "result.json").exists() else None


def refusal(path: Path) -> str | None:
    """Why the disk refuses a run's records, or None if it accepts them; tested with a small file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(bytes(64 * 1024))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error_in_words(error)
    return None


def error_message(error: BaseException) -> RunEvent:
    """An error of a run as a message."""
    if isinstance(error, OSError) and error.errno in FULL:
        return "disk", error_in_words(error)
    kind = "died" if isinstance(error, Died | KeyboardInterrupt) else "raised"
    return kind, str(error) if isinstance(error, Died | Failed) else error_in_words(error)


def print_error(error: BaseException) -> None:
    """Print an error with its traceback, from the first line of the user's own code on."""
    if isinstance(error, Died | Failed):  # the process has printed its own traceback
        return
    first, package = error.__traceback__, str(Path(__file__).parents[2])
    while first is not None and first.tb_frame.f_code.co_filename.startswith(package):
        first = first.tb_next
    traceback.print_exception(type(error), error, first or error.__traceback__)
