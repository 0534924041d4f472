"""One logged metric of one run, collected point by point in bounded memory.

Plain Python, which also runs in a browser.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from statistics import median

LIMIT = 2**17
"""Points kept of one metric, an even number: a log of any length takes the same memory."""

_LAST_STEP = 2.0**53  # beyond it, floats cannot represent every whole number
_NEAR_ZERO = 0.1  # of the median: a loss that falls this low may reach 0
_FAR_ABOVE = 10  # times the largest other loss


class MetricSeries:
    """(step, value) in logging order. Of a very long series only every `stride`-th point and the last are kept.

    >>> series = MetricSeries()
    >>> for step, value in [(100, 2.0), (300, 1.7), (200, 1.8), (-1, 9.0)]:
    ...     series.add(step, value)
    >>> series.points(), series.ignored
    (([100.0, 300.0, 200.0], [2.0, 1.7, 1.8]), 1)
    """

    def __init__(self) -> None:
        self.stride = 1
        self.ignored = 0
        self._logged = 0
        self._steps, self._values = array("d"), array("d")
        self._last: tuple[float, float] | None = None  # the latest point, unless it is among the kept ones

    def __len__(self) -> int:
        return len(self._steps) + (self._last is not None)

    def add(self, step: float, value: float) -> None:
        """Append a value; a step that is negative, not finite or beyond 2**53 is counted and left out."""
        if not 0 <= step <= _LAST_STEP:
            self.ignored += 1
            return
        self._last = (step, value)
        if self._logged % self.stride == 0:
            self._last = None
            self._steps.append(step)
            self._values.append(value)
            if len(self._steps) >= LIMIT:
                self._last = (step, value)
                self._steps, self._values = self._steps[::2], self._values[::2]
                self.stride *= 2
        self._logged += 1

    def forget_from(self, step: float) -> None:
        """Drop values logged at `step` or later: a restarted run will repeat them."""
        kept = [point for point in zip(*self.points(), strict=True) if point[0] < step]
        self._steps, self._values = array("d", [at for at, _ in kept]), array("d", [value for _, value in kept])
        self._last = None

    def points(self, without: Sequence[float] = ()) -> tuple[list[float], list[float]]:
        """Steps and values in the order logged, without points of these values."""
        points = list(zip(self._steps, self._values, strict=True)) + ([self._last] if self._last else [])
        kept = [point for point in points if point[1] not in without] if without else points
        return [step for step, _ in kept], [value for _, value in kept]


def placeholders_in(losses: Sequence[float]) -> list[float]:
    """The values that stand for "not evaluated" among losses above 0: 0 or a negative value far below them, or a value
    far above them that returns and is not the last.

    >>> placeholders_in([4.1, -1, 3.2, -1, 2.9]), placeholders_in([2.0, 0.1, 0.001, 0.0]), placeholders_in([1, -1, -2])
    ([-1], [], [])
    >>> placeholders_in([4.1, 999, 3.2, 999, 2.9]), placeholders_in([4.1, 3.2, 999, 999])
    ([999], [])
    """
    finite = [loss for loss in losses if math.isfinite(loss)]
    counts, above = Counter(finite), [loss for loss in finite if loss > 0]
    below = [value for value in counts if value < 0]
    if not above or len(below) > 1 or any(counts[value] == 1 and value != -1 for value in below):
        return []  # the losses themselves may fall below 0
    zero = [0.0] if 0.0 in counts and min(above) > _NEAR_ZERO * median(above) else []
    top = max(above)
    others = max((loss for loss in above if loss < top), default=math.inf)
    high = [top] if counts[top] > 1 and top > _FAR_ABOVE * others and finite[-1] != top else []
    return [*below, *zero, *high]
