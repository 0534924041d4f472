"""For people who keep two betas: which beta2, and what tying costs or gains. Pure Python.

The second memory that published sweeps prefer is a share of the training: about T / 32 steps, so
`beta2 = T / (T + 32)`. In those sweeps that is nearly the same as a half-life of ten million tokens (arXiv 2507.07101),
because their training lengths followed from a fixed number of tokens; where both were possible neither lost more than
0.25 %. None of these sweeps is of a small model, and in most the learning rate was that of their own tuned beta2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from oneclock.evidence.excess import EDGE, Excess, curve
from oneclock.evidence.table import EvidenceSweep, sweeps
from oneclock.rule import RECOMMENDED, positive

SHARE = 32
"""The second memory is 1 + T / 32 steps."""

HALF_LIFE = 10e6
"""Tokens after which a gradient counts half in the second average, as arXiv 2507.07101 recommends."""

FACTOR = 4.0
"""Sweeps over beta2 of this factor fewer or more steps are near."""


@dataclass(frozen=True)
class Beta2Row:
    """One sweep over beta2: its best beta2; what the recommended beta2 for its length, tying and 0.999 lose, in %."""

    source: str
    sweep: str
    weights: int | None
    steps: int
    tokens_per_batch: int | None
    lr_tuned: bool
    best_beta2: float
    loses: Excess
    tied: Excess
    torch_default: Excess


@dataclass(frozen=True)
class PairRow:
    """The recommended beta1 with a longer second memory, in the sweeps of one source near a length.

    `worse` is the mean over `sweeps` sweeps of the loss above that of the tied recommended beta, in per cent, each at
    its best learning rate; `low` and `high` are the extremes. Below zero tying costs, above zero it gains.
    """

    source: str
    sweeps: int
    steps_low: int
    steps_high: int
    beta2: float
    worse: float
    low: float
    high: float


@dataclass(frozen=True)
class TwoBetas:
    """Two betas for a training length: beta1 by the recommended rule, beta2 by published sweeps over beta2.

    `half_life_beta2` is what a half-life of ten million tokens means, None where the tokens per batch are not known.
    `rows` are the sweeps over beta2 near this length, the nearest in tokens per batch first; `extrapolated` says there
    are none. `pairs` are sweeps of tied betas that tried the recommended beta1 with another beta2 too.
    """

    beta1: float
    beta2: float
    half_life_beta2: float | None
    extrapolated: bool
    rows: tuple[Beta2Row, ...]
    pairs: tuple[PairRow, ...]


def beta2_for(steps: float) -> float:
    """beta2 = T / (T + 32), but never below the recommended beta1.

    >>> round(beta2_for(20_000), 4), round(beta2_for(300), 3)
    (0.9984, 0.904)
    """
    return max(1 - SHARE / (positive(steps, "steps") + SHARE), RECOMMENDED(steps))


def two_betas(
    steps: float, tokens_per_batch: float | None = None, found: Sequence[EvidenceSweep] | None = None, most: int = 5
) -> TwoBetas:
    """The two betas for a length, with the sweeps nearest to it in steps and in tokens per batch.

    >>> answer = two_betas(4_500, tokens_per_batch=131_072)
    >>> round(answer.beta1, 3), round(answer.beta2, 4), round(answer.half_life_beta2, 4), answer.extrapolated
    (0.906, 0.9929, 0.991, False)
    """
    beta1, beta2 = RECOMMENDED(steps), beta2_for(steps)
    near = [
        one
        for one in (sweeps() if found is None else found)
        if abs(math.log(one.steps / steps)) <= math.log(FACTOR)
        if one.optimizer in ("adam", "adamw") and curve(one) is not None
    ]
    close = [one for one in near if one.varied == "beta2"]
    close.sort(key=lambda one: _apart(one, steps, tokens_per_batch))
    half_life = None if tokens_per_batch is None else 2.0 ** (-positive(tokens_per_batch, "tokens") / HALF_LIFE)
    rows = tuple(map(_row, close[:most]))
    pairs = tuple(_pairs([one for one in near if one.varied in ("tied", "pairs")]))
    return TwoBetas(beta1, beta2, half_life, not close, rows, pairs)


def _pairs(near: Sequence[EvidenceSweep]) -> Iterator[PairRow]:
    groups: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for sweep in near:
        measured, own = curve(sweep), math.log(RECOMMENDED.one_minus_beta(sweep.steps))
        assert measured is not None  # only those with a curve are asked
        tied, best = measured.at(1 - math.exp(own)), dict[float, float]()
        for cell in sweep.cells:
            if not cell.tied and cell.loss is not None and abs(math.log(1 - cell.beta1) - own) <= EDGE:
                best[cell.beta2] = min(cell.loss, best.get(cell.beta2, math.inf))
        for beta2, loss in best.items():
            worse = 100 * (loss / measured.best.loss - 1) - tied.percent
            groups.setdefault((sweep.source, beta2), []).append((sweep.steps, worse))
    for (source, beta2), found in sorted(groups.items()):
        steps, worse = zip(*found, strict=True)
        yield PairRow(source, len(found), min(steps), max(steps), beta2, fmean(worse), min(worse), max(worse))


def _apart(sweep: EvidenceSweep, steps: float, tokens: float | None) -> float:
    apart = abs(math.log(sweep.steps / steps))
    if tokens is not None and sweep.tokens_per_batch is not None:
        apart += abs(math.log(sweep.tokens_per_batch / tokens))
    return apart


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
        best_beta2=1 - math.exp(measured.best.x),
        loses=measured.at(beta2_for(sweep.steps)),
        tied=measured.at(RECOMMENDED(sweep.steps)),
        torch_default=measured.at(0.999),
    )
