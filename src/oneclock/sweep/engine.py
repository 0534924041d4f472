"""Where runs execute, as the driver sees it, and the plainest such place: this very process."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Protocol

from oneclock.sweep.job import Ended, Job, execute, refusal, told
from oneclock.sweep.supervise import give_up


class Engine(Protocol):
    """Takes jobs, and tells which have ended."""

    @property
    def workers(self) -> int:
        """How many runs execute at a time."""

    @property
    def dashboard(self) -> str | None:
        """Where the engine shows itself in a browser, if it does."""

    def submit(self, job: Job) -> None:
        """Have the job executed, now or later."""

    def ended(self, timeout: float) -> list[Ended]:
        """The jobs that ended since the last call; waits up to `timeout` seconds for one, or until `wake`."""

    def wake(self) -> None:
        """Have `ended` return now; a signal handler may call it."""

    def close(self) -> None:
        """Stop what runs, politely first, and leave nothing behind."""

    def hurry(self) -> None:
        """Have `close` wait for nobody; a signal handler may call it."""


class InProcess:
    """Runs one job after another in this process, for debugging: `breakpoint()` works, a crash crashes the sweep."""

    workers = 1
    dashboard: str | None = None

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def ended(self, timeout: float) -> list[Ended]:
        job = self._jobs.pop(0)
        try:
            kind, value = execute(job)
        except Exception as error:
            traceback.print_exc()
            kind, value = told(error)
        if kind == "busy":
            raise ValueError(value)
        if kind == "result":
            return [Ended(job.path, value)]
        trouble = value if kind == "disk" else refusal(Path(job.path))
        return [Ended(job.path, trouble=trouble) if trouble else give_up(job, value)]

    def wake(self) -> None:
        """Interrupt the run: it has nobody else to tell it."""
        raise KeyboardInterrupt

    def close(self) -> None:
        self._jobs.clear()

    def hurry(self) -> None:
        """Interrupt it again."""
        raise KeyboardInterrupt
