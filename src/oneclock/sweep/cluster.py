"""Runs on the workers of a Dask cluster; all that a worker does with a run is to supervise it."""

from __future__ import annotations

import ipaddress
import logging
import os
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from oneclock.sweep.job import Ended, Job, described
from oneclock.sweep.supervise import give_up, supervise


class Dask:
    """Executes jobs on the workers of `scheduler`: an address, or a cluster object of Dask's."""

    def __init__(self, scheduler: Any, insecure: bool = False) -> None:
        check(getattr(scheduler, "scheduler_address", scheduler), insecure)
        try:
            import distributed
        except ImportError:
            raise ImportError("a cluster needs Dask: pip install 'oneclock[cluster]'") from None
        # Nothing of a run goes through these processes: what they would say of a killed worker, the record says better.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._client = distributed.Client(scheduler, timeout=30, set_as_default=False)
        except OSError as error:
            raise OSError(f"no Dask scheduler answers at {scheduler}: {error}") from None
        self._jobs: dict[Any, Job] = {}
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self._given_up = distributed.scheduler.KilledWorker

    @property
    def workers(self) -> int:
        return sum(self._client.nthreads().values())

    @property
    def dashboard(self) -> str | None:
        return self._client.dashboard_link

    def submit(self, job: Job) -> None:
        future = self._client.submit(supervise, job, key=f"{job.path}-{os.urandom(4).hex()}", pure=False)
        self._jobs[future] = job
        future.add_done_callback(self._ended.put)

    def ended(self, timeout: float) -> list[Ended]:
        found = []
        try:
            future = self._ended.get(timeout=timeout)
            while future is not None:
                found.append(self._outcome(future))
                future = self._ended.get_nowait()
        except Empty:
            pass
        return found

    def _outcome(self, future: Any) -> Ended:
        job = self._jobs.pop(future)
        try:
            return future.result()
        except self._given_up:
            return give_up(job, "the workers that ran it died again and again")
        except Exception as error:  # the worker could not even start it: a package that is missing there, say
            return give_up(job, f"its worker could not run it: {described(error)}")

    def wake(self) -> None:
        self._ended.put(None)

    def close(self) -> None:
        """Let go of the cluster; its workers see that the sweep's claim is gone, and stop their runs."""
        self._client.close()

    def hurry(self) -> None:
        """The workers are not ours to hurry."""


def check(address: str, insecure: bool = False) -> None:
    """ValueError for a scheduler that would take code from anyone on the network, unless that is asked for.

    >>> check("tls://10.0.0.5:8786"); check("tcp://127.0.0.1:8786"); check("tcp://10.0.0.5:8786", insecure=True)
    >>> check("tcp://10.0.0.5:8786")
    Traceback (most recent call last):
    ValueError: tcp://10.0.0.5:8786 runs what anyone who reaches it sends: use Dask's TLS (tls://..), or --insecure
    """
    parts = urlsplit(address if "//" in address else f"tcp://{address}")
    if parts.scheme not in ("tls", "inproc") and not _loopback(parts.hostname or "") and not insecure:
        raise ValueError(f"{address} runs what anyone who reaches it sends: use Dask's TLS (tls://..), or --insecure")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
