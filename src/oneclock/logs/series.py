"""One logged metric of one run, collected point by point in bounded memory. Plain Python, as a browser has it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from oneclock.horizon import Curve
from oneclock.logs.timeline import Restart, Timeline

LIMIT = 2**17
"""Points kept of one metric. Beyond it neighbours are merged, so a log of any length takes the same memory."""

_LAST_STEP = 2.0**53  # beyond it, floats cannot represent every whole number
_PLACEHOLDERS = (-1.0, 0.0)
_NEAR_ZERO = 0.1  # of the median: a loss that came down to this may well reach 0


class Series:
    """(step, value) in the order logged, with the sign that the log has. Of a step logged twice the later value counts.

    `merged` is how many evaluations one kept point may stand for: the best of them, by `higher_is_better`.

    >>> series = Series()
    >>> for step, value in [(100, 2.0), (300, 1.7), (200, 1.8), (200, 1.5), (-1, 9.0)]:
    ...     series.add(step, value)
    >>> series.curve()
    Curve(steps=(100, 200, 300), losses=(2.0, 1.5, 1.7))
    >>> series.duplicates, series.ignored, series.out_of_order
    (1, 1, 1)
    """

    def __init__(self, limit: int = LIMIT, higher_is_better: bool = False) -> None:
        self.higher_is_better = higher_is_better
        self.merged = 1
        self.ignored = 0
        self.placeholders: dict[float, int] = {}
        self._limit = limit
        self._line = Timeline()
        self._steps, self._values = array("d"), array("d")  # not yet in the line
        self._best: tuple[float, float] | None = None  # of a group of `merged` that is not yet full
        self._grouped = 0
        self._last: tuple[float, float] | None = None

    def __len__(self) -> int:
        return len(self._line) + len(self._steps)

    def add(self, step: float, value: float) -> None:
        """Append a value; a step that is negative, not finite or beyond 2**53 is counted and left out."""
        if not 0 <= step <= _LAST_STEP:
            self.ignored += 1
            return
        if self.merged == 1:
            self._last = step, value
            self._append(step, value)
            return
        if self._last is not None and step < self._last[0]:
            self._end_part()
        self._last = step, value
        if self._best is None or not self._at_least_as_good(self._best[1], value):
            self._best = step, value
        self._grouped += 1
        if self._grouped == self.merged:
            self._end_group()

    def forget_from(self, step: float) -> None:
        """Drop what was logged at `step` or later: a restarted run is about to repeat it."""
        self._end_part()
        self._flush()
        self._line.forget_from(step)
        self._last = None

    def drop_placeholders(self) -> None:
        """Leave out values that stand for "not evaluated": see `placeholders_in`."""
        for value in placeholders_in([*self._line.values, *self._values]):
            kept = [index for index, one in enumerate(self._values) if one != value]
            inside = [index for index, one in enumerate(self._line.values) if one != value]
            self.placeholders[value] = len(self) - len(kept) - len(inside)
            self._steps, self._values = _chosen(self._steps, kept), _chosen(self._values, kept)
            self._line.keep(inside)
            if self._last is not None and self._last[1] == value:
                self._last = None

    def curve(self, times: float = 1.0, per: float = 1.0, offset: float = 0.0) -> Curve | None:
        """The curve to minimise over `(step + offset) * times / per`, or None where no value is finite."""
        self._end_part()
        self._flush()
        if not any(map(math.isfinite, self._line.values)):
            return None
        steps = [_whole_if_exact((step + offset) * times / per) for step in self._line.steps]
        return Curve(steps, [-value for value in self._line.values] if self.higher_is_better else self._line.values)

    @property
    def values(self) -> Sequence[float]:
        """The values in the order of their steps, as far as they are kept."""
        self._end_part()
        self._flush()
        return self._line.values

    @property
    def starts_at(self) -> float:
        """The smallest step."""
        return min([*self._line.steps[:1], *self._steps])

    @property
    def duplicates(self) -> int:
        """How many values were replaced by a later one at the same step."""
        return self._line.duplicates

    @property
    def out_of_order(self) -> int:
        """How many times a value came too late and was put between the others."""
        return self._line.out_of_order

    @property
    def restarts(self) -> list[Restart]:
        """Where the step counter went back."""
        return self._line.restarts

    @property
    def evenly_spaced(self) -> bool:
        """Whether the steps are whole numbers at one distance, as a log written at fixed intervals has them."""
        self._flush()
        return len({after - before for before, after in pairwise(self._line.steps)}) < 2

    def _append(self, step: float, value: float) -> None:
        self._steps.append(step)
        self._values.append(value)
        if len(self) >= self._limit:
            self._shrink()

    def _end_group(self) -> None:
        best, self._best, self._grouped = self._best, None, 0
        if best is not None:
            self._append(*best)

    def _end_part(self) -> None:
        """End a group, and keep the last evaluation, which may come after the best of its group."""
        self._end_group()
        if self._last is not None and len(self):
            latest = self._steps[-1] if self._steps else self._line.last_logged
            if self._last[0] > latest:
                self._append(*self._last)

    def _flush(self) -> None:
        if self._steps:
            self._line.extend(self._steps, self._values)
            self._steps, self._values = array("d"), array("d")

    def _shrink(self) -> None:
        """Keep the better of every two neighbours, and from here on the best of as many: the best loss stays exact."""
        self._flush()
        count = len(self._line)
        if count <= self._limit // 2:
            return
        pairs = (count - 1) // 2 * 2
        self._line.keep([*map(self._better, range(0, pairs, 2)), *range(pairs, count)])
        self.merged *= 2

    def _better(self, index: int) -> int:
        """Which of two neighbours is better, the first of them at `index`."""
        values = self._line.values
        return index if self._at_least_as_good(values[index], values[index + 1]) else index + 1

    def _at_least_as_good(self, first: float, second: float) -> bool:
        """Whether `first` need not give way to `second`. A value that is not finite gives way to a finite one."""
        if not math.isfinite(first) or not math.isfinite(second):
            return math.isfinite(first) or not math.isfinite(second)
        return first >= second if self.higher_is_better else first <= second


def placeholders_in(losses: Sequence[float]) -> list[float]:
    """Which of -1 and 0 stand for "not evaluated" among losses: those far below losses that are all above 0.

    >>> placeholders_in([4.1, -1, 3.2, -1, 2.9]), placeholders_in([2.0, 0.1, 0.001, 0.0]), placeholders_in([1, -1, -2])
    ([-1.0], [], [])
    """
    others = [loss for loss in losses if math.isfinite(loss) and loss not in _PLACEHOLDERS]
    if not others or min(others) <= 0:
        return []
    zero_is_far = min(others) > _NEAR_ZERO * median(others)
    return [value for value in _PLACEHOLDERS if value in losses and (value < 0 or zero_is_far)]


def _chosen(values: Sequence[float], indices: Sequence[int]) -> array[float]:
    return array("d", [values[index] for index in indices])


def _whole_if_exact(step: float) -> float:
    return int(step) if step.is_integer() else step
