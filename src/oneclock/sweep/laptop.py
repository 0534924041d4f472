"""The laptop study: the paper's whole protocol over the eleven twins, with two untied arms beside each sweep."""

from __future__ import annotations

from pathlib import Path

from oneclock.experiments import LAPTOP, Experiment
from oneclock.sweep.protocol import Paper
from oneclock.sweep.study import Study
from oneclock.sweep.targets import Named

ARMS = ((0.9, 0.999), (0.9, 0.95))
"""What people have today: torch's default betas, and the usual pair for language models."""

QUICK = 20
"""The quick form has this fraction of every budget. Its horizons are too short for the rule: it shows the machinery."""


def laptop_study(out: Path, quick: bool = False) -> Study:
    """The study in folder `out`, new or to be continued.

    >>> study = laptop_study(Path("laptop"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (11, 319)
    """
    return Study(out, [_target(twin, QUICK if quick else 1) for twin in LAPTOP.values()], Paper(arms=ARMS))


def _target(twin: Experiment, fraction: int) -> Named:
    if fraction == 1:
        return Named(twin.name, twin.budget)
    every = max(twin.evaluation.every // fraction, 1)
    return Named(twin.name, twin.budget // fraction, (f"evaluation.every={every}",))
