"""The process that forks runs: it has imported what they import, and it ends whatever they leave behind.

`process` starts it and holds the other end of its standard input, a socket over which nothing but the
ends of further sockets come: one for each run, with its job. No name in any file system leads to it, and no other
process can reach it. A run lives as long as its socket: when that is closed, the run and all that it started, sessions
of their own included, get SIGTERM and, after a grace of seconds, SIGKILL. So they do when the socket on standard input
is closed, which is when its owner dies, and on SIGTERM, which a batch system sends to every process of a job. SIGUSR2
has an end that is under way wait for nobody. When this process itself is killed, the kernel kills the runs.

Why not the standard library's forkserver: it listens at a path below TMPDIR (too long a name, and it stops), its runs
import the caller's `__main__` again, it has one set of modules for the life of its owner, it forks though an import has
started threads, and it neither kills runs when their owner dies nor knows what they started.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import selectors
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from oneclock.sweep.exec.job import Job, RunEvent, described, error_message, execute, print_error, redirect
from oneclock.sweep.exec.processes import LINUX, MARK, adopt_orphans, die_with_parent, family, send, unwinding

GRACE = 3.0
"""Seconds between a polite end and a hard one, where nobody chose."""

LOOK = 0.05
"""Seconds between two looks at a family that is ending: the system reports only the deaths of our own children."""


def command(modules: list[str], grace: float = GRACE) -> list[str]:
    """How a server is started."""
    return [sys.executable, "-c", f"from oneclock.sweep.exec.server import serve; serve({modules!r}, {grace!r})"]


def serve(modules: list[str], grace: float = GRACE) -> NoReturn:
    """The server's life; its standard input is the socket of its owner."""
    for number in (signal.SIGINT, signal.SIGUSR1):  # from a terminal, from a batch system: the owner's to handle
        signal.signal(number, signal.SIG_IGN)
    gc.disable()  # it would look at what imports make again and again, for a fifth of the time they take
    _import(modules)
    if modules and _threads() > 1:  # a process with threads must not fork: do without the imports
        os.execv(sys.executable, command([], grace))
    gc.freeze()  # and no run touches, and so copies, the pages of what all share
    owner = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # what runs read from standard input
    _Server(owner, grace).forever()


