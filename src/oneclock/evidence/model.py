"""What a beta is expected to lose in a new task of a given length. Pure Python.

Every sweep gives a curve of loss over memory. To use sweeps of other lengths too, memories are counted in units of the
recommended one at the sweep's own length: `shift` is log2(memory / recommended memory). At a length T and a shift

    sweep:   gap = its loss at that shift minus its loss at shift 0, in per cent of its best loss; se from its seeds
    task:    the mean over its sweeps, weighed by k = exp(-(log10(T_sweep / T) / 0.5)^2 / 2)
    all:     the mean over tasks, each weighed by its largest k / (se^2 + tau^2)

tau is the spread between tasks (random effects, after DerSimonian and Laird): each task counts once, however many
sweeps it has, and a noisy one counts less. The standard error of the mean follows from how the tasks spread, and is
never below what their noise alone makes it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneclock.evidence.excess import curve
from oneclock.evidence.table import EvidenceSweep, packaged, sweeps
from oneclock.rule import RECOMMENDED

MARGIN = 0.2
"""Per cent of the loss: betas that are expected to lose no more than this over the best are as good as it."""

WIDTH = 0.5
"""Width of the weights in decades of training length: how far a sweep counts for other lengths."""

UNKNOWN_SE = 0.1
"""Per cent of the loss: the standard error for sources that state none."""

SHIFTS = tuple(index / 8 for index in range(-32, 33))
"""Memories that are tried: 1/16 to 16 times the recommended one, which is at `ZERO`."""
ZERO = SHIFTS.index(0.0)


def deciding(every: Sequence[EvidenceSweep]) -> list[EvidenceSweep]:
    """The sweeps that show how long the first memory should be: of Adam or AdamW, tied or over beta1, with a curve."""
    return [one for one in every if one.of_adam and one.varied in ("tied", "beta1") and curve(one)]


@dataclass(frozen=True)
class Expected:
    """By shift, what is expected to be lost against the recommended memory, and its standard error, in per cent."""

    steps: float
    tasks: float
    gap: tuple[float, ...]
    gap_se: tuple[float, ...]

    def against_others(self) -> tuple[float, float]:
        """How much more the recommended memory loses than one of half to twice its length.

        First what is expected for the best of them, then the largest upper end of the 95 % CIs of all.
        """
        wide = t_quantile(self.tasks - 1)
        near = [(gap, se) for shift, gap, se in zip(SHIFTS, self.gap, self.gap_se, strict=True) if abs(shift) <= 1]
        return max(-gap for gap, _ in near), max(wide * se - gap for gap, se in near)

    def within(self) -> tuple[float, float]:
        """The shifts around 0 that are expected to lose at most `MARGIN` more than the recommended beta."""
        lower, upper = (list(zip(SHIFTS, self.gap, strict=True))[ZERO::way] for way in (-1, 1))
        return _crossing(lower), _crossing(upper)


def _crossing(outwards: Sequence[tuple[float, float]]) -> float:
    """Where the gap first rises above `MARGIN`, between two shifts; the last shift if it does not."""
    for (shift, gap), (after, more) in itertools.pairwise(outwards):
        if more > MARGIN:
            return shift + (MARGIN - gap) / (more - gap) * (after - shift)
    return outwards[-1][0]


@functools.cache
def gaps_of(sweep: EvidenceSweep, unknown_se: float = UNKNOWN_SE) -> tuple[tuple[float, float], ...]:
    """By shift, the gap of a sweep's loss to that at shift 0, and the variance of the gap, in per cent."""
    fitted = curve(sweep)
    assert fitted is not None  # see `deciding`
    own = RECOMMENDED.one_minus_beta(sweep.steps)
    losses = [fitted.extended(math.log(min(own * 2.0**-shift, 1.0))) for shift in SHIFTS]
    law, error = losses[ZERO]
    return tuple((loss - law, (error or unknown_se) ** 2 + (se or unknown_se) ** 2) for loss, se in losses)


