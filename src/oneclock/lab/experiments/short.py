"""The short studies: the eleven twins over 300 steps, the length of a small fine-tuning, and over 150; learning rates
are tuned.

Batches of text are four times, and validation sets eight times, as large as the twins', to reduce noise.
"""

from __future__ import annotations

from dataclasses import replace

from oneclock.lab.experiments.laptop import TWINS
from oneclock.lab.experiments.spec import Experiment, Text

BUDGET, EVALUATIONS = 300, 3

BETAS = (0.68377, 0.82217, 0.9)
"""The swept values nearest to what the candidates give for 300 steps."""

RATES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors on a twin's learning rate; 1/4 was added when torch's pair was best at 1/2 in three twins of seven."""

SEEDS = (1, 2, 3, 4)

FRESH = tuple(range(5, 13))
"""Seeds that run last, at the best learning rate of each beta by the other seeds; they were not used to select
anything.
"""


BRIEF_BUDGET = 150

BRIEF_BETAS = (0.65145, 0.83333)
"""The betas of the two remaining candidates at 150 steps: `bent:6000,0.2` and `bent:6000,0`."""

BRIEF_RATES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The outer values were added when five of 22 best learning rates were at 1/2 or 4."""

BRIEF_SEEDS = (1, 2, 3)

BRIEF_FRESH = tuple(range(13, 21))


def _short(of: Experiment, study: str, budget: int, seeds: tuple[int, ...]) -> Experiment:
    language, batches = isinstance(of.data, Text), of.evaluation.batches
    assert batches is not None
    return replace(
        of,
        name=f"{study}-{of.name}",
        title=f"{of.title}, {budget} steps",
        split="heldout",
        evaluation=replace(
            of.evaluation,
            every=budget // EVALUATIONS,
            at_start=False,
            train_loss="running",
            batches=(8 if language else 1) * batches,
        ),
        budget=budget,
        batch_size=(4 if language else 1) * of.batch_size,
        seeds=seeds,
    )


SHORT: tuple[Experiment, ...] = tuple(_short(twin, "short", BUDGET, SEEDS) for twin in TWINS)
BRIEF: tuple[Experiment, ...] = tuple(_short(twin, "brief", BRIEF_BUDGET, BRIEF_SEEDS) for twin in TWINS)
"""None of them was used to select anything."""
