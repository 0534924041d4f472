"""Runs made elsewhere, taken into a plan so that nothing is trained twice: from another study, a long table, or logs.

A run of another study is taken where it is the very run that the plan would make: same settings, same code. A table or
a log does not say what made it: its runs are taken at their word, by experiment, beta, seed and rate, and only where
they ran to the plan's budget. Either way the record says where it comes from, and `status` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneclock.horizon import Curve
from oneclock.logs import read_log
from oneclock.study import table
from oneclock.study.identity import Beta, differences
from oneclock.study.records import Point, Run, Status, runs_of
from oneclock.study.sharing import take_alone
from oneclock.sweep.cells import Cell
from oneclock.sweep.named import Named
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import Target


@dataclass(frozen=True)
class Foreign:
    """A run that ended elsewhere: its cell, evaluations and end. Logs name no experiment; some name no seed."""

    beta: Beta
    seed: int | None
    rate: float | None
    points: tuple[Point, ...]
    status: Status
    experiment: str | None = None
    seconds: float = 0.0
    reason: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)


def adopt_all(plan: Plan, sources: Iterable[str | Path]) -> list[str]:
    """Take the runs of each source into the plan's study: in words how many, and of the first that were left why.

    `check` the plan first. What is raised is told in `adopt`; the runs that were taken by then stay.
    """
    said = []
    with take_alone(plan.path):
        plan.write()
        plan.study.unpack()
        for source in sources:
            taken, left = adopt(plan, source)
            said.append(f"{taken} runs were adopted from {source}, {len(left)} left there")
            said += [f"left: {reason}" for reason in left[:3]]
    return said


def adopt(plan: Plan, source: str | Path) -> tuple[int, list[str]]:
    """Take the runs of `source` that the plan may want and has not; how many, and why others were left, in words.

    The caller holds the study's claim.

    Args:
        plan: The plan, written to its folder.
        source: A study's folder, a long table (CSV, TSV, Parquet), or a log that `advise` reads.

    Raises:
        ValueError: Where the source can be read as none of these.
    """
    path = Path(source)
    if (path / "runs").is_dir() or (path / "study.json").exists():
        return _from_study(plan, path)
    foreign = list(_from_table(path) if _is_table(path) else _from_log(path))
    return _from_elsewhere(plan, foreign, path.name)


def _from_study(plan: Plan, study: Path) -> tuple[int, list[str]]:
    taken, left = 0, []
    made = {run.identity.folder: run for run in runs_of(study)}
    for target, cell in _open_cells(plan):
        folder = plan.folder(target, cell)
        run = made.get(folder)
        result = None if run is None else run.result
        if run is None or result is None or result.status == "failed":
            continue
        wanted = target.identity(cell)
        here = there = {"processes": target.processes}
        if isinstance(target, Named):  # they multiply its batch, and are no part of its spec
            there = {"processes": run.environment.get("processes", 1)}
        if run.identity.hash != wanted.hash or there != here:
            changed = differences(run.identity.named | there, wanted.named | here)
            left.append(f"{folder}: {', '.join(changed)}")
            continue
        result, known = run.whole()
        if result is None:
            raise ValueError(f"{study} was changed while it was read; do it again")
        foreign = Foreign(
            cell.beta, cell.seed, cell.rate, tuple(known.points), result.status, target.name, result.seconds,
            result.reason, run.environment,
        )  # fmt: skip
        _write(plan, target, cell, foreign, study.absolute().name)
        taken += 1
    return taken, left


def _from_elsewhere(plan: Plan, foreign: Sequence[Foreign], name: str) -> tuple[int, list[str]]:
    taken, left = 0, []
    free = list(_open_cells(plan))
    for run in foreign:
        place = next(((target, cell) for target, cell in free if _fits(run, target, cell, len(plan.targets))), None)
        said = f"beta {run.beta}, seed {run.seed}"
        if place is None:
            left.append(f"{said}: the plan wants no such run, or has it")
            continue
        target, cell = place
        last = max((point.step for point in run.points), default=0)
        if last != target.budget and run.status == "finished":
            left.append(f"{said}: it ends at step {last:,}, and the plan's runs at {target.budget:,}")
            continue
        _write(plan, target, cell, run, name)
        free.remove(place)
        taken += 1
    return taken, left


def _fits(run: Foreign, target: Target, cell: Cell, targets: int) -> bool:
    """Whether the plan wants such a run; one without a name fits the only target, one without a seed any seed."""
    named = run.experiment == target.name or (run.experiment is None and targets == 1)
    return named and (run.beta, run.rate) == (cell.beta, cell.rate) and run.seed in (cell.seed, None)


def _open_cells(plan: Plan) -> Iterator[tuple[Target, Cell]]:
    """Every run that the plan may ask for and that has not begun."""
    for target in plan.targets:
        for cell in plan.cells(target):
            if not (plan.place(target, cell) / "run.json").exists():
                yield target, cell


def _write(plan: Plan, target: Target, cell: Cell, run: Foreign, name: str) -> None:
    made = Run.start(plan.place(target, cell), target.identity(cell), {**run.environment, "adopted": name})
    made.replace(run.points)
    told = f"adopted from {name}" + (f"; {run.reason}" if run.reason else "")
    plan.remember(target, cell, made.finish(run.status, run.seconds, reason=told))


def _is_table(path: Path) -> bool:
    """Whether a file is a long table of runs: it says the experiment and the beta of each row."""
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        return False
    try:
        table.read(path)
    except ValueError:
        return False
    return True


def _from_table(path: Path) -> Iterator[Foreign]:
    for sweep in table.read(path).sweeps:
        for trial in (*sweep.tied, *sweep.untied):
            if trial.val is None and not trial.diverged:
                raise ValueError(
                    f"{path.name} has one loss for each run; a run is adopted with its curve (step, val_loss)"
                )
            beta: Beta = trial.beta if trial.beta2 is None else (trial.beta, trial.beta2)
            status: Status = "diverged" if trial.diverged else "finished"
            yield Foreign(beta, trial.seed, trial.rate, _points(trial.val, trial.train), status, sweep.name)


def _from_log(path: Path) -> Iterator[Foreign]:
    log = read_log(path)
    if log.unit != "steps":
        raise ValueError(f"{path} counts {log.unit}, not steps; a run is adopted with its steps")
    for run in log.runs:
        one, two = run.arguments.beta1, run.arguments.beta2
        if one is None or two is None:
            raise ValueError(f"{path} does not say the beta of {run.name}; put it into a table with a column beta")
        beta: Beta = one if one == two else (one, two)
        bad = not all(map(math.isfinite, run.curve.losses))
        yield Foreign(beta, None, None, _points(run.curve, None), "diverged" if bad else "finished")


def _points(val: Curve | None, train: Curve | None) -> tuple[Point, ...]:
    if val is None:
        return ()
    beside = {} if train is None else dict(zip(train.steps, train.losses, strict=True))
    both = zip(val.steps, val.losses, strict=True)
    return tuple(Point(int(step), loss, beside.get(step)) for step, loss in both)
