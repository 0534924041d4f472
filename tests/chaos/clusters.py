"""A Dask cluster on this machine whose workers can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .processes import Marked


class Cluster:
    """A Dask scheduler and two workers on 127.0.0.1; a worker that is killed is replaced."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.marked = Marked()
        self._folder, self._file = folder, folder / "scheduler.json"
        self._environment = self.marked.environment(DASK_DISTRIBUTED__LOGGING__DISTRIBUTED="critical", **environment)
        self._scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        while not (self._file.exists() and self._file.read_text().endswith("}")):
            assert self._scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]
        self.workers = [self._worker() for _ in range(2)]

    def kill_worker(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._worker()

    def close(self) -> None:
        for one in (*self.workers, self._scheduler):
            one.kill()
            one.wait()

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(self._folder))

    def _start(self, kind: str, *more: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(self._file)]
        return subprocess.Popen([*line, "--no-dashboard", *more], env=self._environment, stderr=subprocess.DEVNULL)


@contextmanager
def cluster(folder: Path, **environment: str) -> Iterator[Cluster]:
    made = Cluster(folder, **environment)
    try:
        yield made
    finally:
        made.close()
