"""A sweep from start to end: plan, claim, submit, watch. The same call again continues where it stopped."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast

from oneclock.plain_text import printable
from oneclock.runs.files import refuse_packed, sweep_asides
from oneclock.runs.folder import Point, RunFolder
from oneclock.runs.lock import take_alone
from oneclock.runs.protocols import Grid, Protocol, protocol_from
from oneclock.runs.store import Study
from oneclock.sweep.exec.execution import Execution
from oneclock.sweep.exec.job import kill_left, last_lines
from oneclock.sweep.exec.scheduler import Driver, Observer, processes_of
from oneclock.sweep.plan import Plan, default_baselines
from oneclock.sweep.targets import Function, Target, checked_budget
from oneclock.sweep.view import have_ended, span, time_left

TRY = 3
"""Evaluations after which a try ends."""

Trainable = str | Callable[..., Any] | Target


def run_sweep(
    train: Trainable | Sequence[Trainable],
    budget: int | None = None,
    out: str | Path = "study",
    *,
    protocol: str | Protocol = "paper",
    betas: Iterable[float] | None = None,
    seeds: Iterable[int] | None = None,
    learning_rates: Iterable[float] | None = None,
    baselines: Iterable[tuple[float, float]] | None = None,
    name: str | None = None,
    processes: int = 1,
    allow_early_stop: bool = False,
    where: Execution | None = None,
    extend: bool = False,
    keep_runs: bool = False,
    observers: Sequence[Observer] = (),
    dry_run: bool = False,
    quiet: bool = False,
) -> Study:
    """Sweep beta over `train` and return the study; called again with the same values it continues.

    Args:
        train: Your function `train(beta, seed, run)`, where `run` is a `RunHandle`; or its name, `file.py:function`;
            or a `Command`; or a list of those. `oneclock.lab.experiment_target` makes one of an experiment's name.
        budget: The length of a run in optimizer steps. A `Command` has its own.
        out: The study's folder.
        protocol: Which runs: `paper`, `grid` or `adaptive`, or a value (`Paper(top_k=3)`, `Grid(..)`, `Adaptive(..)`).
        betas: The betas to sweep (default: the paper's 13).
        seeds: The seeds (default: 1, 2, 3).
        learning_rates: Learning rates to sweep too, with `grid` and `adaptive`; your function then takes `lr=`.
        baselines: Untied pairs (beta1, beta2) beside the sweep; `()` for none. By default (0.9, 0.999) and (0.9, 0.95)
            where the target is known to take pairs: `def train(beta: float | tuple[float, float], seed, run)`.
        name: What the study calls a function.
        processes: Processes of one run of a function that is named; torchrun starts them.
        allow_early_stop: Whether a run that ends before its budget counts as finished.
        where: Where and how runs execute: `Execution(jobs=4, threads=2)`; by default one run per core or GPU.
        extend: Add betas, seeds, learning rates, baselines or targets to the study in the folder.
        keep_runs: Keep finished runs in the folder although the code behind them has changed.
        observers: What gets every evaluation as it comes: `oneclock.export.live.TensorBoard(folder)`, or
            `WeightsAndBiases(project)`.
        dry_run: Print the plan and its cost, and run nothing.
        quiet: Print nothing.

    Raises:
        ValueError: If the values make no sense, the folder holds another study or runs of other code, or the first
            runs fail in the same way.
        OSError: If the disk takes nothing more; once it does, the same call goes on.
        KeyboardInterrupt: If it was asked to stop, by Ctrl-C or SIGTERM.

    >>> import tempfile
    >>> def train(beta, seed, run):
    ...     run.log(run.budget, val_loss=(beta - 0.9) ** 2 + 1)
    >>> here = Execution(in_process=True)
    >>> study = run_sweep(train, 100, tempfile.mkdtemp(), betas=[0.5, 0.9, 0.95], seeds=[1], where=here, quiet=True)
    >>> study.best().beta
    0.9
    """
    if not isinstance(out, str | os.PathLike):
        raise ValueError(f"out must be a folder, got {out!r}")
    if not (name is None or isinstance(name, str)):
        raise ValueError(f"name must be text, got {name!r}")
    if not isinstance(observers, Sequence) or not all(hasattr(one, "evaluated") for one in observers):
        raise ValueError(f"observers must be a list, such as [TensorBoard(folder)], got {observers!r}")
    where = where or Execution()
    if not isinstance(where, Execution):
        raise ValueError(f"where must be an Execution, such as Execution(jobs=4), got {where!r}")
    many = cast("Sequence[Trainable]", train if isinstance(train, list | tuple) else [train])
    targets = [target_of(one, budget, name, processes, allow_early_stop) for one in many]
    lists = {"betas": betas, "seeds": seeds, "learning_rates": learning_rates, "baselines": baselines}
    values = {key: value for key, value in lists.items() if value is not None}
    plan = make_plan(out, targets, protocol, values, extend=extend, keep_runs=keep_runs)
    plan.check()
    if dry_run:
        print("\n".join(map(printable, plan_in_words(plan, where.workers(processes_of(plan))))))
        return plan.study
    return sweep(plan, where, quiet, observers)


def make_plan(
    out: str | Path,
    targets: Sequence[Target],
    protocol: str | Protocol,
    values: dict[str, Any],
    *,
    extend: bool = False,
    keep_runs: bool = False,
) -> Plan:
    """The plan for a folder; `protocol` is a name with its `values`, or a protocol value without `values`."""
    if isinstance(protocol, str):
        values = {"baselines": default_baselines(Path(out), targets)} | values
        protocol = protocol_from(protocol, **values)
    elif values:
        raise ValueError(f"the protocol is given as a value: put {', '.join(values)} into it")
    else:
        protocol = protocol_from(**protocol.as_data())  # which checks it
    return Plan(Path(out), targets, protocol, extend=extend, keep_runs=keep_runs)


def target_of(
    train: Trainable, budget: Any = None, name: str | None = None, processes: int = 1, allow_early_stop: bool = False
) -> Target:
    """The target for `train`: a target, a function, or the name of a function."""
    if hasattr(train, "described"):
        return cast("Target", train)
    if isinstance(train, str) and train.endswith(".py"):
        raise ValueError(f"{train} is a file; name its function too: {train}:FUNCTION, or run it as a command")
    if isinstance(train, str) and ":" not in train:
        lab = f"an experiment of the paper is oneclock.lab.experiment_target({train!r})"
        raise ValueError(f"{train!r} is neither file.py:function nor module:function; {lab}")
    if not isinstance(train, str) and not callable(train):
        raise ValueError(f"train must be a function, its name or a Command, got {train!r}")
    if budget is None:
        raise ValueError("give the budget of a run in steps: a function does not state it")
    return Function.of(cast("Any", train), checked_budget(budget), name, processes, allow_early_stop)


def sweep(plan: Plan, where: Execution, quiet: bool = False, observers: Sequence[Observer] = ()) -> Study:
    """Run the rest of a plan, and return its study; it raises what `run_sweep` raises."""
    plan.check()
    for target in plan.targets if where.scheduler is None else ():
        target.check_installed()
    with take_alone(plan.path) as claim:
        if claim.inherited:  # from one that was killed
            kill_left(Path(os.path.abspath(plan.path)))
            sweep_asides(plan.path)
        if any(plan.step(target).runs for target in plan.targets):
            refuse_packed(plan.path)
        plan.write()
        for folder, reason in plan.study.set_damaged_aside():
            words = f"damaged     {folder} was moved to damaged/ and runs again ({reason})"
            print(printable(words), file=sys.stderr)
        if any(plan.step(target).runs for target in plan.targets):
            with Driver(plan, where, claim, observers=observers) as driver:
                driver.drive(quiet)
    return plan.study


class Tried(NamedTuple):
    """The evaluations of a try, the seconds until its end, and when its first evaluation was seen."""

    points: list[Point]
    seconds: float
    first: tuple[int, float] = (0, 0.0)

    def whole(self, budget: int) -> float | None:
        """Seconds that a run of `budget` steps takes: the start once, then the pace from the first evaluation on.

        >>> Tried([Point(100), Point(300)], seconds=24.0, first=(100, 20.0)).whole(1_000)
        38.0
        """
        last = self.points[-1].step if self.points else 0
        step, seconds = self.first if self.first[0] < last else (0, 0.0)
        if not last:
            return None
        return seconds + (self.seconds - seconds) * (budget - step) / (last - step)


def try_target(target: Target, where: Execution, beta: float = 0.9, lr: float | None = None) -> Tried:
    """Train one run until its third evaluation or its end, in a temporary folder.

    RuntimeError if it fails, with the last lines that it printed.
    """
    protocol = Grid(betas=(beta,), seeds=target.seeds[:1], learning_rates=() if lr is None else (lr,))
    started, first = monotonic(), (0, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(Path(folder) / "try", [target], protocol)
        where = replace(where, jobs=1, scheduler=None, in_process=False, retries=0)
        (key,) = plan.keys(target)
        path = plan.run_path(key)
        with take_alone(plan.path) as claim:
            plan.write()
            with Driver(plan, where, claim) as driver:
                driver.submit()
                while not driver.asked:
                    ends = driver.engine.ended(timeout=0.2)
                    points = RunFolder.read(path).points() if (path / "run.json").exists() else []
                    if points and not first[0]:
                        first = points[-1].step, monotonic() - started
                    if ends and (result := ends[0].result) is not None and result.status == "failed":
                        lines = "".join(f"\n  {line}" for line in last_lines(path))
                        raise RuntimeError(f"the run failed: {result.reason}{lines}")
                    if ends or len(points) >= TRY:
                        return Tried(points, monotonic() - started, first)
                    time.sleep(0.1)
                raise KeyboardInterrupt


def plan_in_words(plan: Plan, workers: int | None = None) -> list[str]:
    """The plan and its cost in words, one line per target, then the sum; for a cluster, the time of one worker."""
    lines: list[str] = []
    left: dict[str, int] = {}
    for target in plan.targets:
        step, ended = plan.step(target), len(plan.losses(target))
        left[target.name] = step.at_most
        state = step.reason or f"at most {step.at_most} to go, {len(step.runs) or 'none'} now"
        lines.append(f"{target.name}: {have_ended(ended)}; {state}")
        if not getattr(target, "takes_seed", True):
            lines.append(f"{target.name}: the command has no {{seed}}: one run of each beta, so no interval")
        if getattr(target, "code", None) == {}:
            lines.append(f"{target.name}: it names no file of yours, so later changes of its code are not noticed")
    seconds = time_left(plan.rows(), left, workers or 1)
    where = f"{workers} workers" if workers and workers > 1 else "one worker"
    duration = f", about {span(seconds)} on {where}" if seconds else ""
    steps = sum(left[target.name] * target.budget for target in plan.targets)
    total = f"in all at most {sum(left.values())} runs of together {steps:,} steps{duration}"
    return [*lines, _axes(plan.described["protocol"]), *([total] if steps else [])]


def _axes(protocol: Mapping[str, Any]) -> str:
    """What may run, from a protocol's description.

    >>> _axes(protocol_from("grid", betas=[0.5, 0.9], seeds=[1, 2], baselines=[(0.9, 0.999)]).as_data())
    'betas 0.5, 0.9; baselines 0.9/0.999; seeds 1, 2'
    """
    words = []
    for name in ("betas", "learning_rates", "baselines", "seeds"):
        values = [one if isinstance(one, list | tuple) else (one,) for one in protocol.get(name) or ()]
        shown = ", ".join("/".join(f"{part:g}" for part in one) for one in values)
        words += [f"{name.replace('_', ' ')} {shown}"] if shown else []
    return "; ".join(words)
