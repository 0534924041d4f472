"""Ctrl-C and a polite kill as a flag: they interrupt nothing, the driver looks at it when it wakes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """A context in which the first of `signals` calls `first` and sets `asked`, the next ones call `again`.

    `number` is the latest that came.

    Outside the main thread, which is where Python hears signals, nothing is changed; nor is a signal that is ignored.

    >>> with Stop(first=lambda: print("stopping"), again=lambda: print("at once")) as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     signal.raise_signal(signal.SIGINT)
    stopping
    at once
    >>> stop.asked
    True
    """

    def __init__(
        self, first: Callable[[], None], again: Callable[[], None], signals: Sequence[signal.Signals] = SIGNALS
    ) -> None:
        self.asked, self.number = False, 0
        self._first, self._again, self._signals = first, again, signals
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in self._signals if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def _hear(self, number: int, _: Any) -> None:
        call = self._again if self.asked else self._first
        self.number = number
        self.asked = True
        call()
