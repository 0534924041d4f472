"""Where and how runs execute, as a person asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oneclock.sweep.cluster import Dask, check
from oneclock.sweep.engine import Engine, InProcess
from oneclock.sweep.local import Local, slots
from oneclock.sweep.server import GRACE


@dataclass(frozen=True)
class Where:
    """Where and how runs execute; none of it changes a result.

    `jobs` runs at a time (default: one per core or GPU) with `threads` threads and `gpus_per_run` GPUs each; or the
    workers of `scheduler`, a Dask cluster or its address, with TLS or on loopback unless `insecure`; or `in_process`. A
    run that dies is tried again `retries` times; one that takes longer than `timeout` seconds is killed. A run that is
    to end has `grace` seconds to save what it can.
    """

    jobs: int | None = None
    threads: int = 1
    gpus_per_run: float = 1.0
    scheduler: Any = None
    in_process: bool = False
    retries: int = 2
    timeout: float | None = None
    insecure: bool = False
    grace: float = GRACE

    def __post_init__(self) -> None:
        for name, least in (("jobs", 1), ("threads", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout:g}")
        if self.scheduler and self.jobs:
            raise ValueError("the workers of a scheduler are its own: give jobs or a scheduler, not both")
        if isinstance(self.scheduler, str):
            check(self.scheduler, self.insecure)

    def workers(self, processes: int = 1) -> int | None:
        """How many runs of so many processes it takes at a time; None where a cluster knows."""
        if self.scheduler is not None:
            return None
        return 1 if self.in_process else slots(self.jobs, self._gpus(processes), self.threads, processes)

    def engine(self, modules: tuple[str, ...] = (), processes: int = 1) -> Engine:
        """The place to run; `modules` are those that the runs will import, `processes` those of one run."""
        if self.in_process:
            return InProcess()
        if self.scheduler:
            return Dask(self.scheduler, self.insecure)
        return Local(self.jobs, self._gpus(processes), self.threads, modules, self.grace, processes)

    def _gpus(self, processes: int) -> float:
        return self.gpus_per_run if processes == 1 else max(self.gpus_per_run, processes)
