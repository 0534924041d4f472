"""Process trees: which process descends from which, how to end them all, and runs of several processes by torchrun.

A process group misses processes with a session of their own (`setsid`, torchrun) and daemons that forked twice. On
Linux a process can adopt all orphans among its descendants: then each of them stays in its family until it is dead.
"""

from __future__ import annotations

import base64
import ctypes
import os
import pickle
import re
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
"""The environment variable that gives a run's folder to the processes that the run starts."""

_PDEATHSIG, _SUBREAPER = 1, 36


class Died(Exception):
    """A process of a run was killed. Unlike after an exception of the run itself, a new attempt may succeed."""


class Failed(Exception):
    """A process of a run failed by itself. It has printed why, and the message repeats the last line."""


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, as pid 1 normally does."""
    if LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when `parent`, which forked it, dies."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def family(*pids: int) -> dict[int, int]:
    """Every living descendant of some processes, and its parent; empty if the system does not show them."""
    parents, found, new = _parents(), dict[int, int](), dict.fromkeys(pids, 0)
    while new:
        new = {pid: parent for pid, parent in parents.items() if parent in new and pid not in found}
        found |= new
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may be gone; on systems without families, the group that it leads."""
    with suppress(ProcessLookupError, PermissionError):
        if LINUX:
            os.kill(pid, number)
        else:
            os.killpg(pid, number)


def marked() -> dict[int, str]:
    """The processes that runs have started, with the folder of the run; not those that only forked."""
    marks = {}
    for pid in _parents():
        with suppress(OSError, KeyError):
            entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            marks[pid] = os.fsdecode(dict(entry.partition(b"=")[::2] for entry in entries)[MARK.encode()])
    return marks


@contextmanager
def outlasting() -> Iterator[list[int]]:
    """In a run's process: ignore and list SIGTERM, because its family gets it too and may need time to end.

    At its end it waits until the family has ended. In a sweep `--in-process` the driver handles signals.
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
    """Kill all processes in the session of a dead process, before its number is used again."""
    for pid in _parents():
        with suppress(OSError):
            if os.getsid(pid) == leader:
                send(pid, signal.SIGKILL)


def _parents() -> dict[int, int]:
    """Process -> its parent, for all living processes."""
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
    """Make SIGTERM raise an exception in the run, so that it releases its claim; forked children die of it as usual."""
    run = os.getpid()

    def asked(*_: object) -> None:
        ours = os.getpid() == run
        signal.signal(signal.SIGTERM, signal.SIG_IGN if ours else signal.SIG_DFL)  # it may come more than once
        if ours:
            raise KeyboardInterrupt("asked to end")
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


_PYTHON = re.compile(r"\s*(\S*python[\d.]*)\s+")
_TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node"


def under_torchrun(command: str, processes: int) -> str:
    """A command line that begins with python, as several processes; ValueError for any other.

    >>> under_torchrun("python train.py --beta {beta}", 2)
    'python -m torch.distributed.run --standalone --nproc-per-node 2 train.py --beta {beta}'
    """
    match = _PYTHON.match(command)
    if match is None:
        raise ValueError(f"several processes (--processes) need a command that begins with python, got {command!r}")
    return f"{match[1]} {_TORCHRUN} {processes} {command[match.end() :]}"


def several(processes: int) -> dict[str, Any]:
    """The processes in a target's description, where they are part of the study: left out if there is one."""
    return {"processes": processes} if processes > 1 else {}


def is_first() -> bool:
    """Whether this process of a run writes its record: the only one, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


def run_processes(target: Target, path: Path, key: RunKey) -> RunRecord:
    """Train a run with as many processes as the target says; torchrun ends them all when one of them dies.

    `Died` if one of them was killed, `Failed` if one raised an exception.
    """
    raised = path / ".raised"
    raised.unlink(missing_ok=True)
    job = base64.b64encode(pickle.dumps((target, path, key, sys.path))).decode()
    line = [sys.executable, *_TORCHRUN.split(), str(target.processes), "-m", "oneclock.sweep.exec.processes", job]
    with outlasting() as asked:
        code = subprocess.call(line)
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
    """End a child that the code inside forked, where it would return or raise: it has a copy of its parent's stack.

    Otherwise a child without `os._exit` would continue as the run itself, and write its record a second time.
    """
    parent, code = os.getpid(), 0
    try:
        yield
    except BaseException:
        if os.getpid() == parent:
            raise
        traceback.print_exc()
        code = 1
    if os.getpid() != parent:
        exit_fork(code)


def exit_fork(code: int) -> NoReturn:
    """End a forked process, without what its parent would do at its own end."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def error_in_words(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def main() -> None:
    """One of several processes of a run, started by torchrun with the run as its only argument.

    On SIGTERM they save what they can and end with an error code, since the run is not finished.
    """
    target, path, key, search = pickle.loads(base64.b64decode(sys.argv[1]))
    sys.path[:] = dict.fromkeys([*search, *sys.path])
    try:
        with unwinding():
            try:
                target.execute_here(path, key)
            except Exception as error:
                time.sleep(2)  # torchrun ends this process meanwhile, if the error is only that another one was killed
                with suppress(OSError):
                    (path / ".raised").write_text(error_in_words(error), encoding="utf-8")
                raise
    except KeyboardInterrupt as asked:
        sys.exit(f"ended: {asked}")


if __name__ == "__main__":
    main()
