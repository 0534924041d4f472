"""Where and how runs execute: the user's choice, and the engines.

In this very process, for a debugger; on this machine, with a thread for each run at a time that supervises a process;
or on the workers of a Dask cluster. On this machine nothing listens on any socket.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from oneclock.sweep.exec.job import Ended, Job, error_message, execute, print_error, refusal
from oneclock.sweep.exec.processes import error_in_words
from oneclock.sweep.exec.server import GRACE
from oneclock.sweep.exec.supervise import Server, give_up, supervise

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Execution:
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
            if (value is not None or name != "jobs") and not (isinstance(value, int) and value >= least):
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if self.timeout is not None and not (isinstance(self.timeout, int | float) and self.timeout > 0):
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout!r}")
        if not (isinstance(self.grace, int | float) and self.grace >= 0):
            raise ValueError(f"grace must be 0 seconds or more, got {self.grace!r}")
        if self.scheduler and self.jobs:
            raise ValueError("a scheduler has its own workers: give jobs or a scheduler, not both")
        if isinstance(self.scheduler, str):
            check_address(self.scheduler, self.insecure)

    def workers(self, processes: int = 1) -> int | None:
        """How many runs of this many processes it executes at a time; None if the cluster decides."""
        if self.scheduler is not None:
            return None
        return 1 if self.in_process else len(self._environments(processes))

    def note(self, processes: int = 1) -> str | None:
        """A note if more jobs were requested than the GPUs allow."""
        workers, gpus = self.workers(processes), len(_gpus())
        if self.in_process or self.jobs is None or workers is None or workers >= self.jobs:
            return None
        way = f"; gpus_per_run {gpus / self.jobs:.2g} lets them share" if processes == 1 else ""
        return f"{workers} of the {self.jobs} jobs asked for run at a time, on {gpus} GPU(s){way}"

    def engine(self, modules: tuple[str, ...] = (), processes: int = 1) -> Engine:
        """The engine that runs them; `modules` are those that the runs will import, `processes` those of one run."""
        if self.in_process:
            return InProcess()
        if self.scheduler:
            return Dask(self.scheduler, self.insecure, modules)
        return Local(self._environments(processes), Server(modules, _threads(self.threads), self.grace))

    def _environments(self, processes: int) -> list[dict[str, str]]:
        # A container or a batch system may allow fewer cores than the machine has.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        gpus_per_run = self.gpus_per_run if processes == 1 else max(self.gpus_per_run, processes)
        return environments(cores // processes, _gpus(), self.jobs, gpus_per_run, self.threads)


class Engine:
    """Executes jobs, `workers` at a time, and reports which have ended; signal handlers may call `wake` and `hurry`."""

    dashboard: str | None = None

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self._arrived: SimpleQueue[Any] = SimpleQueue()

    @property
    def workers(self) -> int:
        return 1

    def submit(self, job: Job) -> None:
        """Execute the job, now or later."""
        self._jobs.put(job)

    def ended(self, timeout: float) -> list[Ended]:
        """The jobs that ended since the last call; waits up to `timeout` seconds for one, or until `wake`."""
        ends: list[Ended] = []
        with suppress(Empty):
            item = self._arrived.get(timeout=timeout)
            while item is not None:
                ends.append(self._outcome(item))
                item = self._arrived.get_nowait()
        return ends

    def _outcome(self, arrived: Any) -> Ended:
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    def wake(self) -> None:
        """Make `ended` return now."""
        self._arrived.put(None)

    def close(self) -> None:
        """Stop all jobs, politely first, and leave no process behind."""

    def hurry(self) -> None:
        """Make `close` stop waiting."""


class InProcess(Engine):
    """Runs one job after another in this process, for debugging: `breakpoint()` works, a crash crashes the sweep."""

    def ended(self, timeout: float) -> list[Ended]:
        job = self._jobs.get()
        try:
            kind, value = execute(job)
        except Exception as error:
            print_error(error)
            kind, value = error_message(error)
        if kind in ("busy", "lost"):
            raise ValueError(value)
        if kind == "result":
            return [Ended(job.path, value)]
        trouble = value if kind == "disk" else refusal(Path(job.path))
        return [Ended(job.path, trouble=trouble) if trouble else give_up(job, value)]

    def wake(self) -> None:
        """Interrupt the run."""
        raise KeyboardInterrupt

    hurry = wake


class Local(Engine):
    """Executes jobs here, one at a time in each of the environments."""

    def __init__(self, environments: Sequence[Mapping[str, str]], server: Server) -> None:
        if not hasattr(os, "fork"):
            raise ValueError("this system cannot fork a process for each run: use --in-process, or WSL on Windows")
        super().__init__()
        self._server = server
        server.open()  # it imports modules while the sweep is planned
        self._threads = [threading.Thread(target=self._work, args=(one,), daemon=True) for one in environments]
        for thread in self._threads:
            thread.start()

    @property
    def workers(self) -> int:
        return len(self._threads)

    def _work(self, environment: Mapping[str, str]) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._arrived.put(supervise(replace(job, environment=environment), self._server))
            except Exception as error:  # noqa: PERF203 (the driver's to raise)
                self._arrived.put(error)

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        self._server.close()  # jobs that wait before the None end at once: no process starts
        for thread in self._threads:
            thread.join(timeout=5)

    def hurry(self) -> None:
        self._server.hurry()


class Dask(Engine):
    """Executes jobs on the workers of `scheduler`: an address, or a cluster object of Dask's."""

    def __init__(self, scheduler: Any, insecure: bool, modules: tuple[str, ...]) -> None:
        super().__init__()
        check_address(getattr(scheduler, "scheduler_address", scheduler), insecure)
        try:
            import distributed
        except ImportError:
            raise ImportError("a cluster needs Dask: pip install 'oneclock[cluster]'") from None
        # Runs do not use these processes: about a killed worker the record says more than they could.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._client = distributed.Client(scheduler, timeout=30, set_as_default=False)
        except OSError as error:
            raise OSError(f"no Dask scheduler answers at {scheduler}: {error}") from None
        self._modules, self._futures = modules, dict[Any, Job]()
        self._given_up = distributed.scheduler.KilledWorker
        self.dashboard = self._client.dashboard_link

    @property
    def workers(self) -> int:
        return sum(self._client.nthreads().values())

    def submit(self, job: Job) -> None:
        name, job = f"{job.path}-{os.urandom(4).hex()}", replace(job, modules=self._modules)
        future = self._client.submit(supervise, job, key=name, pure=False)
        self._futures[future] = job
        future.add_done_callback(self._arrived.put)

    def _outcome(self, future: Any) -> Ended:
        job = self._futures.pop(future)
        try:
            return future.result()
        except self._given_up:
            return give_up(job, "the workers that ran it died again and again")
        except Exception as error:  # the worker could not even start it, for example because a package is missing there
            return give_up(job, f"its worker could not run it: {error_in_words(error)}")

    def close(self) -> None:
        """Disconnect from the cluster; its workers see that the sweep's claim is gone, and stop their runs."""
        self._client.close()


