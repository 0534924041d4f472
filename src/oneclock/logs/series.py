"""One logged metric of one run: its points in bounded memory, and then in the order of their steps."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from operator import lt
from statistics import median
from typing import NamedTuple

LIMIT = 2**17  # points kept of one metric, an even number: a log of any length takes the same memory
_LAST_STEP = 2.0**53  # beyond it, floats cannot represent every whole number
_NEAR_ZERO = 0.1  # of the median: a loss that falls this low may reach 0
_FAR_ABOVE = 10  # times the largest other loss
_SHORTEST_PART = 4  # mean evaluations between two steps back; with fewer, the log is merely out of order
_MOST_PARTS = 64  # beyond it the log is out of order, however long the parts are; it also bounds the work
_COMPARED = 3  # losses at each end of a part that are compared
_GOES_ON = 0.75  # a continuation must start with at least this share of the earlier progress
_OUT_OF_ORDER = 2  # a value may be this many evaluations late and still be sorted in


class MetricSeries:
    """(step, value) in logging order. Of a very long series only every `stride`-th point and the last are kept."""

    def __init__(self) -> None:
        self.stride = 1
        self.ignored = 0
        self._logged = 0
        self.steps, self.values = array("d"), array("d")

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: float, value: float) -> None:
        """Append a value; a step that is negative, not finite or beyond 2**53 is counted and left out."""
        if not 0 <= step <= _LAST_STEP:
            self.ignored += 1
            return
        if (self._logged - 1) % self.stride:  # the last one was kept only until the next
            del self.steps[-1], self.values[-1]
        elif len(self.steps) == LIMIT:
            self.steps, self.values = self.steps[::2], self.values[::2]
            self.stride *= 2
        self.steps.append(step)
        self.values.append(value)
        self._logged += 1


def placeholders_in(losses: Sequence[float]) -> list[float]:
    """The values that stand for "not evaluated" among losses above 0: 0 or a negative value far below them, or a value
    far above them that returns and is not the last.
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


class Restart(NamedTuple):
    """The counter went back from step `last` to step `first`, as after a resume or in a second run."""

    joined: bool  # the loss went on, so the parts were put one after the other; else later values replace earlier ones
    last: float
    first: float


class Timeline:
    """(step, value) in increasing steps, from points in the order logged. A later value at a step replaces it."""

    def __init__(self, series: MetricSeries, has_placeholders: bool = True) -> None:
        dropped = placeholders_in(series.values) if has_placeholders else ()
        self.placeholders = Counter(value for value in series.values if value in dropped)
        steps = [step for step, value in zip(series.steps, series.values, strict=True) if value not in dropped]
        values = [value for value in series.values if value not in dropped]
        self.steps, self.values = array("d"), array("d")
        self.restarts: list[Restart] = []
        self.duplicates = self.out_of_order = 0
        self._shift = 0.0  # what is added to logged steps since the counter restarted
        self._counted_from = steps[0]  # where the present counter began, in the line's steps
        cuts = [0, *(index for index in range(1, len(steps)) if steps[index] < steps[index - 1]), len(steps)]
        if len(cuts) > 1 + min(_MOST_PARTS, max(len(steps) // _SHORTEST_PART, 1)):
            self.out_of_order = len(cuts) - 2
            cuts = [0, len(steps)]
        for start, end in pairwise(cuts):
            if start and steps[start] + self._shift < self.steps[-1]:
                self._go_back(steps[start], values[start:end])
            self._merge(steps[start:end], values[start:end])

    def _go_back(self, logged: float, values: Sequence[float]) -> None:
        """Handle a part that begins at a step that the log has passed already."""
        first, last = logged + self._shift, self.steps[-1] - self._shift
        later = len(self.steps) - bisect_right(self.steps, first)
        spacing = (self.steps[-1] - self.steps[0]) / max(len(self.steps) - 1, 1)
        from_start = first <= self._counted_from + spacing
        if later <= _OUT_OF_ORDER and not from_start:
            self.out_of_order += 1
        elif from_start and self._goes_on(first, values):
            self.restarts.append(Restart(True, last, logged))
            self._shift = self._counted_from = self.steps[-1]
        else:
            self.restarts.append(Restart(False, last, logged))
            end = bisect_left(self.steps, first)
            del self.steps[end:], self.values[end:]

    def _goes_on(self, first: float, values: Sequence[float]) -> bool:
        """Whether the part continues the losses reached before it, instead of repeating the losses at those steps."""
        at = bisect_left(self.steps, first)
        begins = _typical(values[:_COMPARED])
        reached, at_first = _typical(self.values[-_COMPARED:]), _typical(self.values[at : at + _COMPARED])
        return reached != at_first and (begins - at_first) / (reached - at_first) > _GOES_ON

    def _merge(self, steps: Sequence[float], values: Sequence[float]) -> None:
        shifted = [step + self._shift for step in steps]
        if (not self.steps or shifted[0] > self.steps[-1]) and all(map(lt, shifted, shifted[1:])):
            self.steps.extend(shifted)
            self.values.extend(values)
            return
        latest = dict(zip(self.steps, self.values, strict=True))
        count = len(latest) + len(shifted)
        latest |= dict(zip(shifted, values, strict=True))
        self.duplicates += count - len(latest)
        order = sorted(latest)
        self.steps, self.values = array("d", order), array("d", map(latest.__getitem__, order))


def _typical(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return median(finite) if finite else math.nan
