"""Which experiments and curves of a large study a page draws. The tables and the data beside the page have all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oneclock.runs.record import RunRecord
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import ExperimentResult

MANY = 16
"""Up to this many experiments are all drawn."""

MOST = 6
"""Of more, this many are drawn: those in which the recommended beta loses most."""

FEW = 5
"""Betas whose curves are visible at first; a click shows the others."""

POINTS = 160_000
"""The most evaluations on a page; if there are more, the curves of the best betas are drawn."""


def experiments_to_draw(analysis: Analysis) -> tuple[ExperimentResult, ...]:
    """The experiments to draw, in their order: all, or in a large study the most important ones."""
    if len(analysis.experiments) <= MANY:
        return analysis.experiments
    kept = sorted(analysis.experiments, key=_cost, reverse=True)[:MOST]
    return tuple(result for result in analysis.experiments if any(result is one for one in kept))


def words_on_rest(analysis: Analysis) -> str:
    """A sentence on the experiments that are not drawn; empty if there are none."""
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
    """What the recommended beta loses in an experiment; infinite if that was not measured."""
    excess = result.rules[0].excess
    return math.inf if excess is None else excess
