"""A process for every run, so that no run can take anything else down with it: the side that starts them.

A server process (`oneclock.sweep.server`) has imported what the runs will import (torch takes seconds) and forks a
fresh process for each: a hundredth of a second instead of seconds, and nothing of an earlier run in it. On one machine
a sweep has one server; a worker of a cluster has its own.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from oneclock.sweep.family import LINUX, kill_session
from oneclock.sweep.job import Job, Message
from oneclock.sweep.server import GRACE, command

DIED = "the process that starts runs died"


class Closed(Exception):
    """The server was told to end: it starts no more runs."""


class Process:
    """A run's process as its supervisor sees it. Closing it ends the run and all that the run started."""

    def __init__(self, connection: Connection, owner: socket.socket, ready: threading.Event) -> None:
        self._connection, self._owner, self._ready = connection, owner, ready

    def next(self, timeout: float) -> Message | None:
        """What is told next, or None in `timeout` seconds.

        Its server adds ("started", pid) and ("exit", code) to what the run tells; where the server itself has died it
        is ("gone", None).
        """
        with suppress(EOFError, OSError, ValueError):  # the last: our end was closed meanwhile
            told = wait([self._connection, self._owner], timeout)
            if not told:
                return None
            if self._connection in told:
                message = self._connection.recv()
                self._ready.set()
                return message
        return "gone", None

    def end(self) -> None:
        """Have the run and all that it started end, politely first; its exit is told when they have."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as line, suppress(OSError):
            line.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: Any) -> None:
        self._connection.close()


class Server:
    """A server process, started with the first run or by `open`, and again if it died. It ends when this process does.

    Dask has its workers give memory back to the system at every chance (MALLOC_TRIM_THRESHOLD_). A training that
    allocates and frees at every step would then spend up to half its time on page faults: runs do without.
    """

    def __init__(
        self, modules: tuple[str, ...], environment: Mapping[str, str] | None = None, grace: float = GRACE
    ) -> None:
        self._modules, self._environment, self._grace = list(modules), dict(environment or {}), grace
        self._lock = threading.Lock()
        self._closed, self._ready = False, threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner: socket.socket | None = None

    def open(self) -> socket.socket:
        """Start the process where none lives; our end of its socket."""
        with self._lock:
            if self._closed:
                raise Closed
            if self._owner is None or self._process is None or self._dead(self._process):
                self._spawn()
            assert self._owner is not None
            return self._owner

    @staticmethod
    def _dead(process: subprocess.Popen[bytes]) -> bool:
        """Whether a server is dead; what its runs left in its session is killed before its number is given anew."""
        if LINUX and process.returncode is None:
            with suppress(ChildProcessError):  # a program that waits for no child: the number may be another's by now
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return False
                kill_session(process.pid)
        return process.poll() is not None

    def _spawn(self) -> None:
        if self._owner is not None:
            self._owner.close()
        self._ready.clear()
        inherited = {key: value for key, value in os.environ.items() if key != "MALLOC_TRIM_THRESHOLD_"}
        self._owner, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                command(self._modules, self._grace),
                stdin=theirs.fileno(),
                env=inherited | self._environment,
                start_new_session=True,
            )

    def start(self, job: Job) -> Process:
        """A new process that executes the job."""
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
        return Process(connection, owner, self._ready)

    def close(self) -> None:
        """End the server and its runs, politely first; no more runs start."""
        with self._lock:
            self._closed = True
        if self._process is None or self._owner is None:
            return
        with suppress(OSError):
            self._owner.shutdown(socket.SHUT_WR)
        if not self._ready.is_set():  # it has no runs, and may be importing for seconds yet
            self._process.terminate()
        try:
            if not self._dead(self._process):
                self._process.wait(self._grace + 2 * GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._owner.close()

    def hurry(self) -> None:
        """Have an end that is under way wait for nobody."""
        if self._process is not None:
            self._process.send_signal(signal.SIGUSR2)


_SERVERS: dict[tuple[str, ...], Server] = {}
_MAKING = threading.Lock()


def server_for(modules: tuple[str, ...]) -> Server:
    """This process's server with those modules, for a worker of a cluster."""
    with _MAKING:
        if modules not in _SERVERS:
            _SERVERS[modules] = Server(modules)
            atexit.register(_SERVERS[modules].close)
        return _SERVERS[modules]
