"""Stopping between two steps: a signal sets a flag that the loop reads, so that no update is interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """A function for `train(stop=...)` that says whether SIGINT (Ctrl-C) or SIGTERM has come.

    A second Ctrl-C interrupts at once; the run can then continue from its last checkpoint. Python handles signals only
    in the main thread; in other threads this changes nothing.
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
