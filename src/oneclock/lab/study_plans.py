"""The studies that ship with the project: the eleven twins, the controlled series, and a test on new data."""

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
    check_installed,
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
"""0 to 0.99. The inner seven came first; the ends, and a third seed, when two optima lay at an end of those."""

PROBE = 40
"""Steps of each twin that are timed to estimate what the study costs here."""


@dataclass(frozen=True)
class Cost:
    """What an experiment's sweep costs: runs that ended, runs still to do, at most, and the seconds of one."""

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
    """The paper's protocol on data that chose nothing: what the other studies found is put to the test.

    >>> study = fashion_study(Path("fashion"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (6, 174)
    """
    return Plan(out, _targets(FASHION, quick), Paper(seeds=SEEDS, baselines=BASELINES))


def joint_study(out: Path, quick: bool = False) -> Plan:
    """Beta and learning rate tuned together at every horizon, the default betas tuned as carefully beside them.

    >>> study = joint_study(Path("joint"))
    >>> len(study.targets), study.protocol.limit
    (13, 36)
    """
    return Plan(out, _targets(JOINT, quick), Adaptive(seeds=SEEDS, baselines=BASELINES, learning_rates=joint.RATES))


def short_study(out: Path, quick: bool = False) -> Plan:
    """The betas of the candidates for short trainings, and torch's own pair, at every rate; then with fresh seeds.

    >>> study = short_study(Path("short"))
    >>> len(study.targets), sum(study.step(target).at_most for target in study.targets)
    (11, 1232)
    """
    every = Grid(
        short.BETAS, short.SEEDS, baselines=BASELINES[:1], learning_rates=short.RATES, held_out_seeds=short.FRESH
    )
    return Plan(out, _targets(SHORT, quick), every)


def brief_study(out: Path, quick: bool = False) -> Plan:
    """What the two candidates left give for 150 steps, at every rate; then with fresh seeds.

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
    """What each sweep has cost and will cost: by its finished runs, or by timing a few steps where there are none."""
    rows, found = study.rows(), []
    for target in study.targets:
        assert isinstance(target, ExperimentTarget)
        done = [row for row in rows if row.experiment == target.name and row.status == "finished"]
        took = [row.seconds for row in done if row.seconds]
        seconds = sum(took) / len(took) if took else probe(target.experiment(), target.data_dir)
        found.append(Cost(target.name, len(study.losses(target)), study.step(target).at_most, seconds))
    return found


def probe(experiment: Experiment, data_dir: str | None = None) -> float:
    """About the seconds of a whole run of it here, on one thread: from one step and from a few, an evaluation each."""
    check_installed(experiment)
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        few = min(PROBE, experiment.budget)
        _timed(experiment, 1, data_dir)  # what comes first is slow: imports, and the first use of everything
        (one, start), (more, _) = (_timed(experiment, steps, data_dir) for steps in (1, few))
    finally:
        torch.set_num_threads(threads)
    step = max(more - one, 0.0) / max(few - 1, 1)
    return start + one * math.ceil(experiment.budget / experiment.evaluation.every) + step * experiment.budget


def _timed(experiment: Experiment, steps: int, data_dir: str | None) -> tuple[float, float]:
    """Seconds of so many steps and one evaluation, and of what comes before."""
    from oneclock.lab.training import train

    short = replace(experiment, budget=steps, evaluation=replace(experiment.evaluation, every=steps, at_start=False))
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        place = None if data_dir is None else Path(data_dir)
        seconds = train(short, 0.9, 0, Path(folder) / "probe", data_dir=place).seconds or 0.0
        return seconds, time.perf_counter() - started - seconds


def hours(found: list[Cost], workers: int | None = None) -> float:
    """Hours that these costs take on so many workers (default: one per core).

    >>> hours([Cost("a", ended=0, runs=60, seconds=60.0)], workers=2)
    0.5
    """
    return sum(cost.runs * cost.seconds for cost in found) / (workers or os.cpu_count() or 1) / 3600


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