def environments(
    cores: int, gpus: Sequence[str], jobs: int | None = None, gpus_per_run: float = 1.0, threads: int = 1
) -> list[dict[str, str]]:
    """One environment for each run at a time: its share of the GPUs, if there are any, and its number of threads.

    >>> [one["CUDA_VISIBLE_DEVICES"] for one in environments(8, ["0", "1"], gpus_per_run=0.5)]
    ['0', '0', '1', '1']
    >>> len(environments(8, [])), len(environments(8, [], jobs=3))
    (8, 3)
    """
    base = _threads(threads)
    if not gpus:
        return [base] * (jobs or max(cores // threads, 1))
    if gpus_per_run <= 0 or (gpus_per_run > 1 and gpus_per_run != int(gpus_per_run)):
        raise ValueError(f"GPUs per run must be a whole number or a fraction above 0, got {gpus_per_run:g}")
    if gpus_per_run > len(gpus):
        raise ValueError(f"{gpus_per_run:g} GPUs per run were requested, and there are {len(gpus)}")
    size, sharing = max(int(gpus_per_run), 1), max(math.floor(1 / gpus_per_run + 1e-9), 1)
    starts = [start for start in range(0, len(gpus) - size + 1, size) for _ in range(sharing)]
    return [base | {"CUDA_VISIBLE_DEVICES": ",".join(gpus[start : start + size])} for start in starts[:jobs]]


def _threads(number: int) -> dict[str, str]:
    return dict.fromkeys(THREADS, str(number))


def _gpus() -> list[str]:
    """The GPUs this process may use, by the names CUDA_VISIBLE_DEVICES takes."""
    if not any(path.exists() for path in map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))):
        return []  # torch would report it too, a second later
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return names[: torch.cuda.device_count()]


def check_address(address: str, insecure: bool = False) -> None:
    """ValueError for a scheduler that would execute code from anyone on the network, unless `insecure`.

    >>> check_address("tls://10.0.0.5:8786")
    >>> check_address("tcp://10.0.0.5:8786", insecure=True)
    >>> check_address("tcp://a")
    Traceback (most recent call last):
    ValueError: tcp://a executes code from anyone who can reach it: use Dask's TLS (tls://..), or insecure (--insecure)
    """
    parts = urlsplit(address if "//" in address else f"tcp://{address}")
    trusted = insecure or parts.scheme in ("tls", "inproc") or parts.hostname == "localhost"
    with suppress(ValueError):  # a name is no address
        trusted = trusted or ipaddress.ip_address(parts.hostname or "").is_loopback
    if not trusted:
        way = "use Dask's TLS (tls://..), or insecure (--insecure)"
        raise ValueError(f"{address} executes code from anyone who can reach it: {way}")
