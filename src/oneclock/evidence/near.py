"""The sweeps near a training length: what a rule and default pairs lose there, and which learning rate to use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median_high, median_low

from oneclock.evidence.excess import Excess, baseline, curve
from oneclock.evidence.model import deciding
from oneclock.evidence.table import EvidenceSweep, chose, sweeps
from oneclock.rule import RECOMMENDED, Rule

PAIRS = ((0.9, 0.999), (0.9, 0.95))
"""The default betas of torch, and those of most language models."""

FACTOR = 3.0
"""Sweeps within this factor of the steps are near."""


@dataclass(frozen=True)
class NearRow:
    """The sweeps of one source near a length: what a rule and the default pairs lose there, in % above the best beta.

    `loses` and `largest` are the mean and maximum, each sweep at the rule's beta for its own length; `at_least` counts
    sweeps that do not reach that beta. `default_betas` and `language_betas` are the means of the two `PAIRS`, None if
    they were not run. `tied`: the sweeps tied the betas; otherwise they varied beta1.
    """

    source: str
    sweeps: int
    steps_low: int
    steps_high: int
    weights_low: int | None
    weights_high: int | None
    tied: bool
    lr_tuned: bool
    chose: bool
    loses: float | None
    largest: float | None
    at_least: int
    default_betas: float | None
    language_betas: float | None


def near(steps: float, rule: Rule = RECOMMENDED, evidence: Sequence[EvidenceSweep] | None = None) -> list[NearRow]:
    """The sweeps within a factor of three of a length, one row per source, the largest models first."""
    chosen = [one for one in deciding(sweeps() if evidence is None else evidence) if one.within(FACTOR, steps)]
    names = dict.fromkeys(one.source for one in chosen)
    rows = [_row([one for one in chosen if one.source == name], rule) for name in names]
    return sorted(rows, key=lambda row: -(row.weights_high or 0))


def _row(own: Sequence[EvidenceSweep], rule: Rule) -> NearRow:
    excess = [value for one in own if (value := excess_of(one, rule)) is not None]
    losses = [[one.percent for one in excess]]
    losses += [[value.percent for one in own if (value := baseline(one, *pair)) is not None] for pair in PAIRS]
    loses, default, language = (fmean(group) if group else None for group in losses)
    weights = [one.weights for one in own if one.weights is not None]
    return NearRow(
        source=own[0].source,
        sweeps=len(own),
        steps_low=min(one.steps for one in own),
        steps_high=max(one.steps for one in own),
        weights_low=min(weights, default=None),
        weights_high=max(weights, default=None),
        tied=all(one.varied == "tied" for one in own),
        lr_tuned=all(one.lr_tuned for one in own),
        chose=chose(own[0].source),
        loses=loses,
        largest=max((one.percent for one in excess), default=None),
        at_least=sum(one.at_least for one in excess),
        default_betas=default,
        language_betas=language,
    )


def excess_of(sweep: EvidenceSweep, rule: Rule) -> Excess | None:
    """What a rule loses in a sweep; None if it has no beta for so short a training."""
    measured = curve(sweep)
    assert measured is not None  # see `deciding`
    try:
        return measured.at(rule(sweep.steps))
    except ValueError:
        return None


@dataclass(frozen=True)
class RateAdvice:
    """By what factor the best learning rate changed from a default pair to the recommended beta, near a length.

    `factor` is the median over the sweeps, `low` and `high` the extremes. Learning rates were a factor of two apart.
    """

    beta1: float
    beta2: float
    factor: float
    low: float
    high: float
    sweeps: int


def lr_advice(steps: float, evidence: Sequence[EvidenceSweep] | None = None) -> list[RateAdvice]:
    """One line per default pair, from tuned sweeps within a factor of three; empty if there are none."""
    advice = []
    for beta1, beta2 in PAIRS:
        factors = [
            factor
            for sweep in (sweeps() if evidence is None else evidence)
            if sweep.lr_tuned and sweep.varied in ("tied", "pairs") and sweep.within(FACTOR, steps)
            if (factor := _factor(sweep, beta1, beta2)) is not None
        ]
        if factors:
            middle = math.sqrt(median_low(factors) * median_high(factors))
            advice.append(RateAdvice(beta1, beta2, middle, min(factors), max(factors), len(factors)))
    return advice


def _factor(sweep: EvidenceSweep, beta1: float, beta2: float) -> float | None:
    """The best learning rate at the swept tied beta nearest to the recommended one, over that of the pair.

    None where one of them is the smallest or largest that was tried: the best might lie beyond.
    """
    wanted = math.log(RECOMMENDED.one_minus_beta(sweep.steps))
    tied = [cell for cell in sweep.cells if cell.tied and cell.loss is not None]
    nearest = min((cell.beta1 for cell in tied), key=lambda beta: abs(math.log(1 - beta) - wanted), default=None)
    pair, ours = _best_lr(sweep, beta1, beta2), _best_lr(sweep, nearest, nearest)
    return None if pair is None or ours is None else ours / pair


def _best_lr(sweep: EvidenceSweep, beta1: float | None, beta2: float | None) -> float | None:
    """The learning rate of a pair's cell with the lowest loss; None at the edge of those tried."""
    cells = [cell for cell in sweep.cells if (cell.beta1, cell.beta2) == (beta1, beta2)]
    tried = [cell.lr for cell in cells if cell.lr is not None]
    best = min(((c.loss, c.lr) for c in cells if c.loss is not None), key=lambda one: one[0], default=(None, None))[1]
    return None if best in (min(tried, default=None), max(tried, default=None)) else best
