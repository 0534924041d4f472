"""Which experiments and curves of a large study a page draws. The tables and the data beside the page have all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oneclock.runs.record import RunRecord
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import ExperimentResult

MANY = 16
"""Up to so many experiments are all drawn."""

MOST = 6
"""Of more, so many are drawn: those in which the recommended beta loses most."""

FEW = 5
"""Betas whose curves are seen at first; the others are a click away."""

POINTS = 160_000
"""Evaluations that a page holds at most; beyond, the curves of the best betas come first."""


def drawn(analysis: Analysis) -> tuple[ExperimentResult, ...]:
    """The experiments to draw, in their order: all of them, or in a large study those that matter most."""
    if len(analysis.experiments) <= MANY:
        return analysis.experiments
    kept = sorted(analysis.experiments, key=_cost, reverse=True)[:MOST]
    return tuple(result for result in analysis.experiments if any(result is one for one in kept))


def not_drawn(analysis: Analysis) -> str:
    """What the page says of experiments that are not drawn; empty where there are none."""
    if (count := len(analysis.experiments)) <= MANY:
        return ""
    return (
        f"Of {count:,} experiments {MOST} are drawn: those in which the recommended beta loses most. "
        "All are in the answer above, in the tables, and in the data beside this page."
    )


def by_rank(runs: Sequence[RunRecord], result: ExperimentResult) -> list[RunRecord]:
    """Runs from the beta with the smallest loss to the largest, each with its seeds, untied pairs last."""
    loss = {point.beta: point.loss for point in result.points}
    return sorted(runs, key=lambda run: (not run.key.is_tied, loss.get(run.key.betas[0], math.inf), run.key.betas[0]))


def _cost(result: ExperimentResult) -> float:
    """What the recommended beta loses there; infinite where that was not measured."""
    excess = next(rule.excess for rule in result.rules if rule.name == "recommended")
    return math.inf if excess is None else excess
