"""The horizon of each run of a log, and of all runs together. Pure values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from oneclock.horizon import UsefulHorizon, early_stop, effective_horizon, mean_best_loss, useful_horizon
from oneclock.horizon.schedule import guess_schedule
from oneclock.logs.read import LoggedRun
from oneclock.rule import int_if_whole


@dataclass(frozen=True)
class RunHorizon:
    """One run: its useful horizon, its lowest loss, how far evaluations lie apart, and its schedule, if known."""

    name: str
    useful: UsefulHorizon
    best_step: float
    best_loss: float
    spacing: float
    schedule: str | None


@dataclass(frozen=True)
class PaperStop:
    """The paper's early stop of a log's runs, by the paper's definition, in the log's unit.

    `stop` and `best` are means over the runs, `t_es` is their horizon as the paper rounds it. `better_later` counts the
    runs in which a later evaluation was better: there the stop came too early.
    """

    stop: float
    best: float
    t_es: float
    patience: float
    ran_out: bool
    better_later: int


def run_horizon(run: LoggedRun, plan: float, schedule: str | None = None) -> RunHorizon:
    """The useful horizon of one run of `plan` steps. Where no schedule is given, the logged learning rates decide."""
    steps = run.curve.steps
    schedule = schedule or guess_schedule(run.arguments.lr_left, steps[-1] / plan if plan else 0.0)
    gaps = [after - before for before, after in pairwise(steps)] or [steps[-1]]
    return RunHorizon(
        name=run.name,
        useful=useful_horizon(run.curve, plan, schedule),
        best_step=run.curve.best_step,
        best_loss=-run.curve.best_loss if run.higher_is_better else run.curve.best_loss,
        spacing=int_if_whole(float(median(gaps))),
        schedule=schedule,
    )


def paper_stop(groups: Sequence[Sequence[LoggedRun]], plan: float) -> PaperStop:
    """The paper's early stop over runs in groups of one beta each."""
    runs = [run for group in groups for run in group]
    stops = [early_stop(run.curve, plan) for run in runs]
    return PaperStop(
        stop=rounded(fmean(one.stop for one in stops)),
        best=rounded(fmean(one.best for one in stops)),
        t_es=effective_horizon({index: [run.curve for run in group] for index, group in enumerate(groups)}, plan),
        patience=plan / 10,
        ran_out=all(one.ran_out for one in stops),
        better_later=sum(one.ran_out and run.curve.best_step > one.stop for one, run in zip(stops, runs, strict=True)),
    )


def two_best_betas(runs: Sequence[LoggedRun]) -> list[list[LoggedRun]]:
    """Runs by their betas: the two groups with the lowest mean loss, or all together where fewer betas are known."""
    groups: dict[tuple[float | None, float | None], list[LoggedRun]] = {}
    for run in runs:
        groups.setdefault((run.arguments.beta1, run.arguments.beta2), []).append(run)
    if len(groups) < 2 or (None, None) in groups:
        return [list(runs)]
    return sorted(groups.values(), key=lambda group: mean_best_loss([run.curve for run in group]))[:2]


def plan_of(runs: Sequence[LoggedRun], unit: str, given: float | None) -> tuple[float, str]:
    """The planned length in the log's unit, and where it comes from."""
    if given is not None:
        if not 0 < given < math.inf:
            raise ValueError(f"the budget must be a number of steps above 0, got {given!r}")
        return rounded(given), "given"
    arguments = [run.arguments for run in runs]
    steps = [one.max_steps or (one.epochs or 0) * (one.steps_per_epoch or 0) for one in arguments]
    planned = {"steps": steps, "epochs": [one.epochs or 0 for one in arguments]}.get(unit, [0])
    if longest := max(planned):
        return rounded(longest), "the log's arguments"
    return max(run.curve.steps[-1] for run in runs), "the last evaluation"


def rounded(value: float) -> float:
    """To a thousandth of a step, and a whole number where it is one."""
    return int_if_whole(round(float(value), 3))
