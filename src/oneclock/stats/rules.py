"""Rules side by side: each at its own beta in every sweep, by its excess loss over the best beta, paired by seed.

Two rules are compared by random effects over sweeps: those with little noise count for more, and those that disagree
widen the CI (after Paule and Mandel, Hartung and Knapp). CIs of several comparisons hold together (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneclock.rule import Rule
from oneclock.runs.noise import t_reach
from oneclock.runs.paired import LEVEL, Difference, Interval
from oneclock.stats.experiments import FittedSweep, rule_beta

NEAR = 0.01
"""A loss less than this share above the best counts as near it."""


@dataclass(frozen=True)
class RuleRow:
    """What a rule loses over the best beta of every experiment, at its own beta for the planned steps.

    `betas` and `excesses` follow `Analysis.experiments`: None where the rule has no beta, or nothing near it was
    measured. The figures are over the `measured` ones; `cvar` is the mean of the worst quarter, `within` counts 1 %.
    """

    name: str
    betas: tuple[float | None, ...]
    excesses: tuple[float | None, ...]
    measured: int
    mean: float | None
    interval: Interval | None
    max: float | None
    cvar: float | None
    within: int


@dataclass(frozen=True)
class RuleComparison:
    """One rule against another: `difference` is the mean excess of the first over the second, as a share of the loss.

    It is over the `differing` of `experiments` sweeps in which the two have different betas and the noise is known.
    `better` and `worse` count the sweeps in which the first is significantly so by that sweep alone.
    """

    first: str
    second: str
    experiments: int
    differing: int
    difference: float
    interval: Interval | None
    better: int
    worse: int

    @property
    def significant(self) -> bool:
        """Whether the CI of the difference excludes zero."""
        return self.interval is not None and 0 not in self.interval


@dataclass(frozen=True)
class Outcome:
    """A rule's beta in every sweep; None where it has none."""

    name: str
    betas: tuple[float | None, ...]


def outcome(rule: Rule, sweeps: Sequence[FittedSweep]) -> Outcome:
    """The rule's betas in every sweep, at the planned steps."""
    return Outcome(rule.name, tuple(rule_beta(rule, sweep.steps) for sweep in sweeps))


def mean_max_cvar(gaps: np.ndarray) -> np.ndarray:
    """(mean, max, CVaR) along the last axis, stacked in front; CVaR is the mean of the worst quarter, rounded up.

    >>> mean_max_cvar(np.array([1.0, 2.0, 3.0, 4.0, 6.0]))
    array([3.2, 6. , 5. ])
    """
    count = math.ceil(gaps.shape[-1] / 4)
    worst = np.partition(gaps, -count, axis=-1)[..., -count:]
    return np.stack([gaps.mean(axis=-1), gaps.max(axis=-1), worst.mean(axis=-1)])


def rule_row(one: Outcome, sweeps: Sequence[FittedSweep]) -> RuleRow:
    """The rule's excess loss in every sweep, and its mean, largest and CVaR."""
    shares = [sweep.shares(beta) for sweep, beta in zip(sweeps, one.betas, strict=True)]
    excesses = [None if own is None else sweep.excess_at(own) for sweep, own in zip(sweeps, shares, strict=True)]
    measured = [excess for excess in excesses if excess is not None]
    values = np.array([excess.value for excess in measured])
    mean, largest, tail = map(float, mean_max_cvar(values)) if measured else (None, None, None)
    return RuleRow(
        name=one.name,
        betas=one.betas,
        excesses=tuple(None if excess is None else excess.value for excess in excesses),
        measured=len(measured),
        mean=mean,
        interval=mean_interval(measured),
        max=largest,
        cvar=tail,
        within=int((values < NEAR).sum()),
    )


