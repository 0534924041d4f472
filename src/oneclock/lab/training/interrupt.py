"""Stopping between two steps: a signal sets a flag that the loop reads, so that no update is left half made."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """A function for `train(stop=...)` that says whether SIGINT (Ctrl-C) or SIGTERM has come.

    A second Ctrl-C interrupts at once; the run then goes on from its last checkpoint. Outside the main thread, which is
    where Python hears signals, nothing is changed.
    """
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and came.is_set():
            raise KeyboardInterrupt
        came.set()

    heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield came.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
