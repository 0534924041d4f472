"""The short study: the eleven twins over 300 steps, the length of a small fine-tuning, their rates to be tuned.

Batches of text are four times the twins', and validation eight times, so that a beta is not judged by their noise.
"""

from __future__ import annotations

from dataclasses import replace

from oneclock.experiments.laptop import TWINS
from oneclock.experiments.spec import Experiment, Text

BUDGET, EVALUATIONS = 300, 3

BETAS = (0.68377, 0.82217, 0.9)
"""The swept values nearest to what the candidates give for 300 steps."""

RATES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors on a twin's rate; the quarter was added when torch's pair did best at the half in three twins of seven."""

SEEDS = (1, 2, 3, 4)

FRESH = tuple(range(5, 13))
"""Seeds that come last, at each beta's best rate by the others, so that they have chosen nothing."""


def _short(of: Experiment) -> Experiment:
    language, batches = isinstance(of.data, Text), of.evaluation.batches
    assert batches is not None
    return replace(
        of,
        name=f"short-{of.name}",
        title=f"{of.title}, {BUDGET} steps",
        split="heldout",
        evaluation=replace(
            of.evaluation,
            every=BUDGET // EVALUATIONS,
            at_start=False,
            train_loss="running",
            batches=(8 if language else 1) * batches,
        ),
        budget=BUDGET,
        batch_size=(4 if language else 1) * of.batch_size,
        seeds=SEEDS,
    )


SHORT: tuple[Experiment, ...] = tuple(_short(twin) for twin in TWINS)
"""None of them has chosen anything."""