def mean_interval(excesses: Sequence[Difference]) -> Interval | None:
    """The CI of the mean excess over sweeps like these; None for a single sweep.

    It spans the t interval and the mean of the sweeps' own CIs: an excess is measured from the lowest of noisy losses,
    which makes it too large in every sweep, and more sweeps do not average that out.

    >>> mean_interval([Difference(0.01, Interval(-0.01, 0.03)), Difference(0.012, Interval(0.0, 0.02))])
    Interval(lower=0.0, upper=0.025, level=0.95)
    """
    values = np.array([one.value for one in excesses])
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    half = t_reach(LEVEL, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    own = [one.interval or Interval(one.value, one.value) for one in excesses]
    low, high = np.mean([(one.lower, one.upper) for one in own], axis=0).tolist()
    mean = float(values.mean())
    return Interval(max(min(mean - half, low), 0.0), max(mean + half, high))


def compare(pairs: Sequence[tuple[Outcome, Outcome]], sweeps: Sequence[FittedSweep]) -> tuple[RuleComparison, ...]:
    """Rules two at a time, with CIs that hold for all comparisons together."""
    level = 1 - (1 - LEVEL) / max(len(pairs), 1)
    return tuple(filter(None, (_compare(*pair, sweeps, level) for pair in pairs)))


def _compare(first: Outcome, second: Outcome, sweeps: Sequence[FittedSweep], level: float) -> RuleComparison | None:
    pairs = [(one, one.mixture(a), one.mixture(b)) for one, a, b in zip(sweeps, first.betas, second.betas, strict=True)]
    both = [(sweep.fit, ours, theirs) for sweep, ours, theirs in pairs if ours and theirs]
    if not both:
        return None
    estimates = [(*fit.estimate(ours, theirs), fit.noise[0].spread) for fit, ours, theirs in both if ours != theirs]
    with_noise = [one for one in estimates if one[2] > 0]
    values, errors, freedoms, spreads = zip(*with_noise, strict=True) if with_noise else ((),) * 4
    mean, interval = random_effects(values, errors, spreads, freedoms, level)
    if not with_noise and estimates:
        mean = math.fsum(one[0] for one in estimates) / len(estimates)
    clear = [value for value, error, freedom, _ in with_noise if abs(value) > t_reach(LEVEL, freedom) * error]
    return RuleComparison(
        first=first.name,
        second=second.name,
        experiments=len(both),
        differing=len(with_noise),
        difference=math.expm1(mean),
        interval=None if interval is None else Interval(math.expm1(interval.lower), math.expm1(interval.upper), LEVEL),
        better=sum(value < 0 for value in clear),
        worse=sum(value > 0 for value in clear),
    )


def random_effects(
    values: Sequence[float],
    errors: Sequence[float],
    spreads: Sequence[float],
    freedoms: Sequence[float],
    level: float = LEVEL,
) -> tuple[float, Interval | None]:
    """The mean of effects that differ between sweeps, and its CI; `spreads` are the noise of one run.

    The error is small wherever two rules have almost the same beta. Such a sweep must not outweigh the others: for its
    weight the error is at least that of a mean of three runs.

    >>> mean, interval = random_effects([0.1, 0.3], [0.1, 0.1], [0.1, 0.1], [8, 8])
    >>> round(mean, 3), interval.lower < 0 < interval.upper
    (0.2, True)
    """
    if not values:
        return 0.0, None
    value, error = np.array(values), np.array(errors)
    if len(value) == 1:
        half = t_reach(level, freedoms[0]) * errors[0]
        return values[0], Interval(values[0] - half, values[0] + half, level)
    variance = np.maximum(error**2, np.array(spreads) ** 2 / 3)
    weight = 1 / (variance + _between(value, variance))
    weight /= weight.sum()
    mean = float(weight @ value)
    alike = float(1 / (weight @ weight))  # the number of sweeps of equal weight with the same information
    scatter = float(weight**2 @ (value - mean) ** 2) / max(1 - 1 / alike, 1e-9)
    plain = float(weight @ (value - mean) ** 2) / (len(value) - 1)
    half = t_reach(level, max(alike - 1, 1.0)) * math.sqrt(max(scatter, plain, float(weight**2 @ error**2)))
    return mean, Interval(mean - half, mean + half, level)


def _between(value: np.ndarray, variance: np.ndarray) -> float:
    """The variance of the effects between sweeps, after Paule and Mandel: 0 if the errors explain their scatter."""

    def surplus(between: float) -> float:
        weight = 1 / (variance + between)
        return float(weight @ (value - weight @ value / weight.sum()) ** 2) - (len(value) - 1)

    low, high = 0.0, 4 * float(np.ptp(value)) ** 2
    if surplus(low) <= 0:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if surplus(middle) > 0 else (low, middle)
    return high
