"""The studies of the project: the eleven twins, the controlled series, and a test on new data."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from oneclock.lab.experiments import (
    BRIEF,
    FASHION,
    JOINT,
    LAPTOP,
    SERIES,
    SHORT,
    Experiment,
    check_packages,
    joint,
    short,
)
from oneclock.lab.sweep_target import ExperimentTarget
from oneclock.rule import GRID
from oneclock.runs.adaptive import Adaptive
from oneclock.runs.protocols import BASELINES, SEEDS, Grid, Paper
from oneclock.sweep.plan import Plan

QUICK = 40
"""The quick form has this fraction of every budget and half the evaluations. Its horizons are too short for the rule:
it shows the machinery."""

SERIES_BETAS = GRID[:9]
"""0 to 0.99. The inner seven came first. The ends and a third seed were added when two optima lay at the edge."""

PROBE = 40
"""Steps of each twin that are timed to estimate what the study costs here."""


@dataclass(frozen=True)
class Cost:
    """The cost of an experiment's sweep: ended runs, the most runs still to do, and the seconds of one run."""

    name: str
    ended: int
    runs: int
    seconds: float


def laptop_study(out: Path, quick: bool = False) -> Plan:
    """The study in folder `out`, new or to be continued.

    >>> study = laptop_study(Path("laptop"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (11, 319)
    """
    return Plan(out, _targets(LAPTOP.values(), quick), Paper(seeds=SEEDS, baselines=BASELINES))


def series_study(out: Path, quick: bool = False) -> Plan:
    """The controlled series: nine betas with one seed, then five around the best with two more.

    >>> study = series_study(Path("series"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (8, 152)
    """
    return Plan(out, _targets(SERIES, quick), Paper(betas=SERIES_BETAS, seeds=SEEDS, second_stage="window"))


def fashion_study(out: Path, quick: bool = False) -> Plan:
    """The paper's protocol on new data, to test the results of the other studies.

    >>> study = fashion_study(Path("fashion"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (6, 174)
    """
    return Plan(out, _targets(FASHION, quick), Paper(seeds=SEEDS, baselines=BASELINES))


def joint_study(out: Path, quick: bool = False) -> Plan:
    """Beta and learning rate tuned together at every horizon, and the default betas tuned in the same way.

    >>> len(joint_study(Path("joint")).targets)
    13
    """
    return Plan(out, _targets(JOINT, quick), Adaptive(seeds=SEEDS, baselines=BASELINES, learning_rates=joint.RATES))


def short_study(out: Path, quick: bool = False) -> Plan:
    """The candidates' betas for short trainings, and torch's default pair, at every learning rate; then with new seeds.

    >>> study = short_study(Path("short"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (11, 1232)
    """
    every = Grid(
        short.BETAS, short.SEEDS, baselines=BASELINES[:1], learning_rates=short.RATES, held_out_seeds=short.FRESH
    )
    return Plan(out, _targets(SHORT, quick), every)


def brief_study(out: Path, quick: bool = False) -> Plan:
    """The betas of the two remaining candidates at 150 steps, at every learning rate; then with new seeds.

    >>> study = brief_study(Path("brief"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (11, 572)
    """
    every = Grid(
        short.BRIEF_BETAS, short.BRIEF_SEEDS, learning_rates=short.BRIEF_RATES, held_out_seeds=short.BRIEF_FRESH
    )
    return Plan(out, _targets(BRIEF, quick), every)


STUDIES = {
    "laptop": laptop_study,
    "series": series_study,
    "fashion": fashion_study,
    "joint": joint_study,
    "short": short_study,
    "brief": brief_study,
}


def costs(study: Plan) -> list[Cost]:
    """The past and future cost of each sweep: from its finished runs, or else from timing a few steps."""
    rows, results = study.rows(), []
    for target in study.targets:
        assert isinstance(target, ExperimentTarget)
        done = [row for row in rows if row.experiment == target.name and row.status == "finished"]
        took = [row.seconds for row in done if row.seconds]
        seconds = sum(took) / len(took) if took else probe(target.experiment(), target.data_dir)
        results.append(Cost(target.name, len(study.losses(target)), study.step(target).at_most, seconds))
    return results


def probe(experiment: Experiment, data_dir: str | None = None) -> float:
    """An estimate of the seconds of a whole run here, on one thread: from one step, a few steps, and an evaluation
    each.
    """
    check_packages(experiment)
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        few = min(PROBE, experiment.budget)
        _timed(experiment, 1, data_dir)  # the first call is slow: imports and initialisation
        (one, start), (more, _) = (_timed(experiment, steps, data_dir) for steps in (1, few))
    finally:
        torch.set_num_threads(threads)
    step = max(more - one, 0.0) / max(few - 1, 1)
    return start + one * math.ceil(experiment.budget / experiment.evaluation.every) + step * experiment.budget


def _timed(experiment: Experiment, steps: int, data_dir: str | None) -> tuple[float, float]:
    """Seconds of that many steps and one evaluation, including the start."""
    from oneclock.lab.training import train

    short = replace(experiment, budget=steps, evaluation=replace(experiment.evaluation, every=steps, at_start=False))
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        place = None if data_dir is None else Path(data_dir)
        seconds = train(short, 0.9, 0, Path(folder) / "probe", data_dir=place).seconds or 0.0
        return seconds, time.perf_counter() - started - seconds


def hours(costs: list[Cost], workers: int | None = None) -> float:
    """The hours of these costs on that many workers (default: one per core).

    >>> hours([Cost("a", ended=0, runs=60, seconds=60.0)], workers=2)
    0.5
    """
    return sum(cost.runs * cost.seconds for cost in costs) / (workers or os.cpu_count() or 1) / 3600


def _targets(experiments: Iterable[Experiment], quick: bool) -> list[ExperimentTarget]:
    if not quick:
        return [ExperimentTarget(one.name, one.budget) for one in experiments]
    return [
        ExperimentTarget(
            one.name, one.budget // QUICK, (f"evaluation.every={max(2 * one.evaluation.every // QUICK, 1)}",)
        )
        for one in experiments
    ]


def _quick_interval(experiment: Experiment) -> int:
    """Steps between two evaluations of the quick form."""
    return max(2 * experiment.evaluation.every // QUICK, 1)
