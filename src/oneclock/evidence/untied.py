"""For people who keep two betas: which beta2, and what tying costs or gains. Pure Python.

The second memory that published sweeps prefer is about T / 32 steps. In those sweeps that is nearly a half-life of ten
million tokens (arXiv 2507.07101); where both were possible, neither lost more than 0.25 %. None of these sweeps is of a
small model, and most used the learning rate of their own tuned beta2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneclock.evidence.excess import EDGE, Excess, curve
from oneclock.evidence.model import UNKNOWN_SE, Tasks, t_quantile
from oneclock.evidence.table import EvidenceSweep, sweeps
from oneclock.rule import RECOMMENDED, positive

SHARE = 32
"""The second memory is 1 + T / 32 steps."""

HALF_LIFE = 10e6
"""Tokens after which a gradient counts half in the second average, as arXiv 2507.07101 recommends."""

FACTOR = 4.0
"""Sweeps over beta2 within this factor of the steps are near."""

FEWEST = 3
"""Values of beta2 that a sweep must have tried to say what tying costs."""


@dataclass(frozen=True)
class Beta2Row:
    """One sweep over beta2, of so many `values`: the best, and what others lose, in %.

    `loses` is of the recommended beta2 for its length, `torch_default` of 0.999, `tied` of a beta2 equal to the
    recommended beta; beta1 stays at what the sweep used.
    """

    source: str
    sweep: str
    weights: int | None
    steps: int
    tokens_per_batch: int | None
    lr_tuned: bool
    values: int
    best_beta2: float
    loses: Excess
    tied: Excess
    torch_default: Excess


@dataclass(frozen=True)
class TyingCost:
    """What tying costs near a length: the loss of tied betas above that of (beta1, beta2), in per cent.

    In sweeps over beta2 it is the loss of a beta2 as short as the recommended beta; beta1 was held, mostly near 0.9.
    `low` and `high` are the 95 % CI of the random-effects mean over `tasks` tasks. Below zero tying gains.
    """

    percent: float
    low: float
    high: float
    tasks: int


@dataclass(frozen=True)
class TwoBetas:
    """Two betas for a training length: beta1 by the recommended rule, beta2 by published sweeps over beta2.

    `half_life_beta2` is what a half-life of ten million tokens means, None if the tokens per batch are not known.
    `rows` are the sweeps over beta2 near this length, the nearest first; `extrapolated` says there are none. `tying` is
    what these and sweeps of tied betas with another beta2 say, None with fewer than two tasks.
    """

    beta1: float
    beta2: float
    half_life_beta2: float | None
    extrapolated: bool
    rows: tuple[Beta2Row, ...]
    tying: TyingCost | None


def beta2_for(steps: float) -> float:
    """beta2 = T / (T + 32), but never below the recommended beta1."""
    return max(1 - SHARE / (positive(steps, "steps") + SHARE), RECOMMENDED(steps))


def two_betas(
    steps: float, tokens_per_batch: float | None = None, evidence: Sequence[EvidenceSweep] | None = None, most: int = 5
) -> TwoBetas:
    """The two betas for a length, with the sweeps nearest to it in steps and in tokens per batch.

    >>> answer = two_betas(4_500, tokens_per_batch=131_072)
    >>> round(answer.beta1, 3), round(answer.beta2, 4), round(answer.half_life_beta2, 4), answer.extrapolated
    (0.906, 0.9929, 0.991, False)
    """
    beta1, beta2 = RECOMMENDED(steps), beta2_for(steps)
    every = sweeps() if evidence is None else evidence
    near = [one for one in every if one.within(FACTOR, steps) and one.of_adam and curve(one)]
    over_beta2 = [one for one in near if one.varied == "beta2"]
    over_beta2.sort(key=lambda one: _distance(one, steps, tokens_per_batch))
    half_life = None if tokens_per_batch is None else 2.0 ** (-positive(tokens_per_batch, "tokens") / HALF_LIFE)
    rows = tuple(map(_row, over_beta2[:most]))
    return TwoBetas(beta1, beta2, half_life, not over_beta2, rows, _tying(steps, near))


def _tying(steps: float, near: Sequence[EvidenceSweep]) -> TyingCost | None:
    costs = [(one, cost) for one in near if (cost := (_beta2_cost if one.varied == "beta2" else _pair_cost)(one))]
    names = {one.task for one, _ in costs}
    if len(names) < 2 or beta2_for(steps) == RECOMMENDED(steps):
        return None
    tasks = Tasks(steps, [one for one, _ in costs])
    mean, se = tasks.pooled([(percent, error**2) for _, (percent, error) in costs])
    half = se * t_quantile(tasks.count - 1)
    return TyingCost(mean, mean - half, mean + half, len(names))


def _beta2_cost(sweep: EvidenceSweep) -> tuple[float, float] | None:
    """What the recommended beta as beta2 costs in a sweep over beta2, and its standard error; beta1 is the sweep's.

    None of fewer than three values of beta2: a straight line between two of them says little of what lies between.
    """
    measured = curve(sweep)
    if measured is None or len(measured.points) < FEWEST:
        return None
    tied, apart = measured.at(RECOMMENDED(sweep.steps)), measured.at(beta2_for(sweep.steps))
    return tied.percent - apart.percent, math.hypot(tied.se or UNKNOWN_SE, apart.se or UNKNOWN_SE)


def _pair_cost(sweep: EvidenceSweep) -> tuple[float, float] | None:
    """What tying costs in a sweep that tried the recommended beta1 with a longer beta2, and its standard error.

    None of a sweep over beta1: it has no tied betas.
    """
    measured, own = curve(sweep), math.log(RECOMMENDED.one_minus_beta(sweep.steps))
    assert measured is not None  # only those with a curve are asked
    tied = measured.at(1 - math.exp(own))
    pairs: dict[float, tuple[float, float]] = {}  # by log(1 - beta2), the lowest loss and its standard error
    for cell in sweep.cells:
        x, beside = math.log(1 - cell.beta2), abs(math.log(1 - cell.beta1) - own) <= EDGE
        if beside and not cell.tied and x < own - EDGE and cell.loss is not None:
            best, se = measured.best.loss, cell.se
            loss = 100 * (cell.loss / best - 1), UNKNOWN_SE if not se else 100 * se / best
            pairs[x] = min(pairs.get(x, loss), loss, key=lambda one: one[0])
    if sweep.varied not in ("tied", "pairs") or not pairs or tied.at_least:
        return None
    tied_se = tied.se or UNKNOWN_SE
    points = sorted([(own, (tied.percent, tied_se)), *pairs.items()], reverse=True)
    x = max(math.log(1 - beta2_for(sweep.steps)), points[-1][0])
    (x1, (one, se1)), (x2, (two, se2)) = next(pair for pair in itertools.pairwise(points) if pair[1][0] <= x)
    share = (x1 - x) / (x1 - x2)
    return tied.percent - one - share * (two - one), math.hypot(tied_se, (1 - share) * se1, share * se2)


def _distance(sweep: EvidenceSweep, steps: float, tokens: float | None) -> float:
    own = sweep.tokens_per_batch
    return abs(math.log(sweep.steps / steps)) + (abs(math.log(own / tokens)) if tokens and own else 0)


def _row(sweep: EvidenceSweep) -> Beta2Row:
    measured = curve(sweep)
    assert measured is not None  # only those with a curve are asked
    return Beta2Row(
        source=sweep.source,
        sweep=sweep.name,
        weights=sweep.weights,
        steps=sweep.steps,
        tokens_per_batch=sweep.tokens_per_batch,
        lr_tuned=sweep.lr_tuned,
        values=len(measured.points),
        best_beta2=1 - math.exp(measured.best.x),
        loses=measured.at(beta2_for(sweep.steps)),
        tied=measured.at(RECOMMENDED(sweep.steps)),
        torch_default=measured.at(0.999),
    )
