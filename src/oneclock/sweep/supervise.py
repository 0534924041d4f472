"""What is done with a job, here or on a worker: see one run to its end, through the deaths of its processes."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path

from oneclock.study.claims import HEARTBEAT, STALE, Claim, Held, held_by
from oneclock.study.records import Run
from oneclock.sweep.job import Ended, Job, Message, claimed, described, ended, kill_left, refusal
from oneclock.sweep.process import DIED, Closed, Server, server_for

_MOMENT = 1.0
"""Seconds that a sweep has to say that it is ending: a batch system ends it and its runs in the same moment."""


def supervise(job: Job, server: Server | None = None) -> Ended:
    """Execute a job in a process of its own, again after a death up to `job.retries` times, until the run has ended."""
    server = server or server_for(job.modules)
    watch, deaths, seconds = _Watch(job), 0, 0.0
    while True:
        started = time.monotonic()
        kind, value = _attempt(job, server, watch)
        if kind == "result":
            return Ended(job.path, value)
        if kind in ("stopped", "lost") or not watch.alive() or (kind == "busy" and not job.waits):
            return Ended(job.path)
        if kind == "busy":  # a run of an earlier sweep that is still dying, or that still trains elsewhere
            time.sleep(0.2)
            continue
        if (trouble := value if kind == "disk" else refusal(Path(job.path))) is not None:
            return Ended(job.path, trouble=trouble)
        deaths, seconds = deaths + 1, seconds + time.monotonic() - started
        if kind == "timeout" or deaths > job.retries:
            time.sleep(_MOMENT)
            if not watch.alive():
                return Ended(job.path)
            tries = f" (tried {deaths} times)" if deaths > 1 else ""
            return give_up(job, value + tries, seconds)


def give_up(job: Job, reason: str, seconds: float = 0.0) -> Ended:
    """Record the run as failed, unless it has ended after all."""
    path = Path(job.path)
    try:
        with _once_free(path) if job.waits else claimed(path):
            if (result := ended(path)) is not None:
                return Ended(job.path, result)
            run = Run.read(path) if (path / "run.json").exists() else Run.start(path, job.identity)
            return Ended(job.path, run.finish("failed", seconds=seconds, reason=reason))
    except Held:  # another worker is at it already
        return Ended(job.path)
    except OSError as error:
        return Ended(job.path, trouble=described(error))


def _attempt(job: Job, server: Server, watch: _Watch) -> Message:
    """One process of the run, from start to exit: what it told, or how it died."""
    try:
        process = server.start(job)
    except Closed:
        return "stopped", None
    except OSError as error:
        return "error", f"its process could not be started: {described(error)}"
    told: Message | None = None
    with process:
        while True:
            message = process.next(timeout=1.0)
            if message is not None:
                kind, value = message
                if kind == "started":
                    watch.begin(value)
                elif kind == "exit":
                    return told or ("error", _death(value))
                elif kind == "gone":
                    kill_left(Path(job.path))
                    return "error", DIED
                else:
                    told = told or message  # why it was asked to end counts for more than that it was
            elif not watch.alive():
                return "stopped", None
            elif told is None and watch.lost():
                told = "lost", None
                process.end()
            elif told is None and watch.overdue():
                told = "timeout", f"it ran longer than {job.timeout:g} seconds (--timeout)"
                process.end()
            watch.keep()


class _Watch:
    """Sees whether the sweep that wants a run still lives, by its claim, and how long the run takes; keeps the run's
    own claim alive, and sees whether it was taken over."""

    def __init__(self, job: Job) -> None:
        self._claim, self._path, self._timeout = Path(job.claim), Path(job.path), job.timeout
        self._touched = 0.0
        self._began: float | None = None
        self._pid = 0
        self._held: Claim | None = None
        self._seen = self._kept = time.monotonic()

    def begin(self, pid: int) -> None:
        self._began = time.monotonic()
        self._pid, self._held = pid, None

    def lost(self) -> bool:
        """Whether the run's process held its claim and holds it no more."""
        if self._held is None and self._began is not None:
            self._held = held_by(self._path, self._pid)
        return self._held is not None and self._held.lost

    def overdue(self) -> bool:
        if self._timeout is None or self._began is None:
            return False
        return time.monotonic() - self._began > self._timeout

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

    def keep(self) -> None:
        if self._held is not None and time.monotonic() - self._kept > HEARTBEAT:
            self._held.touch()
            self._kept = time.monotonic()


def _once_free(path: Path) -> Claim:
    """The run's claim, once its last process has let go of it."""
    while True:
        with suppress(Held):
            return claimed(path)
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
