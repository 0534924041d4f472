"""The server process that forks runs: it has already imported their modules, and it ends all processes that they leave.

Its owner sends it a socket for each run, through a socket without a name: no other process can reach it. A run lives as
long as its socket. When that is closed, the run and everything that it started get SIGTERM and, after some seconds of
grace, SIGKILL. The same happens to all runs when the owner dies, and on SIGTERM, which a batch system sends to every
process of a job. SIGUSR2 ends the grace at once. When this process itself is killed, the kernel kills the runs.

The standard library's forkserver listens at a path below TMPDIR, imports the caller's `__main__` again, forks even if
an import has started threads, and does not end what runs leave.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

from oneclock.sweep.exec import processes
from oneclock.sweep.exec.job import Job, error_message, execute, print_error, redirect

GRACE = 3.0
"""Default seconds between SIGTERM and SIGKILL."""


def command(modules: list[str], grace: float = GRACE) -> list[str]:
    """The command that starts a server."""
    return [sys.executable, "-c", f"from oneclock.sweep.exec.server import serve; serve({modules!r}, {grace!r})"]


def serve(modules: list[str], grace: float = GRACE) -> NoReturn:
    """Run the server; its standard input is the socket of its owner."""
    for number in (signal.SIGINT, signal.SIGUSR1):  # from a terminal or a batch system: the owner handles them
        signal.signal(number, signal.SIG_IGN)
    gc.disable()  # garbage collection would cost a fifth of the time of the imports
    _import(modules)
    if modules and _threads() > 1:  # a process with threads must not fork: start again without the imports
        os.execv(sys.executable, command([], grace))
    gc.freeze()  # so that runs do not copy the shared memory pages
    owner = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # the standard input of runs
    _Server(owner, grace).forever()


class _Server:
    """The connections of runs, the exits that were not reported yet, and when processes that are ending get killed."""

    def __init__(self, owner: socket.socket, grace: float) -> None:
        processes.adopt_orphans()
        self.owner, self.grace, self.closing, self.hurried = owner, grace, False, False
        self.runs: dict[int, Connection] = {}
        self.exits: list[tuple[Connection, int]] = []
        self.ending: dict[int, float] = {}
        self.woken, self.wake = socket.socketpair()
        for end in (self.woken, self.wake):
            end.setblocking(False)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, self.end)

    def forever(self) -> NoReturn:
        while self.runs or self.exits or not self.closing:
            runs: dict[Any, int] = {connection: pid for pid, connection in self.runs.items() if pid not in self.ending}
            sockets = [self.woken, *runs] if self.closing else [self.woken, self.owner, *runs]
            # While a family is ending, it is checked often: the system reports only deaths of direct children.
            for ready in wait(sockets, 0.05 if self.ending else None):
                if ready is self.woken:
                    with suppress(BlockingIOError):
                        self.woken.recv(4096)
                elif ready is self.owner:
                    self.request()
                else:  # its supervisor has closed the connection, or is dead
                    self.terminate([runs[ready]])
            self.settle()
        os._exit(0)

    def end(self, number: int, _: object) -> None:
        """SIGTERM: end everything, with a grace time. SIGUSR2: at once."""
        self.closing, self.hurried = True, self.hurried or number == signal.SIGUSR2

    def request(self) -> None:
        data, ends, _, _ = socket.recv_fds(self.owner, 1, 1)
        self.closing |= not data
        for end in ends:
            os.set_inheritable(end, False)
            self.fork(Connection(end))

    def fork(self, connection: Connection) -> None:
        try:
            request = connection.recv_bytes()
        except (EOFError, OSError):
            connection.close()
            return
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # out of memory or processes: the other runs continue
            connection.send(("died", f"its process could not be started: {processes.error_in_words(error)}"))
            self.exits.append((connection, 1))
            self.report_exits()
            return
        if pid == 0:
            self.forget()
            _run(connection, request, server)
        with suppress(OSError):  # both here and in the run, so that the group exists before it can be ended
            os.setpgid(pid, pid)
        self.runs[pid] = connection
        with suppress(OSError):
            connection.send(("started", pid))

    def forget(self) -> None:
        """Drop what a forked run must not inherit from the server."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for line in (self.owner, self.woken, self.wake):
            line.close()
        for connection in (*self.runs.values(), *(connection for connection, _ in self.exits)):
            connection.close()

    def settle(self) -> None:
        """Collect deaths, end what must end, and report the exits of runs that left nothing behind."""
        if self.closing:
            self.terminate(self.runs)
        if not self.reap() and not self.ending:
            return
        alive = processes.family(os.getpid())
        # A live run adopts its own orphans. So a child of ours that is not a run was left by a dead run.
        strays = [pid for pid, parent in alive.items() if parent == os.getpid() and pid not in self.runs]
        self.ending = {pid: when for pid, when in self.ending.items() if pid in alive or pid in self.runs}
        self.terminate(strays)
        now = time.monotonic()
        overdue = [pid for pid, when in self.ending.items() if self.hurried or now >= when]
        for pid in {*overdue, *processes.family(*overdue)} if overdue else ():
            processes.send(pid, signal.SIGKILL)
        if all(now > self.ending[pid] + GRACE for pid in strays):  # processes of another user cannot be killed
            self.report_exits()

    def terminate(self, roots: Iterable[int]) -> None:
        """Send SIGTERM to processes and all that they started; the rest is killed after the grace time."""
        if new := {*roots} - self.ending.keys():
            for pid in {*new, *processes.family(*new)} - self.ending.keys():
                self.ending[pid] = time.monotonic() + self.grace
                processes.send(pid, signal.SIGTERM)

    def reap(self) -> bool:
        """Collect dead processes; returns whether any of them was a run."""
        before = len(self.exits)
        with suppress(ChildProcessError):
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = dead
                if pid in self.runs:
                    self.exits.append((self.runs.pop(pid), os.waitstatus_to_exitcode(status)))
                    if not processes.LINUX:  # Linux shows stray processes; other systems only the group
                        processes.send(pid, signal.SIGKILL)
        return len(self.exits) > before

    def report_exits(self) -> None:
        for connection, code in self.exits:
            with suppress(OSError):
                connection.send(("exit", code))
            connection.close()
        self.exits.clear()


