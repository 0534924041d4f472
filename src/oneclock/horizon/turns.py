"""Where a validation curve turned, or may yet turn: a probability for every place. Pure Python.

The probability of a place is a prior (how often runs turn there) times how well "down to here, then up" fits the
losses, measured in noise. What comes after the last evaluation has the weight of a curve that only fell so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean

from oneclock.horizon.schedule import SHAPES
from oneclock.horizon.unimodal import lasting_variance, misfits, noise_variance, without_spikes

GROUPS = 64  # a longer curve is averaged in so many groups of neighbours, whose common noise then counts once
_TURN = 0.5  # before any evaluation: the probability that a run with a constant learning rate turns before its end
_EARLIEST = 0.02  # of the plan: the prior has as little mass before it as there is time
_LOWER = 3.0  # noise standard deviations: a later loss lower by so much rules a turn out
_MANY = 20  # evaluations from which their noise is known well
_LEAST = 3  # evaluations in which no turn can be confirmed, so that the interval always ends at the plan
_AHEAD = 12  # places between the last evaluation and the end of the plan
_NEAR = 4  # a turn in the first 1 / _NEAR of a long curve is looked at again, in that part alone


@dataclass(frozen=True)
class Turns:
    """The probability of a turn between any two of `edges`, and of `none` before the end of the plan.

    `later` is the probability that the turn, if any, comes after the last evaluation; `noise` is the standard deviation
    of one loss around the trend. `levels` are the losses at `places`, averaged in groups and without spikes upwards;
    `error` is the standard deviation of one, larger where neighbours share their noise.
    """

    edges: Sequence[float]
    shares: Sequence[float]
    none: float
    later: float
    noise: float
    places: Sequence[float]
    levels: Sequence[float]
    error: float

    def quantile(self, share: float) -> float:
        """The place by which the turn has come with that probability; the end of the plan where it has not by then."""
        total = 0.0
        for (start, end), here in zip(pairwise(self.edges), self.shares, strict=True):
            if here > 0 and total + here >= share:
                return start + (end - start) * (share - total) / here
            total += here
        return self.edges[-1]


def turns(
    steps: Sequence[float], losses: Sequence[float], seen: float, plan: float, schedule: str | None = None
) -> Turns:
    """The probability of a turn at every place, from finite losses up to `seen` of `plan` steps."""
    scale = max(map(abs, losses)) or 1.0
    weighed = _weighed(steps, [loss / scale for loss in losses], seen, plan, schedule, open_end=True)
    high = weighed.quantile(0.95)
    while len(steps) > GROUPS and weighed.later < 0.05 and high < steps[-1] / _NEAR:
        near = sum(step <= _NEAR * high for step in steps)
        steps, losses = steps[:near], losses[:near]
        weighed = _weighed(steps, [loss / scale for loss in losses], steps[-1], plan, schedule, open_end=False)
        high = weighed.quantile(0.95)
    levels = [level * scale for level in weighed.levels]
    return replace(weighed, noise=weighed.noise * scale, levels=levels, error=weighed.error * scale)


def outside(evaluations: int, turned: bool) -> float:
    """The share of the weights, wider than they need be, that is left out of the 90 % interval: set on test runs."""
    if not turned:
        return 0.45 if evaluations <= _LEAST else 0.35
    return 0.6 if evaluations < _MANY else 0.65 if evaluations <= GROUPS else 0.75


def _weighed(
    steps: Sequence[float], losses: Sequence[float], seen: float, plan: float, schedule: str | None, open_end: bool
) -> Turns:
    centres, means, size = _grouped(steps, losses)
    single = noise_variance(means)
    levels = without_spikes(means, single)
    variance = lasting_variance(levels)
    ended = open_end and plan - seen < seen / len(steps)
    odds = _odds(levels, variance, _low_later(levels, single if ended else math.inf))
    edges = [0.0, *centres[:-1], seen]
    if open_end and seen < plan:
        edges += [seen * (plan / seen) ** (at / _AHEAD) for at in range(1, _AHEAD + 1)]
    prior = [_prior(start / plan, end / plan, schedule) for start, end in pairwise(edges)]
    weights = [share * odds[min(at, len(levels))] for at, share in enumerate(prior)]
    none = (1 - math.fsum(prior)) * odds[-1] if open_end else 0.0
    total = math.fsum(weights) + none
    shares = [weight / total for weight in weights]
    later = none / total + math.fsum(shares[len(centres) :])
    noise = math.sqrt(single * size)
    kept = [*map(min, means, levels)]  # a sharp turn looks like a spike
    return Turns(edges, shares, none / total, later, noise, centres, kept, math.sqrt(variance))


def _odds(levels: Sequence[float], variance: float, low_later: Sequence[bool]) -> list[float]:
    """How well a turn before, between and after the losses fits: 1 at best, 0 if the lowest loss is elsewhere."""
    errors = misfits(levels)
    lowest = min(levels) + _LOWER * math.sqrt(variance)
    allowed = [reached <= lowest for reached in accumulate([*levels, levels[-1]], min)]
    both = [early and late for early, late in zip(allowed, low_later, strict=True)]
    allowed = both if any(both) else allowed
    least = min(error for error, possible in zip(errors, allowed, strict=True) if possible)

    def odd(error: float) -> float:
        excess = error - least
        return math.exp(-min(excess / variance / 2, 700.0)) if variance > 0 else float(excess <= 0)

    return [odd(error) if possible else 0.0 for error, possible in zip(errors, allowed, strict=True)]


def _low_later(levels: Sequence[float], variance: float) -> list[bool]:
    """For a turn before, between and after the losses: whether a mean of three from there on is near the lowest."""
    threes = [fmean(three) for three in zip(levels, levels[1:], levels[2:], strict=False)]
    if not threes:
        return [True] * (len(levels) + 1)
    clear = min(threes) + _LOWER * math.sqrt(2 * variance / 3)
    near = [level <= clear for level in accumulate(reversed(threes), min)][::-1]
    return [True] * 4 + near[1:]  # a turn lies before, in or just after the lowest three


def _prior(start: float, end: float, schedule: str | None) -> float:
    """The probability of a turn between two shares of the plan, before any evaluation, proportional to the rate."""
    rate = SHAPES[schedule]((start + end) / 2) if schedule else 1.0
    return _TURN * (_after(start) - _after(end)) * rate


def _after(share: float) -> float:
    """The probability that a run which turns does so after this share: half evenly in time, half in log time."""
    late = min(max(share, _EARLIEST), 1.0)
    after = 0.5 * (1 - late) + 0.5 * math.log(late) / math.log(_EARLIEST / 2)
    return after if share >= _EARLIEST else 1 - (1 - after) * max(share, 0.0) / _EARLIEST


def _grouped(steps: Sequence[float], losses: Sequence[float]) -> tuple[list[float], list[float], int]:
    """Means over at most `GROUPS` groups of neighbours, and how many evaluations one has; the first may have fewer."""
    count = len(steps)
    size = -(-count // GROUPS)
    cuts = [0, *range(count % size or size, count + 1, size)]
    centres = [fmean(steps[start:end]) for start, end in pairwise(cuts)]
    return centres, [fmean(losses[start:end]) for start, end in pairwise(cuts)], size
