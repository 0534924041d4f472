"""The excess loss of a beta over the best beta of a sweep, read off the sweep's curve. Pure Python."""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

from oneclock.evidence.table import EvidenceSweep


class CurvePoint(NamedTuple):
    """One beta of a sweep at its best learning rate: `x` is log(1 - beta), the loss, and its standard error."""

    x: float
    loss: float
    se: float | None


class Excess(NamedTuple):
    """The excess loss in per cent of the best beta's loss; `se` of that difference, None if not known.

    `at_least`: the beta lies outside what was swept.
    """

    percent: float
    at_least: bool
    se: float | None


@dataclass(frozen=True)
class SweepCurve:
    """The loss of a sweep over the beta that it varied, linear in log(1 - beta) between the points."""

    points: tuple[CurvePoint, ...]

    @property
    def best(self) -> CurvePoint:
        return min(self.points, key=lambda point: point.loss)

    def at(self, beta: float) -> Excess:
        """The excess loss of a beta; beyond the swept betas that of the last one, which is a lower bound."""
        x = math.log(1 - beta)
        near = self._nearest_swept(x)
        return self.above_best(*self._loss(near), at_least=abs(x - near) > EDGE)

    def above_best(self, loss: float, se: float | None, at_least: bool = False) -> Excess:
        """The excess of a loss, given with its standard error, over the best one's."""
        best = self.best
        error = None if se is None or best.se is None else 100 * math.hypot(se, best.se) / best.loss
        return Excess(100 * (loss / best.loss - 1), at_least, error)

    def extended(self, x: float) -> tuple[float, float | None]:
        """The excess loss at log(1 - beta) = `x` and its standard error, in per cent.

        Beyond the swept betas the last line is continued, unless it falls outwards: a lower bound for a convex curve.
        """
        best, near = self.best, self._nearest_swept(x)
        loss, se = self._loss(near)
        end, inner = self.points[:2] if x < near else self.points[:-3:-1]
        slope = (end.loss - inner.loss) / abs(end.x - inner.x)
        loss += max(slope, 0.0) * abs(x - near)
        return 100 * (loss / best.loss - 1), None if se is None else 100 * se / best.loss

    def _nearest_swept(self, x: float) -> float:
        return min(max(x, self.points[0].x), self.points[-1].x)

    def _loss(self, x: float) -> tuple[float, float | None]:
        """The loss at `x` between the first and the last point, and its standard error."""
        for end in (self.points[0], self.points[-1]):
            if x == end.x:
                return end.loss, end.se
        after = bisect.bisect_right([point.x for point in self.points], x)
        one, two = self.points[after - 1], self.points[after]
        share = (x - one.x) / (two.x - one.x)
        se = None if one.se is None or two.se is None else math.hypot((1 - share) * one.se, share * two.se)
        return one.loss + share * (two.loss - one.loss), se


EDGE = 0.1
"""A beta this close to the last swept one, in log(1 - beta), counts as swept: its memory differs by a tenth."""


@functools.cache
def curve(sweep: EvidenceSweep) -> SweepCurve | None:
    """The curve of a sweep over its tied betas, its beta1 or its beta2; None if fewer than two have a loss."""
    lowest: dict[float, CurvePoint] = {}
    for cell in sweep.cells:
        if cell.loss is None or (sweep.varied in ("tied", "pairs") and not cell.tied):
            continue  # without a loss, or an untied baseline
        beta = cell.beta2 if sweep.varied == "beta2" else cell.beta1
        if beta not in lowest or cell.loss < lowest[beta].loss:
            lowest[beta] = CurvePoint(math.log(1 - beta), cell.loss, cell.se)
    return SweepCurve(tuple(sorted(lowest.values()))) if len(lowest) > 1 else None


def baseline(sweep: EvidenceSweep, beta1: float, beta2: float) -> Excess | None:
    """The excess loss of an untied pair over the best tied beta of a sweep, each at its best learning rate."""
    losses = [(c.loss, c.se) for c in sweep.cells if (c.beta1, c.beta2) == (beta1, beta2) and c.loss is not None]
    measured = curve(sweep)
    if not losses or measured is None or sweep.varied not in ("tied", "pairs"):
        return None
    return measured.above_best(*min(losses, key=lambda one: one[0]))