class Tasks:
    """Sweeps by task, weighed by the distance of their length from `steps`. `count` is the `effective` number."""

    def __init__(self, steps: float, evidence: Sequence[EvidenceSweep], width: float = WIDTH) -> None:
        distances = [(math.log10(one.steps / steps) / width) ** 2 / 2 for one in evidence]
        groups: dict[str, list[tuple[int, float]]] = {}
        for index, (one, distance) in enumerate(zip(evidence, distances, strict=True)):
            groups.setdefault(one.task, []).append((index, math.exp(min(distances) - distance)))
        self.groups = list(groups.values())
        self.weights = [max(weight for _, weight in own) for own in self.groups]
        self.count = effective(self.weights)

    def pooled(self, effects: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """The mean over tasks and its standard error, from the value and the variance of every sweep."""
        of_tasks = []
        for own in self.groups:
            total = math.fsum(weight for _, weight in own) or 1e-300
            value = math.fsum(weight * effects[index][0] for index, weight in own) / total
            variance = math.fsum(weight**2 * effects[index][1] for index, weight in own) / total**2
            of_tasks.append((value, variance or UNKNOWN_SE**2))
        return pooled(self.weights, of_tasks)


def expected(
    steps: float,
    evidence: Sequence[EvidenceSweep] | None = None,
    *,
    width: float = WIDTH,
    unknown_se: float = UNKNOWN_SE,
) -> Expected:
    """What the evidence (by default all of it) expects at a training length."""
    chosen = deciding(sweeps() if evidence is None else evidence)
    if not chosen:
        raise ValueError("no sweep varies beta1 or tied betas: give one with two betas or more")
    tasks = Tasks(steps, chosen, width)
    by_shift = zip(*(gaps_of(sweep, unknown_se) for sweep in chosen), strict=True)
    gaps, errors = zip(*map(tasks.pooled, by_shift), strict=True)
    return Expected(steps, tasks.count, gaps, errors)


def pooled(weights: Sequence[float], effects: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The random-effects mean over tasks, and its standard error from their spread, at least that of their noise.

    A weighted mean lies too close to the tasks that count most, so the spread of each is divided by 1 - its share.
    """
    values = [value for value, _ in effects]
    first = [weight / variance for weight, (_, variance) in zip(weights, effects, strict=True)]
    total = math.fsum(first)
    middle = math.fsum(a * value for a, value in zip(first, values, strict=True)) / total
    spread = math.fsum(a * (value - middle) ** 2 for a, value in zip(first, values, strict=True))
    by_chance = math.fsum(w - a * w / total for a, w in zip(first, weights, strict=True))
    room = total - math.fsum(a * a for a in first) / total
    tau2 = max((spread - by_chance) / room, 0.0) if room > 0 else 0.0
    last = [weight / (variance + tau2) for weight, (_, variance) in zip(weights, effects, strict=True)]
    total = math.fsum(last)
    mean = math.fsum(b * value for b, value in zip(last, values, strict=True)) / total
    shares = [b / total for b in last]
    seen = math.fsum((s * (v - mean)) ** 2 / (1 - s) for s, v in zip(shares, values, strict=True) if s < 1)
    least = math.fsum(weight * s for weight, s in zip(weights, shares, strict=True)) / total
    return mean, math.sqrt(max(seen, least))


def effective(weights: Sequence[float]) -> float:
    """How many equal weights say as much as these: (sum of weights)^2 / (sum of squared weights).

    >>> effective([1, 1, 1]), round(effective([1, 0.1]), 1)
    (3.0, 1.2)
    """
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)


_QUANTILES = (
    *((1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (7, 2.365), (10, 2.228), (15, 2.131)),
    *((30, 2.042), (1e12, 1.960)),
)


def t_quantile(degrees: float) -> float:
    """Half the width of a 95 % CI in standard errors, for this many degrees of freedom (at least one).

    >>> round(t_quantile(4), 2), round(t_quantile(20), 2)
    (2.78, 2.09)
    """
    degrees = max(degrees, 1.0)
    for (below, one), (above, two) in itertools.pairwise(_QUANTILES):
        if degrees <= above:
            return one + (1 / below - 1 / degrees) / (1 / below - 1 / above) * (two - one)
    return _QUANTILES[-1][1]


@dataclass(frozen=True)
class Range:
    """`Expected.within` in betas, `Expected.against_others`, and the effective number of tasks near this length."""

    low: float
    high: float
    loses: float
    loses_high: float
    tasks: float


def range_from(steps: float, low: float, high: float, *numbers: float) -> Range:
    """A range in betas from one in shifts."""
    own = RECOMMENDED.one_minus_beta(steps)
    return Range(*(max(1 - own * 2.0**-shift, 0.0) for shift in (low, high)), *numbers)


def range_numbers(outlook: Expected) -> tuple[float, ...]:
    """What a line of `data/ranges.csv` has: lowest and highest shift, and the numbers of a `Range`."""
    return (*outlook.within(), *outlook.against_others(), outlook.tasks)


@functools.cache
def packaged_ranges() -> list[list[float]]:
    """The rows of `data/ranges.csv`: log10(steps), then `range_numbers`, ten lengths per decade from 1 to 10^9."""
    return [[float(value) for value in line.split(",")] for line in packaged("ranges.csv")[1:]]


def known_range(steps: float) -> Range:
    """The range by all evidence, from the packaged table; straight lines in log(steps) between its lengths."""
    rows = packaged_ranges()
    position = min(max(10 * math.log10(steps), 0.0), len(rows) - 1.000001)
    one, two, share = rows[int(position)], rows[int(position) + 1], position - int(position)
    return range_from(steps, *(a + share * (b - a) for a, b in zip(one[1:], two[1:], strict=True)))