class _Server:
    """Which run has which connection, and what is on its way to its end."""

    def __init__(self, owner: socket.socket, grace: float) -> None:
        adopt_orphans()
        self.owner, self.grace, self.closing, self.hurried = owner, grace, False, False
        self.runs: dict[int, Connection] = {}
        self.exits: list[tuple[Connection, int]] = []
        self.doomed: dict[int, float] = {}
        self.woken, self.wake = socket.socketpair()
        for end in (self.woken, self.wake):
            end.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(owner, selectors.EVENT_READ)
        self.selector.register(self.woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.end)
        signal.signal(signal.SIGUSR2, self.hurry)

    def forever(self) -> NoReturn:
        while self.runs or self.exits or not self.closing:
            for key, _ in self.selector.select(LOOK if self.doomed else None):
                if key.fileobj is self.woken:
                    with suppress(BlockingIOError):
                        self.woken.recv(4096)
                elif key.fileobj is self.owner:
                    self.request()
                else:  # its supervisor has closed the connection, or is dead
                    self.selector.unregister(key.fileobj)
                    self.doom([key.data])
            self.settle()
        os._exit(0)

    def end(self, *_: object) -> None:
        """SIGTERM: end everything, politely first."""
        self.closing = True

    def hurry(self, *_: object) -> None:
        """SIGUSR2: end everything, and wait for nobody."""
        self.closing = self.hurried = True

    def request(self) -> None:
        data, ends, _, _ = socket.recv_fds(self.owner, 1, 1)
        if not data:
            self.selector.unregister(self.owner)
            self.closing = True
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
        except OSError as error:  # no memory, or no more processes: the other runs go on
            connection.send(("died", f"its process could not be started: {described(error)}"))
            self.exits.append((connection, 1))
            self.tell()
            return
        if pid == 0:
            self.leave()
            _run(connection, request, server)
        with suppress(OSError):  # here and in the run: whoever comes first, the group is there to be ended
            os.setpgid(pid, pid)
        self.runs[pid] = connection
        with suppress(OSError):
            connection.send(("started", pid))
        self.selector.register(connection, selectors.EVENT_READ, pid)

    def leave(self) -> None:
        """What a fork must not keep of the server."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        self.selector.close()
        for line in (self.owner, self.woken, self.wake):
            line.close()
        for connection in (*self.runs.values(), *(connection for connection, _ in self.exits)):
            connection.close()

    def settle(self) -> None:
        """Take note of deaths, end what is to end, and tell the exits of runs that have left nothing behind."""
        if self.closing:
            self.doom(self.runs)
        if not self.reap() and not self.doomed:
            return
        alive = family(os.getpid())
        # A live run adopts its own orphans: what is our child and no run was left by a dead one.
        strays = [pid for pid, parent in alive.items() if parent == os.getpid() and pid not in self.runs]
        self.doomed = {pid: when for pid, when in self.doomed.items() if pid in alive or pid in self.runs}
        self.doom(strays)
        self.kill()
        if all(time.monotonic() > self.doomed[pid] + GRACE for pid in strays):  # another user's cannot be killed
            self.tell()

    def kill(self) -> None:
        overdue = [pid for pid, when in self.doomed.items() if self.hurried or time.monotonic() >= when]
        for pid in {*overdue, *family(*overdue)} if overdue else ():
            send(pid, signal.SIGKILL)

    def doom(self, roots: Iterable[int]) -> None:
        """Ask processes and all that they started to end; what does not is killed when its time is up."""
        if new := {*roots} - self.doomed.keys():
            for pid in {*new, *family(*new)} - self.doomed.keys():
                self.doomed[pid] = time.monotonic() + self.grace
                send(pid, signal.SIGTERM)

    def reap(self) -> bool:
        """Collect what has died; whether any of it was a run."""
        before = len(self.exits)
        with suppress(ChildProcessError):
            pid, status = os.waitpid(-1, os.WNOHANG)
            while pid:
                if pid in self.runs:
                    self.exited(pid, os.waitstatus_to_exitcode(status))
                pid, status = os.waitpid(-1, os.WNOHANG)
        return len(self.exits) > before

    def exited(self, pid: int, code: int) -> None:
        if not LINUX:  # here strays are seen; elsewhere its group is all there is to know
            send(pid, signal.SIGKILL)
        connection = self.runs.pop(pid)
        with suppress(KeyError):
            self.selector.unregister(connection)
        self.exits.append((connection, code))

    def tell(self) -> None:
        for connection, code in self.exits:
            with suppress(OSError):
                connection.send(("exit", code))
            connection.close()
        self.exits.clear()


def _run(connection: Connection, request: bytes, server: int) -> NoReturn:
    """The life of a run's process."""
    os.setpgid(0, 0)
    die_with_parent(server)
    adopt_orphans()
    gc.enable()
    if "numpy" in sys.modules:  # an unseeded run must not repeat its siblings' numbers
        sys.modules["numpy"].random.seed()
    try:
        with unwinding():
            job = pickle.loads(request)
            _settle(job)
            message = _outcome(job)
    except BaseException as error:
        message = error_message(error)
    with suppress(OSError):
        connection.send(message)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(0)


def _outcome(job: Job) -> RunEvent:
    """What comes of the job; an error is shown in full in the run's output, which is where people look."""
    try:
        return execute(job)
    except BaseException as error:
        with suppress(OSError):  # the disk may be what is wrong
            print_error(error)
        return error_message(error)


def _settle(job: Job) -> None:
    """Make this process look as the user's own would: environment, output, working folder, import path."""
    os.environ.update(job.environment)
    os.environ[MARK] = job.path
    path = Path(job.path)
    path.mkdir(parents=True, exist_ok=True)
    redirect(path / "output.log")
    if os.path.isdir(job.folder):
        os.chdir(job.folder)
    sys.path[:] = dict.fromkeys([*job.search, *sys.path])


def _import(modules: list[str]) -> None:
    for name in modules:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def _threads() -> int:
    """Threads of this process that would be missing in a fork. jemalloc's (pyarrow has one) is made anew there."""
    with suppress(OSError):
        return sum("jemalloc" not in name.read_text() for name in Path("/proc/self/task").glob("*/comm"))
    return threading.active_count()
