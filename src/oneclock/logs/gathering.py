"""One logged metric of one run, gathered point by point in bounded memory. Plain Python, as a browser has it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from itertools import pairwise

from oneclock.horizon import Curve

LIMIT = 2**17
"""Points kept of one metric. Beyond it neighbours are merged, so a log of any length takes the same memory."""

_LAST_STEP = 2.0**53  # beyond it, floats no longer tell neighbouring steps apart


class Gathered:
    """(step, value) in the order logged; of a step logged twice the later value counts.

    `sign` is -1 where higher values are better. `merged` is how many evaluations one kept point may stand for.

    >>> series = Gathered()
    >>> for step, value in [(100, 2.0), (300, 1.7), (200, 1.8), (200, 1.5), (-1, 9.0)]:
    ...     series.add(step, value)
    >>> series.curve()
    Curve(steps=(100, 200, 300), losses=(2.0, 1.5, 1.7))
    >>> series.duplicates, series.ignored
    (1, 1)
    """

    def __init__(self, limit: int = LIMIT, sign: float = 1.0) -> None:
        self._steps, self._values = array("d"), array("d")
        self._limit, self._sign = limit, sign
        self._lowest: tuple[float, float] | None = None  # of a group of `merged` that is not yet full
        self._grouped = 0
        self._last = -1.0, 0.0
        self.merged = 1
        self.ignored = 0
        self.duplicates = 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: float, value: float) -> None:
        """Append `sign * value`; a step that is negative, not finite or beyond 2**53 is counted and left out."""
        if not 0 <= step <= _LAST_STEP:
            self.ignored += 1
            return
        value *= self._sign
        if self.merged == 1:
            self._append(step, value)
            return
        if self._lowest is None or not self._lowest[1] <= value:
            self._lowest = step, value
        self._see_last(step, value)
        self._grouped += 1
        if self._grouped == self.merged:
            self._end_group()

    def forget_from(self, step: float) -> None:
        """Drop what was logged at `step` or later: a restarted run is about to repeat it."""
        self._end_group()
        self._last = -1.0, 0.0
        self._keep(index for index, logged in enumerate(self._steps) if logged < step)

    def curve(self, times: float = 1.0, per: float = 1.0, offset: float = 0.0) -> Curve | None:
        """The curve over `(step + offset) * times / per`, or None where no value is finite."""
        self._end_group()
        self._sort()
        if self._steps and self._last[0] > self._steps[-1]:
            self._append(*self._last)
        if not any(map(math.isfinite, self._values)):
            return None
        return Curve([_whole_if_exact((step + offset) * times / per) for step in self._steps], self._values)

    @property
    def starts_at(self) -> float:
        """The smallest step."""
        return min(self._steps)

    @property
    def evenly_spaced(self) -> bool:
        """Whether the steps are whole numbers at one distance, as a log written at fixed intervals has them."""
        self._sort()
        return len({after - before for before, after in pairwise(self._steps)}) < 2

    def _append(self, step: float, value: float) -> None:
        self._steps.append(step)
        self._values.append(value)
        if len(self._steps) >= self._limit:
            self._shrink()

    def _end_group(self) -> None:
        lowest, self._lowest, self._grouped = self._lowest, None, 0
        if lowest is not None:
            self._append(*lowest)

    def _see_last(self, step: float, value: float) -> None:
        """Remember the last evaluation, which the lowest of its group may outlive."""
        if step >= self._last[0]:
            self._last = step, value

    def _sort(self) -> None:
        latest = dict(zip(self._steps, self._values, strict=True))
        self.duplicates += len(self._steps) - len(latest)
        order = sorted(latest)
        self._steps, self._values = array("d", order), array("d", map(latest.__getitem__, order))

    def _shrink(self) -> None:
        """Of every two neighbours keep the lower, and from here on of as many: best step and best loss stay exact."""
        self._sort()
        self._see_last(self._steps[-1], self._values[-1])
        if len(self) <= self._limit // 2:
            return
        pairs = (len(self) - 1) // 2 * 2
        self._keep([*map(self._lower, range(0, pairs, 2)), *range(pairs, len(self))])
        self.merged *= 2

    def _lower(self, index: int) -> int:
        """Where the lower of two neighbours is, the first of them at `index`; one that is no number is never lower."""
        first, second = self._values[index], self._values[index + 1]
        return index + 1 if second < first or (math.isnan(first) and second < math.inf) else index

    def _keep(self, places: Iterable[int]) -> None:
        places = list(places)
        self._steps = array("d", [self._steps[place] for place in places])
        self._values = array("d", [self._values[place] for place in places])


def _whole_if_exact(step: float) -> float:
    return int(step) if step.is_integer() else step
