"""What was started by whom: every process with one marker in its environment, however it is called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SERVER = "oneclock.sweep.exec.server"


def until(true: Callable[[], object], within: float = 120.0) -> None:
    """Wait for something to become true; AssertionError where it does not."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal processes that may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[None]:
    """A time in which another process holds a folder."""
    code = "import sys; from oneclock.runs.lock import *\n"
    code += "with Claim.take(Path(sys.argv[1])): print(flush=True); input()"
    line = [sys.executable, "-c", code, str(folder)]
    other = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    other.stdout.readline()
    try:
        yield
    finally:
        other.communicate("let go\n")


class Marked:
    """Everything started with one environment marker, however it is called and whoever its parent is."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {"ONECLOCK_CHAOS": self.mark} | more

    def processes(self) -> dict[int, str]:
        """pid -> what it is: driver, server, run, worker, scheduler, or child (whatever a run started)."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if self.mark.encode() in (entry / "environ").read_bytes():
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    found[pid] = parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return {pid: _kind(found, pid) for pid in found}

    def of(self, *kinds: str) -> list[int]:
        return sorted(pid for pid, what in self.processes().items() if what in kinds)

    def gone(self, *kinds: str, within: float = 60.0, but: Collection[int] = ()) -> bool:
        """Whether all of it (of those kinds) has ended by itself, `but` some."""
        deadline = time.monotonic() + within
        while {*(self.of(*kinds) if kinds else self.processes())}.difference(but):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def _kind(found: dict[int, tuple[int, str]], pid: int) -> str:
    parent, line = found[pid]
    if SERVER in line:
        return "run" if SERVER in found.get(parent, (0, ""))[1] else "server"
    if "distributed.cli" in line:
        return "worker" if "dask_worker" in line else "scheduler"
    return "driver" if "oneclock sweep" in line else "child"
