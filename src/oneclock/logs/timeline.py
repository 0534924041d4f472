"""The evaluations of one run in the order of their steps, also where the step counter went back.

A step counter goes back when a run resumes from a checkpoint, when a resumed run counts from 0 again, or when a second
run writes to the same log. Each case is handled as the most likely one, and recorded for a warning.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import lt
from statistics import median
from typing import Literal

_SHORTEST_PART = 4  # mean evaluations between two steps back; with fewer, the log is merely out of order
_MOST_PARTS = 64  # beyond it the log is out of order, however long the parts are; it also bounds the work
_COMPARED = 3  # losses at each end of a part that are compared
_GOES_ON = 0.75  # a continuation must start with at least this share of the earlier progress
_OUT_OF_ORDER = 2  # a value may be this many evaluations late and still be sorted in


@dataclass(frozen=True)
class Restart:
    """The counter went back from step `last` to step `first`.

    `joined`: it restarted while the loss went on, so the parts were put one after the other. `replayed`: the run
    repeated steps, and the later values count. `fresh`: the loss went back too, so only the later run counts.
    """

    kind: Literal["joined", "replayed", "fresh"]
    last: float
    first: float


class Timeline:
    """(step, value) in increasing steps, from points in the order logged. A later value at a step replaces it.

    >>> line = Timeline([0, 10, 20, 30, 0, 10, 20, 30], [9, 7, 6, 5, 5, 4, 3.5, 3])
    >>> list(line.steps), list(line.values)
    ([0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0], [9.0, 7.0, 6.0, 5.0, 4.0, 3.5, 3.0])
    >>> line.restarts
    [Restart(kind='joined', last=30.0, first=0.0)]
    """

    def __init__(self, steps: Sequence[float], values: Sequence[float]) -> None:
        self.steps, self.values = array("d"), array("d")
        self.restarts: list[Restart] = []
        self.duplicates = 0
        self.out_of_order = 0
        self._shift = 0.0  # what is added to logged steps since the counter restarted
        self._counted_from = 0.0  # where the present counter began, in the line's steps
        parts = list(_parts(steps, values))
        if len(parts) > min(_MOST_PARTS, max(len(steps) // _SHORTEST_PART, 1)):
            self.out_of_order = len(parts) - 1
            self._merge(steps, values)
        else:
            for part_steps, part_values in parts:
                self._add_part(part_steps, part_values)

    def _cut(self, step: float) -> None:
        end = bisect_left(self.steps, step)
        del self.steps[end:], self.values[end:]

    def _add_part(self, steps: Sequence[float], values: Sequence[float]) -> None:
        first = steps[0] + self._shift
        if not self.steps:
            self._counted_from = first
        elif first < self.steps[-1]:
            self._go_back(first, values)
        self._merge(steps, values)

    def _go_back(self, first: float, values: Sequence[float]) -> None:
        """Handle a part that begins at `first`, a step that the log has passed already."""
        later = len(self.steps) - bisect_right(self.steps, first)
        spacing = (self.steps[-1] - self.steps[0]) / max(len(self.steps) - 1, 1)
        from_start = first <= self._counted_from + spacing
        if later <= _OUT_OF_ORDER and not from_start:
            self.out_of_order += 1
            return
        last, logged_first = self.steps[-1] - self._shift, first - self._shift
        if from_start and self._goes_on(first, values):
            self.restarts.append(Restart("joined", last, logged_first))
            self._shift = self._counted_from = self.steps[-1]
            return
        self._cut(first)
        self.restarts.append(Restart("replayed" if self.steps else "fresh", last, logged_first))

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


def _parts(steps: Sequence[float], values: Sequence[float]) -> Iterator[tuple[Sequence[float], Sequence[float]]]:
    """Parts within which the steps do not go back."""
    cuts = [index for index in range(1, len(steps)) if steps[index] < steps[index - 1]]
    for start, end in zip([0, *cuts], [*cuts, len(steps)], strict=True):
        if end > start:
            yield steps[start:end], values[start:end]


def _typical(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return median(finite) if finite else math.nan