def _run(connection: Connection, request: bytes, server: int) -> NoReturn:
    """The main function of a run's process."""
    os.setpgid(0, 0)
    processes.die_with_parent(server)
    processes.adopt_orphans()
    gc.enable()
    if "numpy" in sys.modules:  # an unseeded run must not use the same random numbers as its siblings
        sys.modules["numpy"].random.seed()
    try:
        with processes.unwinding():
            job = pickle.loads(request)
            _settle(job)
            try:
                message = execute(job)
            except BaseException as error:
                with suppress(OSError):  # the disk may be the problem
                    print_error(error)
                raise
    except BaseException as error:
        message = error_message(error)
    with suppress(OSError):
        connection.send(message)
    processes.exit_fork(0)


def _settle(job: Job) -> None:
    """Set up this process like the user's own: environment, output, working folder, import path."""
    os.environ.update(job.environment)
    os.environ[processes.MARK] = job.path
    path = Path(job.path)
    path.mkdir(parents=True, exist_ok=True)
    redirect(path / "output.log")
    if os.path.isdir(job.folder):
        os.chdir(job.folder)
    sys.path[:] = dict.fromkeys([*job.search, *sys.path])


def _import(modules: list[str]) -> None:
    """Import modules, and names in them (`module:name`), which may be modules too."""
    for name in modules:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, _, attribute = name.partition(":")
            __import__(module, fromlist=[attribute] if attribute else [])


def _threads() -> int:
    """Threads of this process that would be missing in a fork. jemalloc (in pyarrow) restarts its own."""
    with suppress(OSError):
        return sum("jemalloc" not in name.read_text() for name in Path("/proc/self/task").glob("*/comm"))
    return threading.active_count()
