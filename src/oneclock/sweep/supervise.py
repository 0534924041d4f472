"""What a worker does with a job: see one run to its end, through the deaths of its processes."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oneclock.study.claims import HEARTBEAT, STALE, Claim, Held, touch
from oneclock.study.records import Result, Run
from oneclock.sweep.process import Job, Message, described, ended, start


@dataclass(frozen=True)
class Ended:
    """How a job ended. `result` is None where its sweep stopped; `recorded` is False where the disk took no result."""

    path: str
    result: Result | None
    recorded: bool = True


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C to the driver; Dask calls this in every local worker as it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def supervise(job: Job) -> Ended:
    """Execute a job in a process of its own, again after a death up to `job.retries` times, until the run has ended."""
    watch, deaths = _Watch(job.claim), 0
    while True:
        kind, value = _attempt(job, watch)
        if kind == "result":
            return Ended(job.path, value)
        if kind == "stopped":
            return Ended(job.path, None)
        if kind == "busy":  # a run of an earlier sweep that is still dying, or that still trains elsewhere
            time.sleep(1)
            continue
        deaths += 1
        if kind == "timeout" or deaths > job.retries:
            tries = f" (tried {deaths} times)" if deaths > 1 else ""
            return give_up(job, value + tries)


def give_up(job: Job, reason: str) -> Ended:
    """Record the run as failed, unless it has ended after all."""
    path = Path(job.path)
    try:
        with _claimed(path):
            if (result := ended(path)) is not None:
                return Ended(job.path, result)
            run = Run.read(path) if (path / "run.json").exists() else Run.start(path, job.identity)
            return Ended(job.path, run.finish("failed", seconds=0.0, reason=reason))
    except OSError as error:
        lost = f"{reason}; and its record could not be written: {described(error)}"
        return Ended(job.path, Result("failed", None, None, 0, 0.0, lost), recorded=False)


def _attempt(job: Job, watch: _Watch) -> Message:
    """One process of the run, from start to exit: what it told, or how it died."""
    try:
        connection = start(job)
    except OSError as error:
        return "error", f"its process could not be started: {described(error)}"
    started, told = time.monotonic(), None
    with connection:
        while True:
            if connection.poll(1.0):
                try:
                    kind, value = connection.recv()
                except (EOFError, OSError):
                    return "error", "the process that starts runs died"
                if kind == "exit":
                    return told or ("error", _death(value))
                told = kind, value
            elif not watch.alive():
                return "stopped", None
            elif job.timeout is not None and time.monotonic() - started > job.timeout:
                return "timeout", f"it ran longer than {job.timeout:g} seconds (--timeout)"
            watch.keep(Path(job.path))


class _Watch:
    """Sees whether the sweep that wants a run still lives, by its claim; keeps the run's own claim alive."""

    def __init__(self, claim: str) -> None:
        self._claim = Path(claim)
        self._touched, self._seen = 0.0, time.monotonic()
        self._kept = time.monotonic()

    def alive(self) -> bool:
        try:
            touched = self._claim.stat().st_mtime
        except FileNotFoundError:
            return False
        except OSError:  # a network disk that does not answer says nothing
            return True
        if touched != self._touched:
            self._touched, self._seen = touched, time.monotonic()
        return time.monotonic() - self._seen < STALE

    def keep(self, path: Path) -> None:
        if time.monotonic() - self._kept > HEARTBEAT:
            touch(path)
            self._kept = time.monotonic()


def _claimed(path: Path) -> Claim:
    """The run's claim, once its last process has let go of it."""
    while True:
        with suppress(Held):
            return Claim.take(path)
        time.sleep(0.1)


def _death(code: int) -> str:
    """A process's exit in words.

    >>> _death(-9)
    'its process was killed by SIGKILL (the out-of-memory killer does that)'
    """
    if code >= 0:
        return f"its process ended with exit code {code} before the run was finished"
    name = signal.Signals(-code).name
    hint = {"SIGKILL": " (the out-of-memory killer does that)", "SIGSEGV": " (a segmentation fault)"}.get(name, "")
    return f"its process was killed by {name}{hint}"
