"""What candidate rules lose in the sweeps of the evidence base: by source, by length, and by the paper's protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from oneclock.evidence.excess import Excess
from oneclock.evidence.model import deciding
from oneclock.evidence.near import excess_of
from oneclock.evidence.table import EvidenceSweep, chose, sweeps
from oneclock.lab.paper.published import losses_study
from oneclock.rule import RECOMMENDED, Fixed, PiecewisePower, Refresh, Rule, nearest_beta

CANDIDATES: Mapping[str, Rule] = {
    "recommended": RECOMMENDED,
    "0.9": Fixed(0.9),
    "0.944": Fixed(0.94377),
    "paper": Refresh(),
    "former": PiecewisePower(6_000, 0.2),
}
"""Rules side by side; `former` was recommended before the square root."""

LENGTHS = ((1, 500), (500, 2_000), (2_000, 8_000), (8_000, 32_000), (32_000, 128_000), (128_000, 10_000_000))
"""Ranges of planned steps, the upper end left out."""


@dataclass(frozen=True)
class Loss:
    """What one rule loses over a group of sweeps, in per cent above the best beta of each: mean, largest, CVaR 25 %.

    `answered` counts the sweeps for whose length the rule has a beta. `at_least` counts those that do not reach that
    beta: their loss is a lower bound. Figures are None if nothing is answered.
    """

    answered: int
    at_least: int
    mean: float | None
    largest: float | None
    cvar: float | None


@dataclass(frozen=True)
class Group:
    """A group of sweeps and what every candidate loses in it; `chose` says whether any of it chose the rule."""

    name: str
    sweeps: int
    tasks: int
    chose: bool
    losses: Mapping[str, Loss]


def by_source(evidence: Sequence[EvidenceSweep] | None = None, rules: Mapping[str, Rule] = CANDIDATES) -> list[Group]:
    """One group per source, in the order of the table.

    >>> next(group for group in by_source() if group.name == "marek-30m").sweeps
    7
    """
    chosen = deciding(sweeps() if evidence is None else evidence)
    names = list(dict.fromkeys(sweep.source for sweep in chosen))
    return [group(name, [one for one in chosen if one.source == name], rules) for name in names]


def by_steps(evidence: Sequence[EvidenceSweep] | None = None, rules: Mapping[str, Rule] = CANDIDATES) -> list[Group]:
    """One group per range of planned steps, and below each its sources that chose nothing."""
    chosen = deciding(sweeps() if evidence is None else evidence)
    groups = []
    for low, high in LENGTHS:
        own = [one for one in chosen if low <= one.steps < high]
        tests = [one for one in own if not chose(one.source)]
        span = f"{low:,} to {high:,}" if high < LENGTHS[-1][1] else f"{low:,} or more"
        if own:
            groups.append(group(span, own, rules))
        if tests and len(tests) < len(own):
            groups.append(group("of them tests", tests, rules))
    return groups


def in_all(evidence: Sequence[EvidenceSweep] | None = None, rules: Mapping[str, Rule] = CANDIDATES) -> list[Group]:
    """All sweeps that took part in choosing the rule, and all that did not."""
    chosen = deciding(sweeps() if evidence is None else evidence)
    parts = (("all that chose", True), ("all tests", False))
    return [group(name, [one for one in chosen if chose(one.source) == part], rules) for name, part in parts]


def by_protocol(rules: Mapping[str, Rule] = CANDIDATES) -> Group:
    """The paper's eleven experiments by its own protocol: plain means over seeds, every rule at T_ES and projected to
    the grid.

    >>> [round(number, 2) for number in (by_protocol().losses["paper"].mean, by_protocol().losses["paper"].cvar)]
    [0.31, 0.71]
    """
    eleven = losses_study().sweeps
    losses: dict[str, list[Excess]] = {name: [] for name in rules}
    for sweep in eleven:
        means = {beta: fmean(run.loss for run in sweep.tied if run.tied_beta == beta) for beta in sweep.betas}
        for name, rule in rules.items():
            beta = nearest_beta(rule(sweep.t_es or math.nan), sweep.betas)
            losses[name].append(Excess(100 * (means[beta] / min(means.values()) - 1), False, None))
    return Group("paper at T_ES", len(eleven), len(eleven), True, {name: _risk(own) for name, own in losses.items()})


def group(name: str, own: Sequence[EvidenceSweep], rules: Mapping[str, Rule] = CANDIDATES) -> Group:
    """A group of sweeps by its name."""
    losses = {rule: _loss(own, function) for rule, function in rules.items()}
    return Group(name, len(own), len({one.task for one in own}), any(chose(one.source) for one in own), losses)


def _loss(own: Sequence[EvidenceSweep], rule: Rule) -> Loss:
    return _risk([excess for sweep in own if (excess := excess_of(sweep, rule)) is not None])


def _risk(excess: Sequence[Excess]) -> Loss:
    values = sorted((one.percent for one in excess), reverse=True)
    if not values:
        return Loss(0, 0, None, None, None)
    worst = values[: math.ceil(len(values) / 4)]
    return Loss(
        len(values),
        sum(one.at_least for one in excess),
        fmean(values),
        values[0],
        fmean(worst),
    )
