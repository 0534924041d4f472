"""Ctrl-C and a polite kill as a flag: they interrupt nothing, the driver looks at it when it wakes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """A context in which the first SIGINT or SIGTERM calls `first` and sets `asked`, the next ones call `again`.

    Outside the main thread, which is where Python hears signals, nothing is changed; nor is a signal that is ignored.

    >>> with Stop(first=lambda: print("stopping"), again=lambda: print("at once")) as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     signal.raise_signal(signal.SIGINT)
    stopping
    at once
    >>> stop.asked
    True
    """

    def __init__(self, first: Callable[[], None], again: Callable[[], None]) -> None:
        self.asked = False
        self._first, self._again = first, again
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def _hear(self, *_: Any) -> None:
        call = self._again if self.asked else self._first
        self.asked = True
        call()
