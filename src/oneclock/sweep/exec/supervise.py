"""Each run has its own process, so that a crash ends only that run. This module starts, watches and restarts it.

A server process (`oneclock.sweep.exec.server`) has imported what the runs will import (torch takes seconds) and forks a
fresh process for each. On one machine a sweep has one server; a worker of a Dask cluster has its own.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path

from oneclock.runs.folder import RunFolder
from oneclock.runs.lock import HEARTBEAT, STALE, Claim, Held, held_by
from oneclock.sweep.exec.job import Ended, Job, RunEvent, claimed, ended, kill_left, refusal
from oneclock.sweep.exec.processes import LINUX, error_in_words, kill_session
from oneclock.sweep.exec.server import GRACE, command

DIED = "the process that starts runs died"


class Closed(Exception):
    """The server is ending: it starts no more runs."""


class Server:
    """A server process, started with the first run or by `open`, and again if it died. It ends when this process does.

    Dask makes its workers return memory to the system often (MALLOC_TRIM_THRESHOLD_). A training that allocates at
    every step would then spend up to half its time on page faults, so runs do not inherit this.
    """

    def __init__(
        self, modules: tuple[str, ...], environment: Mapping[str, str] | None = None, grace: float = GRACE
    ) -> None:
        self._modules, self._environment, self._grace = list(modules), dict(environment or {}), grace
        self._lock = threading.Lock()
        self._closed = False
        self._alive: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def open(self) -> socket.socket:
        """Start the process if none is alive; returns our end of its socket."""
        with self._lock:
            if self._closed:
                raise Closed
            if self._alive is None or self._dead(self._alive[0]):
                if self._alive is not None:
                    self._alive[1].close()
                owner, theirs = socket.socketpair()
                variables = {key: value for key, value in os.environ.items() if key != "MALLOC_TRIM_THRESHOLD_"}
                variables |= self._environment
                with theirs:
                    line = command(self._modules, self._grace)
                    process = subprocess.Popen(line, stdin=theirs.fileno(), env=variables, start_new_session=True)
                self._alive = process, owner
            return self._alive[1]

    @staticmethod
    def _dead(process: subprocess.Popen[bytes]) -> bool:
        """Whether a server is dead; processes in its session are killed before its number is used again."""
        if LINUX and process.returncode is None:
            with suppress(ChildProcessError):  # the program ignores its children: another may have the number by now
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return False
                kill_session(process.pid)
        return process.poll() is not None

    def start(self, job: Job) -> tuple[Connection, socket.socket]:
        """Start a process for the job. Returns the connection that keeps it alive, and the socket to the server."""
        owner = self.open()
        mine, theirs = socket.socketpair()
        connection = Connection(mine.detach())
        try:
            with theirs:
                socket.send_fds(owner, [b"+"], [theirs.fileno()])
            connection.send_bytes(pickle.dumps(job))
        except OSError:
            connection.close()
            raise ConnectionError(DIED) from None
        return connection, owner

    def close(self) -> None:
        """End the server and its runs, politely first; no more runs start."""
        with self._lock:
            self._closed = True
        if self._alive is None:
            return
        process, owner = self._alive
        try:
            if not self._dead(process):
                process.terminate()  # while it imports, it dies of that at once
                process.wait(self._grace + 2 * GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        owner.close()

    def hurry(self) -> None:
        """Make a running `close` stop waiting."""
        if self._alive is not None:
            self._alive[0].send_signal(signal.SIGUSR2)


@cache
def server_for(modules: tuple[str, ...]) -> Server:
    """This process's server with those modules, for a worker of a cluster."""
    server = Server(modules)
    atexit.register(server.close)
    return server


def supervise(job: Job, server: Server | None = None) -> Ended:
    """Execute a job in a process of its own until the run has ended.

    A process that dies is started again, up to `job.retries` times. An exception of the run itself ends it at once: the
    same code would raise it again.
    """
    server = server or server_for(job.modules)
    watch, deaths, seconds = _Watch(job), 0, 0.0
    while True:
        started = time.monotonic()
        kind, value = _attempt(job, server, watch)
        if kind == "result":
            return Ended(job.path, value)
        if kind in ("stopped", "lost") or not watch.alive() or (kind == "busy" and not job.waits):
            return Ended(job.path)
        if kind == "busy":  # a run of an earlier sweep is still ending, or still trains elsewhere
            time.sleep(0.2)
            continue
        if (trouble := value if kind == "disk" else refusal(Path(job.path))) is not None:
            return Ended(job.path, trouble=trouble)
        deaths, seconds = deaths + 1, seconds + time.monotonic() - started
        if kind in ("timeout", "raised") or deaths > job.retries:
            time.sleep(1.0)  # a batch system ends a sweep and its runs at the same time: it may release its claim now
            if not watch.alive():
                return Ended(job.path)
            tries = f" (tried {deaths} times)" if deaths > 1 else ""
            return give_up(job, value + tries, seconds)


