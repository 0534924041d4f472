"""Takes runs made elsewhere into a plan, so that nothing is trained twice: from another study, a long table, or logs.

A run of another study is taken if it is the same run: same settings, same code. Runs of a table or a log are matched by
experiment, beta, seed and learning rate, and taken only if they ran to the plan's budget. In both cases the record
names its source, and `status` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from oneclock.horizon import Curve
from oneclock.logs import Log, read_log
from oneclock.logs.series import placeholders_in
from oneclock.runs import table
from oneclock.runs.files import refuse_packed
from oneclock.runs.folder import Point, RunFolder, runs_of
from oneclock.runs.key import RunKey, differences
from oneclock.runs.lock import take_alone
from oneclock.runs.record import RunRecord, Status, has_diverged
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import Target

ANY_SEED = -1
"""The seed of a run from a log: a log does not state it, so the run can stand for any seed."""


def adopt_all(plan: Plan, sources: Iterable[str | Path]) -> list[str]:
    """Take the runs of each source into the plan's study.

    Returns in words how many, and why the first others were not taken.

    `check` the plan first. It raises what `adopt` raises; runs taken before that stay.
    """
    sentences = []
    with take_alone(plan.path):
        refuse_packed(plan.path)
        plan.write()
        for source in sources:
            taken, left, notes = adopt(plan, source)
            sentences.append(f"{taken} runs were adopted from {source}, {len(left)} left there")
            sentences += [f"left: {reason}" for reason in left[:3]]
            sentences += [f"note: {note}" for note in notes]
    return sentences


class Adopted(NamedTuple):
    """How many runs were taken, why others were not, and the warnings of the log's reader."""

    taken: int
    left: list[str]
    notes: tuple[str, ...] = ()


def adopt(plan: Plan, source: str | Path) -> Adopted:
    """Take the runs of `source` that the plan may need and does not have.

    The caller holds the study's claim.

    Args:
        plan: The plan, written to its folder.
        source: A study's folder, a long table (CSV, TSV, Parquet), or a log that `advise` reads.

    Raises:
        ValueError: If the source is none of these, or a log has no validation loss.
    """
    path = Path(source)
    if (path / "runs").is_dir() or (path / "study.json").exists():
        return _from_study(plan, path)
    if _is_table(path):
        return _from_elsewhere(plan, list(_from_table(path)), path.name)
    log = _validation_log(path)
    return _from_elsewhere(plan, list(_from_log(log)), path.name)._replace(notes=log.warnings)


def _from_study(plan: Plan, study: Path) -> Adopted:
    taken, left = 0, []
    own_runs = {run.key.folder: run for run in runs_of(study)}
    for target, key in _open_keys(plan):
        folder = key.folder
        run = own_runs.get(folder)
        result = None if run is None else run.result
        if run is None or result is None or result.status == "failed":
            continue
        wanted = target.with_spec(key)
        # The number of processes multiplies an experiment's batch; the record holds it beside the spec.
        processes = run.key.spec.get("processes", run.environment.get("processes", 1))
        here, there = {"processes": target.processes}, {"processes": processes}
        if run.key.hash != wanted.hash or there != here:
            changed = differences(run.key.content | there, wanted.content | here)
            left.append(f"{folder}: {', '.join(changed)}")
            continue
        result, points = run.whole()
        if result is None:
            raise ValueError(f"{study} was changed while it was read; run the command again")
        _write(plan, target, key, result, points, study.absolute().name)
        taken += 1
    return Adopted(taken, left)


def _from_elsewhere(plan: Plan, runs: Sequence[RunRecord], name: str) -> Adopted:
    taken, left = 0, []
    free = list(_open_keys(plan))
    for run in runs:
        match = next(((target, key) for target, key in free if _fits(run, target, key, len(plan.targets))), None)
        run_words = f"beta {run.beta}" + ("" if run.seed == ANY_SEED else f", seed {run.seed}")
        if match is None:
            left.append(f"{run_words}: the plan has no such run, or has its result already")
            continue
        target, key = match
        if run.steps != target.budget and run.status == "finished":
            left.append(f"{run_words}: it ends at step {run.steps:,}, and the plan's runs at {target.budget:,}")
            continue
        if run.val is not None and (placeholders := placeholders_in(run.val.losses)):
            left.append(f"{run_words}: it has placeholders ({placeholders[0]:g}) among its losses; leave them out")
            continue
        _write(plan, target, key, run, _points(run.val, run.train), name)
        free.remove(match)
        taken += 1
    return Adopted(taken, left)


def _fits(run: RunRecord, target: Target, key: RunKey, targets: int) -> bool:
    """Whether the plan needs such a run.

    A run without a name fits the only target, and one without a seed fits any seed.
    """
    named = run.experiment == target.name or (not run.experiment and targets == 1)
    return named and (run.beta, run.lr) == (key.beta, key.lr) and run.seed in (key.seed, ANY_SEED)


def _open_keys(plan: Plan) -> Iterator[tuple[Target, RunKey]]:
    """Every run that the plan may need and that has not begun."""
    for target in plan.targets:
        for key in plan.keys(target):
            if not (plan.run_path(key) / "run.json").exists():
                yield target, key


def _write(plan: Plan, target: Target, key: RunKey, run: RunRecord, points: Sequence[Point], name: str) -> None:
    folder = RunFolder.start(plan.run_path(key), target.with_spec(key), {**run.environment, "adopted": name})
    folder.replace(points)
    reason = f"adopted from {name}" + (f"; {run.reason}" if run.reason else "")
    assert run.status in ("finished", "diverged")
    plan.study.remember(key.folder, folder.finish(run.status, run.seconds or 0.0, reason=reason))


def _is_table(path: Path) -> bool:
    """Whether a file is a long table of runs: it has the experiment and the beta of each row."""
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        return False
    try:
        table.read_source(path)
    except ValueError:
        return False
    return True


def _from_table(path: Path) -> Iterator[RunRecord]:
    for sweep in table.read_source(path).sweeps:
        for run in (*sweep.tied, *sweep.untied):
            if run.val is None and not run.diverged:
                raise ValueError(
                    f"{path.name} has one loss for each run; a run is adopted with its curve (step, val_loss)"
                )
            yield run


def _validation_log(path: Path) -> Log:
    """The log of a path; ValueError if it has no validation loss over steps."""
    log = read_log(path)
    if log.unit != "steps":
        raise ValueError(f"{path} counts {log.unit}, not steps; a run is adopted with its steps")
    log.require_loss()
    if log.is_training:
        raise ValueError(f"{path} has no validation loss, only {log.metric!r}; a run needs one to be adopted")
    return log


def _from_log(log: Log) -> Iterator[RunRecord]:
    reason = "; ".join(log.warnings) or None
    for run in log.runs:
        one, two = run.arguments.beta1, run.arguments.beta2
        if one is None or two is None:
            raise ValueError(
                f"{log.path} does not state the beta of {run.name}; put it into a table with a column beta"
            )
        key = RunKey("", one if one == two else (one, two), ANY_SEED, int(run.curve.steps[-1]))
        status: Status = "diverged" if has_diverged(run.curve.losses) else "finished"
        yield RunRecord(key, status, key.budget, reason=reason, val=run.curve)


def _points(val: Curve | None, train: Curve | None) -> tuple[Point, ...]:
    if val is None:
        return ()
    beside = {} if train is None else dict(zip(train.steps, train.losses, strict=True))
    both = zip(val.steps, val.losses, strict=True)
    return tuple(Point(int(step), loss, beside.get(step)) for step, loss in both)
