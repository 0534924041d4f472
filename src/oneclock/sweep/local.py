"""Runs on this machine: a thread for each run at a time, which sees to a process. Nothing listens anywhere."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

from oneclock.sweep.job import Ended, Job
from oneclock.sweep.process import Server
from oneclock.sweep.server import GRACE
from oneclock.sweep.supervise import supervise

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Local:
    """Executes jobs here, `jobs` at a time (default: one per core or GPU); `modules` are those that they import.

    A run that is to end has `grace` seconds from a polite end to a hard one.
    """

    dashboard: str | None = None

    def __init__(
        self,
        jobs: int | None = None,
        gpus_per_run: float = 1.0,
        threads: int = 1,
        modules: tuple[str, ...] = (),
        grace: float = GRACE,
        processes: int = 1,
    ) -> None:
        if not hasattr(os, "fork"):
            raise ValueError("this system cannot fork a process for each run: use --in-process, or WSL on Windows")
        places = _places(jobs, gpus_per_run, threads, processes)
        self._server = Server(modules, _threads(threads), grace)
        self._server.open()  # it imports while the sweep is planned
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ended: SimpleQueue[Ended | Exception | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, args=(place,), daemon=True) for place in places]
        for thread in self._threads:
            thread.start()

    @property
    def workers(self) -> int:
        return len(self._threads)

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def ended(self, timeout: float) -> list[Ended]:
        found: list[Ended] = []
        try:
            one = self._ended.get(timeout=timeout)
            while one is not None:
                if isinstance(one, Exception):
                    raise one
                found.append(one)
                one = self._ended.get_nowait()
        except Empty:
            pass
        return found

    def wake(self) -> None:
        self._ended.put(None)

    def close(self) -> None:
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        self._server.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def hurry(self) -> None:
        self._server.hurry()

    def _work(self, place: Mapping[str, str]) -> None:
        while (job := self._jobs.get()) is not None:
            self._ended.put(self._outcome(replace(job, environment=place)))

    def _outcome(self, job: Job) -> Ended | Exception:
        try:
            return supervise(job, self._server)
        except Exception as error:  # the driver's to raise
            return error


def placements(
    cores: int, gpus: Sequence[str], jobs: int | None = None, gpus_per_run: float = 1.0, threads: int = 1
) -> list[dict[str, str]]:
    """One environment for each run at a time: its share of the GPUs where there are some, and its number of threads.

    >>> [place["CUDA_VISIBLE_DEVICES"] for place in placements(8, ["0", "1"], gpus_per_run=0.5)]
    ['0', '0', '1', '1']
    >>> len(placements(8, [])), len(placements(8, [], jobs=3))
    (8, 3)
    """
    base = _threads(threads)
    if not gpus:
        return [base] * (jobs or max(cores // threads, 1))
    shares = _shares(gpus, gpus_per_run)
    return [base | {"CUDA_VISIBLE_DEVICES": ",".join(share)} for share in shares[: jobs or len(shares)]]


def _threads(number: int) -> dict[str, str]:
    return dict.fromkeys(THREADS, str(number))


def _cores() -> int:
    """The cores this process may use: a container or a batch system may have given it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shares(gpus: Sequence[str], per_run: float) -> list[Sequence[str]]:
    """The GPUs of each run at a time: one, several, or one that others have too."""
    if per_run <= 0 or (per_run > 1 and per_run != int(per_run)):
        raise ValueError(f"GPUs per run must be a whole number or a fraction above 0, got {per_run:g}")
    if per_run > len(gpus):
        raise ValueError(f"{per_run:g} GPUs per run are asked for, and there are {len(gpus)}")
    if per_run <= 1:
        return [[gpu] for gpu in gpus for _ in range(math.floor(1 / per_run + 1e-9))]
    size = int(per_run)
    return [gpus[start : start + size] for start in range(0, len(gpus) - size + 1, size)]


def slots(jobs: int | None, gpus_per_run: float, threads: int, processes: int = 1) -> int:
    """How many runs of so many processes this machine takes at a time."""
    return len(_places(jobs, gpus_per_run, threads, processes))


def _places(jobs: int | None, gpus_per_run: float, threads: int, processes: int) -> list[dict[str, str]]:
    return placements(_cores() // processes, _gpus(), jobs, gpus_per_run, threads)


def _gpus() -> list[str]:
    """The GPUs this process may use, by the names CUDA_VISIBLE_DEVICES takes."""
    if not any(path.exists() for path in map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))):
        return []  # torch would say so too, a second later
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return names[: torch.cuda.device_count()]
