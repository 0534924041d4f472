"""Where runs execute: Dask workers on this machine, any Dask cluster, or this very process."""

from __future__ import annotations

import logging
import math
import os
import queue
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from oneclock.sweep.process import Job, Server, described, execute
from oneclock.sweep.supervise import Ended, give_up, supervise


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
        """The jobs that ended since the last call; waits up to `timeout` seconds for one."""

    def close(self) -> None:
        """Stop what runs, and leave nothing behind."""


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
            return [give_up(job, described(error))]
        if kind == "busy":
            raise ValueError(value)
        return [Ended(job.path, value)]

    def close(self) -> None:
        self._jobs.clear()


class Dask:
    """Runs jobs on Dask workers: those of `scheduler` (tcp://host:port), or processes started here, one thread each."""

    def __init__(
        self,
        scheduler: str | None = None,
        jobs: int | None = None,
        gpus_per_run: float = 1.0,
        threads: int = 1,
        modules: tuple[str, ...] = (),
    ) -> None:
        self._server = Server(modules, _threads(threads)) if scheduler is None else None  # imports while Dask starts
        distributed = _distributed()
        # Nothing of a run goes through these processes: what they would say of a killed worker, the record says better.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._cluster = None if scheduler else _local_cluster(jobs, gpus_per_run, threads)
            self._client = distributed.Client(scheduler or self._cluster, timeout=30, set_as_default=False)
        except BaseException as error:
            self._close_server()
            if scheduler and isinstance(error, OSError):
                raise OSError(f"no Dask scheduler answers at {scheduler}: {error}") from None
            raise
        self._jobs: dict[Any, Job] = {}
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._given_up = distributed.scheduler.KilledWorker

    @property
    def workers(self) -> int:
        return sum(self._client.nthreads().values())

    @property
    def dashboard(self) -> str | None:
        return self._client.dashboard_link if self._cluster is None or _has_bokeh() else None

    def submit(self, job: Job) -> None:
        if self._server is not None:
            job = replace(job, server=self._server.address)
        future = self._client.submit(supervise, job, key=f"{job.path}-{os.urandom(4).hex()}", pure=False)
        self._jobs[future] = job
        future.add_done_callback(self._ended.put)

    def ended(self, timeout: float) -> list[Ended]:
        found = []
        try:
            future = self._ended.get(timeout=timeout)
            while True:
                found.append(self._outcome(future))
                future = self._ended.get_nowait()
        except queue.Empty:
            return found

    def _outcome(self, future: Any) -> Ended:
        job = self._jobs.pop(future)
        try:
            return future.result()
        except self._given_up:
            return give_up(job, "the workers that ran it died again and again")
        except Exception as error:  # the worker could not even start it: a package that is missing there, say
            return give_up(job, f"its worker could not run it: {described(error)}")

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._close_server()

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()


def placements(
    cores: int, gpus: Sequence[str], jobs: int | None = None, gpus_per_run: float = 1.0, threads: int = 1
) -> list[dict[str, str]]:
    """One environment per worker: its share of the GPUs where there are some, and its number of threads.

    >>> [worker["CUDA_VISIBLE_DEVICES"] for worker in placements(8, ["0", "1"], gpus_per_run=0.5)]
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
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(number))


def _shares(gpus: Sequence[str], per_run: float) -> list[Sequence[str]]:
    """The GPUs of each worker: one, several, or one that others have too."""
    if per_run <= 0 or (per_run > 1 and per_run != int(per_run)):
        raise ValueError(f"GPUs per run must be a whole number or a fraction above 0, got {per_run:g}")
    if per_run > len(gpus):
        raise ValueError(f"{per_run:g} GPUs per run are asked for, and there are {len(gpus)}")
    if per_run <= 1:
        return [[gpu] for gpu in gpus for _ in range(math.floor(1 / per_run + 1e-9))]
    size = int(per_run)
    return [gpus[start : start + size] for start in range(0, len(gpus) - size + 1, size)]


_CALM = {
    "distributed.scheduler.worker-saturation": 1.0,  # no run waits behind another's
    "distributed.worker.profile.enabled": False,  # what follows would take some percent of the cores from the runs
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


def _local_cluster(jobs: int | None, gpus_per_run: float, threads: int) -> Any:
    distributed = _distributed()
    import dask
    from dask.system import CPU_COUNT

    common = {
        "host": "127.0.0.1",
        "nthreads": 1,
        "memory_limit": 0,
        "dashboard": False,
        "silence_logs": logging.CRITICAL,
        "preload": ["oneclock.sweep.supervise"],
    }
    workers = {
        number: {"cls": distributed.Nanny, "options": common | {"env": place}}
        for number, place in enumerate(placements(CPU_COUNT, _gpus(), jobs, gpus_per_run, threads))
    }
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {
            "host": "127.0.0.1",
            "port": 0,
            "dashboard": _has_bokeh(),
            "dashboard_address": "127.0.0.1:0",
            "allowed_failures": 10,  # of a worker; a run's own deaths are counted by its worker
        },
    }
    with dask.config.set(_CALM):
        for _ in range(3):
            with suppress(RuntimeError):  # a worker that was killed while it started
                return distributed.SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.CRITICAL)
    raise RuntimeError("no worker process starts; in a script, put the sweep under `if __name__ == '__main__':`")


def _gpus() -> list[str]:
    """The GPUs this process may use, by the names CUDA_VISIBLE_DEVICES takes."""
    if not any(path.exists() for path in map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))):
        return []  # torch would say so too, a second later
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return names[: torch.cuda.device_count()]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ImportError("sweeps need Dask: pip install 'oneclock[sweep]'") from None
    return distributed


def _has_bokeh() -> bool:
    from importlib.util import find_spec

    return find_spec("bokeh") is not None
