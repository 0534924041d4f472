"""The runs that an advice is about: read from whatever is given, and the horizon of each."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from oneclock.horizon import Curve, UsefulHorizon, guess_schedule, useful_horizon
from oneclock.horizon.early_stop import early_stop, effective_horizon, mean_best_loss
from oneclock.logs.inputs import Table, is_table
from oneclock.logs.read import Log, LoggedRun, read_log
from oneclock.rule import int_if_whole

Source = Log | LoggedRun | Curve | str | os.PathLike[str] | Table
"""A log, its path, a table (a DataFrame, or a mapping of columns), a run, or a curve over steps."""


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


def read_sources(source: Source | Sequence[Source], **options: Any) -> tuple[tuple[Log, ...], list[LoggedRun], str]:
    """The logs, all runs and what these count; `options` are those of `read_log`. ValueError if no advice fits them."""
    is_one = isinstance(source, str) or not isinstance(source, Iterable) or is_table(source)
    sources: list[Any] = [source] if is_one else list(source)  # type: ignore[arg-type]  # several
    bare = [LoggedRun("curve", one) if isinstance(one, Curve) else one for one in sources]
    bare = [one for one in bare if isinstance(one, LoggedRun)]
    others = [one for one in sources if not isinstance(one, Curve | LoggedRun)]
    logs = tuple(one if isinstance(one, Log) else read_log(one, **options) for one in others)
    runs = [run for log in logs for run in log.runs] + bare
    if not runs:
        raise ValueError("advice needs at least one run")
    units = sorted({log.unit for log in logs} | ({"steps"} if bare else set()))
    if len(units) > 1:
        raise ValueError(
            f"the logs count different things, {' and '.join(units)}; name the step column (step, --step) "
            "or convert epochs to steps (steps_per_epoch, --steps-per-epoch)"
        )
    if len({run.higher_is_better for run in runs}) > 1:
        ways = [(log.metric, "higher" if log.direction.higher_is_better else "lower") for log in logs]
        metrics = ", ".join(f"{metric!r} ({way} is better)" for metric, way in ways)
        raise ValueError(f"higher is better in one log and lower in another: {metrics}; name one metric for all")
    values = [[value for value in run.values if math.isfinite(value)] for run in runs]
    if all(len(one) > 1 and min(one) == max(one) for one in values):  # its early stop would say nothing of training
        raise ValueError(f"every evaluation is {values[0][0]:g}: such a log has no horizon; name another metric")
    return logs, runs, units[0]


def until_divergence(run: LoggedRun) -> LoggedRun:
    """The run up to its last finite loss, without its plan, which it did not reach."""
    if run.diverged_at is None:
        return run
    end = run.curve.steps.index(run.diverged_at)
    curve = Curve(run.curve.steps[:end], run.curve.losses[:end])
    return replace(run, curve=curve, arguments=replace(run.arguments, max_steps=None, epochs=None))


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
    ends = [(run.curve, early_stop(run.curve, plan)) for group in groups for run in group]
    return PaperStop(
        stop=rounded(fmean(end.stop for _, end in ends)),
        best=rounded(fmean(end.best for _, end in ends)),
        t_es=effective_horizon({index: [run.curve for run in group] for index, group in enumerate(groups)}, plan),
        patience=plan / 10,
        ran_out=all(end.ran_out for _, end in ends),
        better_later=sum(end.ran_out and curve.best_step > end.stop for curve, end in ends),
    )


def rounded(value: float) -> float:
    """To a thousandth of a step, and a whole number where it is one."""
    return int_if_whole(round(float(value), 3))
