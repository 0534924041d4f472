"""The answer to "I train for N steps; which beta?". Pure Python: neither torch, numpy nor pandas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oneclock.evidence.model import Range, expected, known_range, range_from, range_numbers
from oneclock.evidence.near import NearRow, RateAdvice, lr_advice, near
from oneclock.evidence.table import EvidenceSweep, sweeps
from oneclock.evidence.untied import TwoBetas, two_betas
from oneclock.rule import CALIBRATED, NAMED, RECOMMENDED, REFRESHES, Refresh, Rule, int_if_whole, positive, resolve_rule

MEASURED = (150, 2_431_000)
"""The shortest and the longest training, in steps, of all known sweeps over beta1 or tied betas."""

FEW_TASKS = 3
"""With fewer tasks than this near a length, the range says little."""


@dataclass(frozen=True)
class Recommendation:
    """The beta for a training of `steps` optimizer steps by `rule`, and what the evidence says of it.

    Attributes:
        rule: The name of the rule, "recommended", "paper" or another.
        beta: What an optimizer takes as beta1 and beta2.
        memory_horizon, refresh_count: 1 / (1 - beta), in steps, and how often that is renewed during the training.
        paper_beta: The beta of the paper's rule; None up to 1,000 steps, where that rule has none.
        beta_low, beta_high: Betas between them are expected to lose at most 0.2 % of the loss more than the
            recommended beta.
        extrapolated: No known sweep was that short or that long.
        tasks: How many tasks have sweeps near this length. A task counts less the further away its sweeps are, so this
            is no whole number: (sum of weights)^2 / (sum of squared weights).
        loses: How much more the recommended beta is expected to lose than the best one of half to twice its memory,
            in per cent. `loses_high` is the largest that the 95 % CIs of all of them allow.
        notes: Sentences of caution.
    """

    steps: float
    rule: str
    beta: float
    memory_horizon: float
    refresh_count: float
    paper_beta: float | None
    beta_low: float
    beta_high: float
    extrapolated: bool
    tasks: float
    loses: float
    loses_high: float
    notes: tuple[str, ...] = ()


def recommend(
    steps: float, rule: Rule | str | None = None, *, evidence: Sequence[EvidenceSweep] = ()
) -> Recommendation:
    """The beta for a training that is useful for `steps` optimizer steps.

    Args:
        steps: The useful training time in optimizer steps, any number above 0.
        rule: "recommended" (the default), "paper", another rule in its text form (`sqrt:7`, `refresh:500`,
            `fixed:0.95`), or a rule value. ValueError if it has no beta for so few steps.
        evidence: Sweeps of your own, as `oneclock.evidence.table.read_sweeps` reads them. They change the range and
            what is expected; the rule stays.

    >>> answer = recommend(4_000)
    >>> round(answer.beta, 3), round(answer.memory_horizon, 1), answer.paper_beta
    (0.9, 10.0, 0.75)
    """
    steps, chosen = int_if_whole(positive(steps, "steps")), resolve_rule(rule)
    beta = chosen(steps)
    one_minus_beta = chosen.one_minus_beta(steps)
    betas = known_range(steps)
    if evidence:
        betas = range_from(steps, *range_numbers(expected(steps, (*sweeps(), *evidence))))
    return Recommendation(
        steps=steps,
        rule=chosen.name,
        beta=beta,
        memory_horizon=1 / one_minus_beta,
        refresh_count=one_minus_beta * steps,
        paper_beta=NAMED["paper"](steps) if steps > REFRESHES else None,
        beta_low=betas.low,
        beta_high=betas.high,
        extrapolated=not MEASURED[0] <= steps <= MEASURED[1],
        tasks=betas.tasks,
        loses=betas.loses,
        loses_high=betas.loses_high,
        notes=tuple(_notes(steps, beta, chosen, betas)),
    )


def _notes(steps: float, beta: float, rule: Rule, betas: Range) -> Iterator[str]:
    low, high = MEASURED
    if not low <= steps <= high:
        yield f"extrapolated: known sweeps cover {low:,} to {high:,} steps"
    elif betas.tasks < FEW_TASKS:
        yield "few sweeps are this long: the range says little"
    if rule != RECOMMENDED and not betas.low <= beta <= betas.high:
        yield (
            f"this beta lies outside the range that the evidence allows, {format_beta(betas.low)} to "
            f"{format_beta(betas.high)}; the recommended beta is {format_beta(RECOMMENDED(steps))}"
        )
    low, high = CALIBRATED
    if isinstance(rule, Refresh) and not low <= steps <= high:
        side = f"below {low:,}" if steps < low else f"above {high:,}"
        yield f"{steps:,} steps is {side}: the paper's evidence covers {low:,} to {high:,} steps"


@dataclass(frozen=True)
class Evidence:
    """The evidence behind an answer: sweeps near its length, learning rates, and an answer with two betas."""

    near: tuple[NearRow, ...]
    learning_rate: tuple[RateAdvice, ...]
    two_betas: TwoBetas


def evidence_for(
    steps: float,
    rule: Rule | str | None = None,
    *,
    tokens_per_batch: float | None = None,
    evidence: Sequence[EvidenceSweep] = (),
) -> Evidence:
    """The evidence behind `recommend(steps, rule)`."""
    every = (*sweeps(), *evidence)
    rows = tuple(near(steps, resolve_rule(rule), every))
    return Evidence(rows, tuple(lr_advice(steps, every)), two_betas(steps, tokens_per_batch, every))


def format_beta(beta: float, digits: int = 4) -> str:
    """A beta with this many digits of 1 - beta, so that a long memory is never printed as 1.

    >>> format_beta(0.95), format_beta(1 - 1 / 6), format_beta(1 - 1e-7), format_beta(0.9528, 2)
    ('0.95', '0.8333', '0.9999999', '0.953')
    """
    decimals = digits if beta < 0.9 or beta >= 1 else digits - 1 - math.floor(math.log10(1 - beta))
    return f"{beta:.{decimals}f}".rstrip("0").rstrip(".") or "0"


def short_beta(beta: float) -> str:
    """A beta for people: two digits of 1 - beta, and at least two of beta.

    >>> [short_beta(beta) for beta in (0.68377, 0.9, 0.94377, 0.99822, 0.0)]
    ['0.68', '0.9', '0.944', '0.9982', '0']
    """
    return format_beta(beta, 2)
