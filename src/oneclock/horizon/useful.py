"""The useful horizon: where validation stopped improving, or will, with a 90 % interval. Pure Python.

`turns` weighs every place where the curve may have turned or may yet turn. A turn counts if those weights rule out that
the run still improves, at least three evaluations follow, and the rise since is larger than the noise. Otherwise the
answer is the plan, or for a run under way the turn that is more likely than not. See `docs/research/horizon.md`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean, median

from oneclock.horizon.curve import Curve
from oneclock.horizon.schedule import SHAPES
from oneclock.horizon.turns import Turns, outside, turns
from oneclock.horizon.unimodal import misfits
from oneclock.rule import int_if_whole

LATER = 3  # a turn counts only where at least so many later evaluations confirm it
_STILL = 0.05  # a turn counts only where the run still improves with less than this probability
_CLEAR = 3.0  # standard errors: a turn counts only where the rise since is larger
_WAVE = 2.25  # a turn counts only where the loss rose by so many times what it rose before, or fell since
_ABOVE = 1.5  # noise standard deviations: and where so many later losses lie higher by that


@dataclass(frozen=True)
class UsefulHorizon:
    """How long a run is useful, in the unit of its curve: `steps`, with the 90 % interval `low` to `high`.

    `turned` says that a turn was seen and confirmed. Otherwise `steps` is the plan, unless the run is under way and a
    turn is more likely than not. `stays` is the probability that the run stays useful to the end of its plan; `turn` is
    where it most likely turns if it does not. `seen` is the last evaluation's step, `noise` the standard deviation of
    one loss around the trend.
    """

    steps: float
    low: float
    high: float
    turned: bool
    stays: float
    turn: float
    plan: float
    seen: float
    evaluations: int
    noise: float

    @property
    def finished(self) -> bool:
        """Whether the curve reaches the end of the plan, to within one distance between evaluations."""
        return self.plan - self.seen < self.seen / self.evaluations


def useful_horizon(curve: Curve, plan: float | None = None, schedule: str | None = None) -> UsefulHorizon:
    """How long a run stays useful: to its turn where one is confirmed, else to the end of its plan.

    Args:
        curve: The validation curve, or what there is of it so far.
        plan: The planned length of training (default: the last evaluation). A curve may go beyond it.
        schedule: The learning rate over the plan: "constant", "cosine", "linear" or "wsd" (constant, with a fall to
            zero in the last fifth). Leave it out if it is not known.

    Raises:
        ValueError: If the plan is not a finite number above 0, the schedule is unknown, or the curve ends at step 0.

    >>> steps = range(500, 20_500, 500)
    >>> answer = useful_horizon(Curve(steps, [abs(step - 10_000) / 10_000 + 1 for step in steps]))
    >>> answer.turned, round(answer.steps, -3)
    (True, 10000)
    """
    if plan is not None and not 0 < plan < math.inf:
        raise ValueError(f"the plan must be a finite number of steps above 0, got {plan!r}")
    seen = curve.steps[-1]
    if not seen > 0:
        raise ValueError("the curve ends at step 0: there is no horizon in it")
    length = max(seen, plan or seen)
    if schedule is not None and schedule not in SHAPES:
        raise ValueError(f"the schedule must be one of {', '.join(SHAPES)}, got {schedule!r}; leave out any other")
    answer = _judge(curve, length, schedule)
    if not answer.finished and _falls_again(curve, answer.noise):
        lowest = curve.steps.index(curve.best_step) + 1
        before = _judge(Curve(curve.steps[:lowest], curve.losses[:lowest]), length, schedule)
        answer = replace(before, seen=seen, evaluations=len(curve.steps), noise=answer.noise)
    return answer


def _judge(curve: Curve, length: float, schedule: str | None) -> UsefulHorizon:
    seen, lowest = curve.steps[-1], curve.best_step
    kept = [point for point in zip(curve.steps, curve.losses, strict=True) if math.isfinite(point[1])]
    weights = turns([step for step, _ in kept], [loss for _, loss in kept], seen, length, schedule)
    middle = max(weights.quantile(0.5), kept[0][0])  # what came before the first evaluation is not known
    tails = outside(len(kept), turned=False) / 2
    low, high = min(weights.quantile(tails), lowest), max(weights.quantile(1 - tails), lowest, middle)
    enough = sum(place > max(middle, lowest) for place in weights.places) >= LATER
    turned = enough and weights.later < _STILL and _has_risen(weights, low, high) and not _is_wave(weights, middle)
    turn = _readable(middle if turned else weights.quantile((1 - weights.none) / 2))
    expected = turned or (weights.none < 0.5 and length - seen >= seen / len(curve.steps))
    tails = outside(len(kept), turned=True) / 2 if turned else 2 * tails
    low, high = min(weights.quantile(tails), lowest), max(weights.quantile(1 - tails), lowest)
    low = 0.0 if lowest == kept[0][0] else low  # what came before the first evaluation is not known
    return UsefulHorizon(
        steps=turn if expected else length,
        low=min(_readable(low), lowest, turn if expected else length),
        high=max(_readable(high), lowest, turn) if turned else length,
        turned=turned,
        stays=0.0 if turned else weights.none,
        turn=turn,
        plan=length,
        seen=seen,
        evaluations=len(curve.steps),
        noise=weights.noise,
    )


def _falls_again(curve: Curve, noise: float) -> bool:
    """Whether the losses since the lowest one come down again, as after a warm restart: they may reach a new low."""
    since = [loss for loss in curve.losses[curve.losses.index(curve.best_loss) + 1 :] if math.isfinite(loss)]
    scale = max(map(abs, since), default=0.0) or 1.0  # squares of very large losses would overflow
    misfit = misfits([loss / scale for loss in since])
    return math.sqrt(max(misfit[0] - misfit[-1], 0.0)) > _CLEAR * noise / scale


def _has_risen(weights: Turns, low: float, high: float) -> bool:
    """Whether the losses after the interval of the turn lie clearly above those in it, and at least three of them do.

    Their median counts, which one or two high losses do not move. The lowest loss is left out, and an interval of one
    or two losses gets its neighbours: where noise is all there is, the lowest of many losses lies far below the others.
    """
    levels, lowest = weights.levels, min(weights.levels)
    first, end = bisect_left(weights.places, low), bisect_right(weights.places, high)
    after = sorted(levels[min(end, max(len(levels) - LATER, 0)) :])
    near = levels[first:end] if end - first >= LATER else levels[max(first - 1, 0) : end + 1]
    near = [level for level in near if level > lowest] or [lowest]
    clear = median(after) - fmean(near) > _CLEAR * weights.error * math.sqrt(1 / len(after) + 1 / len(near))
    third = after[-min(LATER, len(after))]
    return clear and third - fmean(levels[first:end] or [lowest]) > _ABOVE * weights.error


def _is_wave(weights: Turns, turn: float) -> bool:
    """Whether means over three losses rise after the turn no higher than they rose before it, or fell after it."""
    levels = weights.levels
    smooth = [fmean(three) for three in zip(levels, levels[1:], levels[2:], strict=False)]
    smooth = smooth if len(levels) > 3 * LATER else [*levels]
    at = bisect_right(weights.places, turn)
    before, after = smooth[: max(at - 2, 0)], smooth[at:] or smooth[-1:]
    rises = [level - low for level, low in zip(before, accumulate(before, min), strict=True)]
    falls = [high - level for level, high in zip(after, accumulate(after, max), strict=True)]
    near = levels[max(at - 2, 0) : at + 1]
    return max(after) - fmean(near) <= _WAVE * max([*rises, *falls])


def _readable(value: float) -> float:
    """Three digits: nothing finer is known."""
    return int_if_whole(float(f"{max(value, 0.0):.3g}"))
