"""Processes and what they start: which descend from which, how all of them end, and runs of several processes.

A process group ends with a shell, but not with a session of its own (`setsid`, torchrun) nor with a daemon that forked
twice. On Linux a process can be made the parent of whatever its descendants leave behind: then every one of them stays
in its family until it is dead. Elsewhere there are only process groups.

A run of several processes is started by torchrun, and ends and resumes as one. torchrun ends the others when one of
them dies, and so the run; its next attempt goes on from the last checkpoint. The number of processes multiplies the
batch, as with `accelerate launch`, and is part of the study. Each of them starts in `main`.
"""

from __future__ import annotations

import base64
import ctypes
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.record import RunRecord

if TYPE_CHECKING:
    from oneclock.sweep.targets import Target

LINUX = sys.platform == "linux"
MARK = "ONECLOCK_RUN"
"""The environment variable that names a run's folder to whatever the run starts."""

_PDEATHSIG, _SUBREAPER = 1, 36


class Died(Exception):
    """A process of a run was killed. Unlike an exception of the run's own, it may end better the next time."""


class Failed(Exception):
    """A process of a run ended badly by itself. It has printed why, and the message repeats the last line of that."""


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
    parents: dict[int, int] = {}
    left = [*pids]
    while left:
        parent = left.pop()
        parents |= dict.fromkeys(children.get(parent, []), parent)
        left += children.get(parent, [])
    return parents


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may be gone; where families are not known, the group it leads."""
    with suppress(ProcessLookupError, PermissionError):
        if LINUX:
            os.kill(pid, number)
        else:
            os.killpg(pid, number)


def marked() -> dict[int, str]:
    """The processes that runs have started, and the folder of each one's run; not those that only forked."""
    marks, mark = {}, f"{MARK}=".encode()
    for pid in _parents():
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(mark):
                    marks[pid] = os.fsdecode(entry[len(mark) :])
    return marks


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
    parents = {}
    for entry in os.listdir("/proc") if LINUX else []:
        if entry.isdigit():
            with suppress(OSError):
                state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    parents[int(entry)] = int(parent)
    return parents


@contextmanager
def unwinding() -> Iterator[None]:
    """Have SIGTERM unwind the run, so that it lets go of its claim; what the run forked dies of it as ever."""
    run = os.getpid()

    def asked(*_: object) -> None:
        ours = os.getpid() == run
        signal.signal(signal.SIGTERM, signal.SIG_IGN if ours else signal.SIG_DFL)  # it is said more than once
        if ours:
            raise KeyboardInterrupt("asked to end")
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


_PYTHON = re.compile(r"\s*(\S*python[\d.]*)\s+")


def torchrun(python: str, processes: int) -> str:
    """How several processes are started: the words before a script or `-m module`."""
    return f"{python} -m torch.distributed.run --standalone --nproc-per-node {processes}"


def under_torchrun(command: str, processes: int) -> str:
    """A command line that begins with python, as several processes; ValueError for any other.

    >>> under_torchrun("python train.py --beta {beta}", 2)
    'python -m torch.distributed.run --standalone --nproc-per-node 2 train.py --beta {beta}'
    """
    match = _PYTHON.match(command)
    if match is None:
        raise ValueError(f"several processes (--processes) need a command that begins with python, got {command!r}")
    return f"{torchrun(match[1], processes)} {command[match.end() :]}"


def several(processes: int) -> dict[str, Any]:
    """What a description says of a run's processes: nothing where there is one.

    >>> several(1), several(4)
    ({}, {'processes': 4})
    """
    return {"processes": processes} if processes > 1 else {}


def is_first() -> bool:
    """Whether this is the process of a run that keeps its record: the only one, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


def run_processes(target: Target, path: Path, key: RunKey) -> RunRecord:
    """Train a run with as many processes as the target says.

    `Died` where one of them was killed, `Failed` where one raised an exception.
    """
    raised = path / ".raised"
    raised.unlink(missing_ok=True)
    line = shlex.split(torchrun(shlex.quote(sys.executable), target.processes))
    job = base64.b64encode(pickle.dumps((target, path, key, sys.path))).decode()
    with outlasting() as asked:
        code = subprocess.call([*line, "-m", "oneclock.sweep.exec.processes", job])
    result = RunFolder.read(path).result if (path / "run.json").exists() else None
    if result is not None:
        return result
    if asked:
        raise KeyboardInterrupt("asked to end")
    if raised.exists():
        raise Failed(raised.read_text(encoding="utf-8"))
    raise Died(f"one of its {target.processes} processes died: torchrun ended with exit code {code}")


@contextmanager
def forked_children_end_here() -> Iterator[None]:
    """End a child that the code inside forked, where it would return or raise: it has its parent's whole stack.

    Without this a child that forgets `os._exit` goes on as the run itself, and writes its record a second time.
    """
    parent = os.getpid()
    try:
        yield
    except BaseException:
        if os.getpid() == parent:
            raise
        traceback.print_exc()
        _leave(1)
    if os.getpid() != parent:
        _leave(0)


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main() -> None:
    """One process of a run that has several: what torchrun starts, with the run as its one argument.

    Asked to end, they save what they can and end badly, since the run is not finished.
    """
    target, path, key, search = pickle.loads(base64.b64decode(sys.argv[1]))
    sys.path[:] = dict.fromkeys([*search, *sys.path])
    try:
        with unwinding():
            target.execute_here(path, key)
    except KeyboardInterrupt as asked:
        sys.exit(f"ended: {asked}")
    except Exception as error:
        with suppress(OSError):
            (path / ".raised").write_text(f"{type(error).__name__}: {' '.join(str(error).split())}", encoding="utf-8")
        raise


if __name__ == "__main__":
    main()
