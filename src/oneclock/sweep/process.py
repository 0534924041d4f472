"""A process for every run, so that no run can take anything else down with it.

A small server process has imported what the runs will import (torch takes seconds) and forks a fresh process for each
run: a hundredth of a second instead of seconds, and nothing of an earlier run in it. On one machine the driver has one
server for all its workers, started while they start; a worker of a cluster has its own. A run lives as long as its
connection to the worker: when the worker closes it or dies, the server kills the run and all that it started; so it
does when whoever started the server dies; and when the server dies, the kernel kills the run. A run that crashes, is
killed or hangs leaves its worker untouched.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from oneclock.study.claims import Claim, Held
from oneclock.study.identity import Identity
from oneclock.study.records import Result
from oneclock.sweep.protocol import Cell
from oneclock.sweep.targets import Target

Message = tuple[str, Any]
"""What a run's process tells: ("result", Result), ("error", reason), ("busy", who); its server adds ("exit", code)."""


@dataclass(frozen=True)
class Job:
    """One run as it travels to a worker. `claim` is the sweep's own: the run stops when it is gone."""

    path: str
    target: Target
    cell: Cell
    claim: str
    folder: str
    search: tuple[str, ...]
    modules: tuple[str, ...]
    retries: int = 2
    timeout: float | None = None
    server: str | None = None

    @property
    def identity(self) -> Identity:
        return self.target.identity(self.cell)


class Server:
    """A server process; `address` is the socket where it takes jobs. It ends when this process does.

    Dask has its workers give memory back to the system at every chance (MALLOC_TRIM_THRESHOLD_). A training that
    allocates and frees at every step would then spend up to half its time on page faults: runs do without.
    """

    def __init__(self, modules: tuple[str, ...], environment: Mapping[str, str] | None = None) -> None:
        self.address = os.path.join(tempfile.mkdtemp(prefix="oneclock-"), "server")  # a folder nobody else may enter
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen(128)
            inherited = {name: value for name, value in os.environ.items() if name != "MALLOC_TRIM_THRESHOLD_"}
            self.process = subprocess.Popen(
                _server_command(listener.fileno(), list(modules)),
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,  # closed when this process ends, however it ends
                env={**inherited, **(environment or {})},
                start_new_session=True,  # Ctrl-C in a terminal is the driver's to handle
            )

    def close(self) -> None:
        """End the server and its runs."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def start(job: Job) -> Connection:
    """A new process that executes the job; closing the connection kills it."""
    if job.server is not None:
        with suppress(OSError):  # a server that was killed: this process starts one of its own
            return _connect(job.server, job)
    return _connect(server_for(job.modules).address, job)


def _connect(address: str, job: Job) -> Connection:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(address)
    except OSError:
        line.close()
        raise
    connection = Connection(line.detach())
    mine = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}
    connection.send_bytes(pickle.dumps((job, mine)))
    return connection


_SERVERS: dict[tuple[str, ...], Server] = {}
_STARTING = threading.Lock()


def server_for(modules: tuple[str, ...]) -> Server:
    """This process's server with those modules, started when first asked for, and again if it died."""
    with _STARTING:
        server = _SERVERS.get(modules)
        if server is None or server.process.poll() is not None:
            server = _SERVERS[modules] = Server(modules)
        return server


def _server_command(listener: int, modules: list[str]) -> list[str]:
    return [sys.executable, "-c", f"from oneclock.sweep.process import serve; serve({listener}, {modules!r})"]


def serve(listener: int, modules: list[str]) -> NoReturn:
    """The server's life: fork a run for every connection, tell its exit, kill it when its connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import(modules)
    if modules and _threads() > 1:  # a process with threads must not fork: do without the imports
        os.set_inheritable(listener, True)
        os.execv(sys.executable, _server_command(listener, []))
    _Loop(socket.socket(fileno=listener)).forever()


class _Loop:
    """The server's bookkeeping: which run has which connection."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.runs: dict[int, Connection] = {}
        self.woken, self.wake = socket.socketpair()
        for end in (self.woken, self.wake):
            end.setblocking(False)
        self.selector = selectors.DefaultSelector()
        for source in (listener, self.woken, sys.stdin):
            self.selector.register(source, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)

    def forever(self) -> NoReturn:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.woken:
                    self.reap()
                elif key.fileobj is self.listener:
                    self.fork()
                elif key.fileobj is sys.stdin:  # whoever started this process is gone
                    self.end()
                else:  # its worker has closed the connection, or is dead
                    self.selector.unregister(key.fileobj)
                    _kill_group(key.data)

    def end(self) -> NoReturn:
        for pid in self.runs:
            _kill_group(pid)
        with suppress(OSError):
            os.unlink(self.listener.getsockname())
            os.rmdir(os.path.dirname(self.listener.getsockname()))
        os._exit(0)

    def fork(self) -> None:
        connection = Connection(self.listener.accept()[0].detach())
        try:
            request = connection.recv_bytes()
        except (EOFError, OSError):
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            self.listener.close()
            self.selector.close()
            for other in self.runs.values():
                other.close()
            _run(connection, request)
        with suppress(OSError):  # here and in the run: whoever comes first, the group is there to be killed
            os.setpgid(pid, pid)
        self.runs[pid] = connection
        self.selector.register(connection, selectors.EVENT_READ, pid)

    def reap(self) -> None:
        with suppress(BlockingIOError):
            self.woken.recv(4096)
        while self.runs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            _kill_group(pid)  # what the run started and left behind
            connection = self.runs.pop(pid)
            with suppress(KeyError):
                self.selector.unregister(connection)
            with suppress(OSError):
                connection.send(("exit", os.waitstatus_to_exitcode(status)))
            connection.close()


def _run(connection: Connection, request: bytes) -> NoReturn:
    """The life of a run's process."""
    os.setpgid(0, 0)
    _die_with_parent()
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    if "numpy" in sys.modules:  # an unseeded run must not repeat its siblings' numbers
        sys.modules["numpy"].random.seed()
    try:
        job, environment = pickle.loads(request)
        os.environ.update(environment)
        _settle(job)
        message = execute(job)
    except BaseException as error:
        message = ("error", described(error))
        with suppress(OSError):  # the disk may be what is wrong
            traceback.print_exc()
    with suppress(OSError):
        connection.send(message)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(0)


def execute(job: Job) -> Message:
    """Execute a job in this process, holding the run's claim."""
    path = Path(job.path)
    try:
        claim = Claim.take(path)
    except Held as error:
        return "busy", str(error)
    with claim:
        result = ended(path)
        return "result", result if result is not None else job.target.execute(path, job.cell)


def ended(path: Path) -> Result | None:
    """How the run in a folder ended, or None where it has not."""
    from oneclock.study.records import Run

    return Run.read(path).result if (path / "result.json").exists() else None


def described(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _settle(job: Job) -> None:
    """Make this process look as the user's own would: output, working folder, import path."""
    path = Path(job.path)
    path.mkdir(parents=True, exist_ok=True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    output = os.open(path / "output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    if os.path.isdir(job.folder):
        os.chdir(job.folder)
    sys.path[:] = dict.fromkeys([*job.search, *sys.path])


def _import(modules: list[str]) -> None:
    import importlib
    import warnings

    for name in modules:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def _threads() -> int:
    """Threads of this process that would be missing in a fork. jemalloc's (pyarrow has one) is made anew there."""
    with suppress(OSError):
        return sum("jemalloc" not in name.read_text() for name in Path("/proc/self/task").glob("*/comm"))
    return threading.active_count()


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its server dies; Linux only, elsewhere the server's own care remains."""
    server = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != server:
            os._exit(1)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
