"""Why this rule: rules with one constant, fitted and tested with every source left out in turn. Pure Python.

The expected loss of a rule is the mean over tasks of its mean excess loss over their sweeps. A rule whose beta lies
outside a sweep is charged along the sweep's last line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oneclock.evidence.excess import curve
from oneclock.evidence.model import MARGIN, UNKNOWN_SE, deciding, pooled, t_quantile
from oneclock.evidence.table import EvidenceSweep, sweeps
from oneclock.rule import RECOMMENDED

Memory = Callable[[float], float]
"""Steps of training -> steps of memory."""

FAMILIES: Mapping[str, tuple[Callable[[float], Memory], tuple[float, ...]]] = {
    "1 + sqrt(T) / c": (lambda c: lambda t: 1 + math.sqrt(t) / c, tuple(3 + 0.25 * k for k in range(45))),
    "1 + T ** c": (lambda c: lambda t: 1 + t**c, tuple(0.1 + 0.01 * k for k in range(45))),
    "sqrt(T) / c": (lambda c: lambda t: max(math.sqrt(t) / c, 1.0), tuple(2 + 0.25 * k for k in range(45))),
    "T / c": (lambda c: lambda t: max(t / c, 1.0), tuple(100 * 1.1**k for k in range(35))),
    "1 + T / c": (lambda c: lambda t: 1 + t / c, tuple(100 * 1.1**k for k in range(35))),
    "fixed, c": (lambda c: lambda t: c, tuple(2 * 1.1**k for k in range(30))),
}
"""Families of rules with one constant each, as memories, and the constants that are tried; T / c is the paper's."""


@dataclass(frozen=True)
class FamilyResult:
    """One family: its best constant on all sources; its loss there; and its loss on sources that did not fit it.

    `left_out` is the mean over tasks of the excess loss when the constant is fitted without the task's source.
    `worse` is how much more the family loses than the recommended rule, left out, by random effects over tasks, with
    its 95 % CI. The recommended rule keeps its constant.
    """

    name: str
    constant: float
    loss: float
    constants_left_out: Mapping[str, float]
    left_out: float
    worse: float
    worse_low: float
    worse_high: float

    @property
    def beats(self) -> bool:
        """Whether it is significantly better than the recommended rule by more than the margin (95 % CI)."""
        return self.worse_high < -MARGIN

    @property
    def not_better(self) -> bool:
        """Whether the recommended rule is non-inferior: it loses at most the margin more (95 % CI)."""
        return self.worse_low > -MARGIN


def families(evidence: Sequence[EvidenceSweep] | None = None) -> list[FamilyResult]:
    """Every family against the recommended rule."""
    chosen = deciding(sweeps() if evidence is None else evidence)
    return [_family(name, *FAMILIES[name], chosen) for name in FAMILIES]


def expected_loss(memory: Memory, own: Sequence[EvidenceSweep]) -> float:
    """The mean over tasks of the mean excess loss over their sweeps, in per cent."""
    tasks: dict[str, list[float]] = {}
    for sweep in own:
        tasks.setdefault(sweep.task, []).append(_excess(memory, sweep)[0])
    return math.fsum(math.fsum(values) / len(values) for values in tasks.values()) / len(tasks)


def _family(
    name: str, make: Callable[[float], Memory], constants: Sequence[float], own: Sequence[EvidenceSweep]
) -> FamilyResult:
    def fitted(part: Sequence[EvidenceSweep]) -> float:
        return min(constants, key=lambda constant: expected_loss(make(constant), part))

    best = fitted(own)
    names = dict.fromkeys(one.source for one in own)
    without = {source: fitted([one for one in own if one.source != source]) for source in names}
    losses: dict[str, list[tuple[float, float, float]]] = {}
    for sweep in own:
        theirs, error = _excess(make(without[sweep.source]), sweep)
        ours, own_error = _excess(recommended_memory, sweep)
        losses.setdefault(sweep.task, []).append((theirs, theirs - ours, error**2 + own_error**2))
    effects = [
        (math.fsum(g for _, g, _ in task) / len(task), math.fsum(v for _, _, v in task) / len(task) ** 2)
        for task in losses.values()
    ]
    worse, se = pooled([1.0] * len(effects), effects)
    half = t_quantile(len(effects) - 1) * se
    mean = math.fsum(math.fsum(loss for loss, _, _ in task) / len(task) for task in losses.values()) / len(losses)
    return FamilyResult(name, best, expected_loss(make(best), own), without, mean, worse, worse - half, worse + half)


def recommended_memory(steps: float) -> float:
    """The memory of the recommended rule."""
    return float(1 / RECOMMENDED.one_minus_beta(steps))


def _excess(memory: Memory, sweep: EvidenceSweep) -> tuple[float, float]:
    measured = curve(sweep)
    assert measured is not None  # see `deciding`
    excess, se = measured.extended(-math.log(memory(sweep.steps)))
    return excess, UNKNOWN_SE if se is None else se
