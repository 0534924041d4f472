"""Processes and what they start: who descends from whom, and how all of it is ended.

A process group ends with a shell, not with a session of its own (`setsid`, torchrun) nor with a daemon that forked
twice. On Linux a process can be made the parent of whatever its descendants leave behind: then every one of them stays
in its family until it is dead. Elsewhere there are only process groups.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LINUX = sys.platform == "linux"
MARK = "ONECLOCK_RUN"
"""The environment variable that names a run's folder to whatever the run starts."""

_PDEATHSIG, _SUBREAPER = 1, 36


def adopt_orphans() -> None:
    """Become the parent of every process that a descendant leaves behind, as pid 1 is for others."""
    if LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which forked it, dies."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def family(*pids: int) -> dict[int, int]:
    """Every living descendant of some processes, and its parent; none where the system does not tell.

    >>> import subprocess
    >>> child = subprocess.Popen(["sleep", "60"])
    >>> child.pid in family(os.getpid()) or not LINUX
    True
    >>> child.kill(); child.wait()
    -9
    """
    children: dict[int, list[int]] = {}
    for one, parent in _parents().items():
        children.setdefault(parent, []).append(one)
    found: dict[int, int] = {}
    left = [*pids]
    while left:
        parent = left.pop()
        found |= dict.fromkeys(children.get(parent, []), parent)
        left += children.get(parent, [])
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may be gone; where families are not known, the group it leads."""
    with suppress(ProcessLookupError, PermissionError):
        if LINUX:
            os.kill(pid, number)
        else:
            os.killpg(pid, number)


def marked() -> dict[int, str]:
    """The processes that runs have started, and the folder of each one's run; not those that only forked."""
    found, mark = {}, f"{MARK}=".encode()
    for pid in _parents():
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(mark):
                    found[pid] = os.fsdecode(entry[len(mark) :])
    return found


@contextmanager
def outlasting() -> Iterator[list[int]]:
    """In a run's process: outlast a polite end, which its family gets too and may need time for; what came is listed.

    It is over when the family has ended. In a sweep `--in-process` signals are the driver's.
    """
    asked: list[int] = []
    if MARK not in os.environ:
        yield asked
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    try:
        yield asked
    finally:
        while asked and family(os.getpid()):
            time.sleep(0.05)
        signal.signal(signal.SIGTERM, before)


def kill_session(leader: int) -> None:
    """Kill all that is still in the session of a dead process whose number is not yet given anew."""
    for pid in _parents():
        with suppress(OSError):
            if os.getsid(pid) == leader:
                send(pid, signal.SIGKILL)


def _parents() -> dict[int, int]:
    """Process -> its parent, of all that live."""
    found = {}
    for entry in os.listdir("/proc") if LINUX else []:
        if entry.isdigit():
            with suppress(OSError):
                state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    found[int(entry)] = int(parent)
    return found