def give_up(job: Job, reason: str, seconds: float = 0.0) -> Ended:
    """Record the run as failed, unless it has ended meanwhile; a job that waits does so until the run is free."""
    path = Path(job.path)
    while True:
        try:
            with claimed(path):
                if (result := ended(path)) is not None:
                    return Ended(job.path, result)
                key = job.target.with_spec(job.key)
                run = RunFolder.read(path) if (path / "run.json").exists() else RunFolder.start(path, key)
                return Ended(job.path, run.finish("failed", seconds=seconds, reason=reason))
        except Held:  # noqa: PERF203 (it may be free at the next try)
            if not job.waits:  # another worker has it already
                return Ended(job.path)
            time.sleep(0.1)
        except OSError as error:
            return Ended(job.path, trouble=error_in_words(error))


def _attempt(job: Job, server: Server, watch: _Watch) -> RunEvent:
    """One process of the run, from start to exit. Returns what it reported, or how it died."""
    try:
        connection, owner = server.start(job)
    except Closed:
        return "stopped", None
    except OSError as error:
        return "died", f"its process could not be started: {error_in_words(error)}"
    reported: RunEvent | None = None
    with connection:  # closing it ends the run and everything that the run started
        while True:
            kind, value = _next_event(connection, owner)
            if kind == "started":
                watch.begin(value)
            elif kind == "exit":
                return reported or ("died", _death(value))
            elif kind == "gone":
                kill_left(Path(job.path))
                return "died", DIED
            elif kind != "nothing":
                reported = reported or (kind, value)  # the reason for ending it is more important than the exit code
            elif not watch.alive():
                return "stopped", None
            elif reported is None and (reported := watch.objection()) is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as line, suppress(OSError):
                    line.shutdown(socket.SHUT_WR)  # the server ends it, politely first, and reports its exit
            watch.keep()


def _next_event(connection: Connection, owner: socket.socket) -> RunEvent:
    """The next event of a run's process, or ("nothing", None) within a second.

    The server adds ("started", pid) and ("exit", code); if the server itself has died, the event is ("gone", None).
    """
    with suppress(EOFError, OSError, ValueError):  # the last event: our end was closed meanwhile
        ready = wait([connection, owner], timeout=1.0)
        if not ready:
            return "nothing", None
        if connection in ready:
            return connection.recv()
    return "gone", None


class _Watch:
    """Whether a run's sweep is alive, by the sweep's claim; and of the run, whether it keeps its own claim and time."""

    def __init__(self, job: Job) -> None:
        self._job, self._pid, self._began = job, 0, 0.0
        self._held: Claim | None = None
        self._touched = 0.0
        self._seen = self._kept = time.monotonic()

    def begin(self, pid: int) -> None:
        self._began, self._pid, self._held = time.monotonic(), pid, None

    def objection(self) -> RunEvent | None:
        """Why the run has to end now: its process has lost its claim, or it takes too long."""
        if self._held is None and self._pid:
            self._held = held_by(Path(self._job.path), self._pid)
        if self._held is not None and self._held.lost:
            return "lost", None
        timeout = self._job.timeout
        if timeout is not None and self._pid and time.monotonic() - self._began > timeout:
            return "timeout", f"it ran longer than {timeout:g} seconds (--timeout)"
        return None

    def alive(self) -> bool:
        try:
            touched = os.stat(self._job.claim).st_mtime
        except FileNotFoundError:
            return False
        except OSError:  # a network disk that does not answer proves nothing
            return True
        if touched != self._touched:
            self._touched, self._seen = touched, time.monotonic()
        return time.monotonic() - self._seen < STALE

    def keep(self) -> None:
        """Keep the run's own claim alive: its process may compute for minutes without a word."""
        if self._held is not None and time.monotonic() - self._kept > HEARTBEAT:
            self._held.touch()
            self._kept = time.monotonic()


def _death(code: int) -> str:
    """A process's exit in words."""
    if code >= 0:
        return f"its process ended with exit code {code} before the run was finished"
    name = signal.Signals(-code).name
    hint = {"SIGKILL": " (the out-of-memory killer does that)", "SIGSEGV": " (a segmentation fault)"}.get(name, "")
    return f"its process was killed by {name}{hint}"
