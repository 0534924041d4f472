"""A sweep from start to end: plan, claim, submit, watch. The same call again continues where it stopped."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from oneclock.study.claims import Claim
from oneclock.study.folder import Study
from oneclock.sweep.engine import Dask, Engine, InProcess
from oneclock.sweep.live import Display, span, time_left
from oneclock.sweep.plan import Plan
from oneclock.sweep.process import Job
from oneclock.sweep.protocol import Cell, Protocol, protocol_from
from oneclock.sweep.targets import Target, target_from


@dataclass(frozen=True)
class Where:
    """Where and how runs execute; none of it changes a result.

    `jobs` runs at a time (default: one per core or GPU) with `threads` threads and `gpus_per_run` GPUs each; or the
    workers of `scheduler`; or `in_process`. A run that dies is tried again `retries` times; one that takes longer than
    `timeout` seconds is killed.
    """

    jobs: int | None = None
    threads: int = 1
    gpus_per_run: float = 1.0
    scheduler: str | None = None
    in_process: bool = False
    retries: int = 2
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("jobs", 1), ("threads", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout:g}")
        if self.scheduler and self.jobs:
            raise ValueError("the workers of a scheduler are its own: give jobs or a scheduler, not both")

    def engine(self, modules: tuple[str, ...] = ()) -> Engine:
        """The place to run; `modules` are those that the runs will import."""
        if self.in_process:
            return InProcess()
        return Dask(self.scheduler, self.jobs, self.gpus_per_run, self.threads, modules)


def run_sweep(
    train: str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
    budget: int | None = None,
    out: str | Path = "study",
    *,
    protocol: str | Protocol = "paper",
    betas: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
    arms: Sequence[tuple[float, float]] | None = None,
    second: Literal["top_k", "window"] | None = None,
    keep: int | None = None,
    max_runs: int | None = None,
    name: str | None = None,
    extend: bool = False,
    keep_runs: bool = False,
    quiet: bool = False,
    jobs: int | None = None,
    threads: int = 1,
    gpus_per_run: float = 1.0,
    scheduler: str | None = None,
    in_process: bool = False,
    retries: int = 2,
    timeout: float | None = None,
) -> Study:
    """Sweep beta over `train` and return the study; called again with the same values it continues.

    Args:
        train: Your function `train(beta, seed, run)`, or `file.py:function`, an experiment's name, or a list of those.
        budget: The length of a run in steps; an experiment has its own.
        out: The study's folder.
        protocol: Which runs: `paper`, `grid` or `adaptive`, or a protocol value.
        betas: The betas to sweep (default: the paper's 13).
        seeds: The seeds (default: 1, 2, 3, or what an experiment says).
        rates: Learning rates to cross with the betas, for `grid`: factors on an experiment's own, or the `lr` that
            your function then takes.
        arms: Untied pairs (beta1, beta2) beside the sweep.
        second: Which betas get the other seeds in `paper`: the best (`top_k`), or neighbours of the best (`window`).
        keep: How many betas get the other seeds in `paper` (default: 5).
        max_runs: How many runs `adaptive` may spend (default: 10).
        name: What to call a function's experiment.
        extend: Add betas, seeds, rates, arms or experiments to the study in the folder.
        keep_runs: Keep the runs in the folder although the code behind them has changed.
        quiet: Print nothing.
        jobs: Runs at a time (default: one per core or GPU), with `threads` threads and `gpus_per_run` GPUs each.
        scheduler: The address of a Dask cluster to run on instead.
        in_process: Run one after another in this process, for a debugger.
        retries: How often a run that dies is tried again.
        timeout: Seconds after which a run counts as hung.

    Returns:
        The study: `best()`, `choice()`, `table()`, `rows()`.

    Raises:
        ValueError: Where the values make no sense, or the folder holds another study or runs of other code.

    >>> import tempfile
    >>> def train(beta, seed, run):
    ...     run.log(run.budget, val_loss=(beta - 0.9) ** 2 + 1)
    >>> out = tempfile.mkdtemp()
    >>> study = run_sweep(train, 100, out, betas=[0.5, 0.9, 0.95], seeds=[1], in_process=True, quiet=True)
    >>> study.choice()
    0.9
    """
    many = train if isinstance(train, Sequence) and not isinstance(train, str) else [train]
    targets = [target_from(one, budget, name=name) for one in many]
    where = Where(jobs, threads, gpus_per_run, scheduler, in_process, retries, timeout)
    asked: dict[str, Any] = {"betas": betas, "seeds": seeds, "rates": rates, "arms": arms}
    asked |= {"second": second, "keep": keep, "max_runs": max_runs}
    values = {key: value for key, value in asked.items() if value is not None}
    plan = Plan(Path(out), targets, _protocol(protocol, values), extend=extend, keep_runs=keep_runs)
    return sweep(plan, where, quiet)


def sweep(plan: Plan, where: Where, quiet: bool = False) -> Study:
    """Run what is left of a plan, and return its study."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError("a script that sweeps needs `if __name__ == '__main__':` around the call: workers import it")
    plan.check()
    with Claim.take(plan.path).keep_alive() as claim:
        plan.write()
        for folder, reason in plan.study.set_damaged_aside():
            print(f"torn        {folder} was set aside in torn/ and runs anew ({reason})", file=sys.stderr)
        if not any(plan.step(target).runs for target in plan.targets):
            return plan.study
        engine = where.engine(_modules(plan))
        try:
            with Display(plan, engine.workers, engine.dashboard, quiet) as display:
                _drive(plan, where, engine, claim, display)
        finally:
            claim.release()  # runs see it and stop
            engine.close()
    return plan.study


def in_words(plan: Plan, workers: int | None = None) -> list[str]:
    """The plan and its cost in words, one line per target, then the sum."""
    lines: list[str] = []
    left: dict[str, int] = {}
    steps = 0
    for target in plan.targets:
        step, ended = plan.step(target), len(plan.losses(target))
        left[target.name] = step.at_most
        steps += step.at_most * target.budget
        state = step.reason or f"at most {step.at_most} to go, {len(step.runs)} of them now"
        lines.append(f"{target.name}: {ended} runs have ended; {state}")
    seconds = time_left(plan.rows(), left, workers or 1)
    time = f", about {span(seconds)} on {workers or 1} worker(s)" if seconds else ""
    return [*lines, f"in all at most {sum(left.values())} runs of together {steps:,} steps{time}"]


def _protocol(protocol: str | Protocol, values: dict[str, Any]) -> Protocol:
    if isinstance(protocol, str):
        return protocol_from(protocol, **values)
    if values:
        raise ValueError(f"the protocol is given whole: {', '.join(values)} cannot be given beside it")
    return protocol


def _drive(plan: Plan, where: Where, engine: Engine, claim: Claim, display: Display) -> None:
    flying: dict[Path, tuple[Target, Cell]] = {}
    modules = _modules(plan)
    while True:
        if claim.lost:
            raise ValueError(f"another sweep has taken over {plan.path}: this one was not seen alive for too long")
        for target, cell in _next(plan, engine.workers + 1, flying):  # one waits, so that no worker does
            path = plan.place(target, cell)
            flying[path] = target, cell
            engine.submit(_job(path, target, cell, claim, where, modules))
        if not flying:
            return
        display.update()
        for end in engine.ended(timeout=1.0):
            target, cell = flying.pop(Path(end.path))
            if end.result is not None:
                plan.remember(target, cell, end.result)
                display.ended(plan.row(target, cell))


def _next(plan: Plan, most: int, flying: Collection[Path]) -> list[tuple[Target, Cell]]:
    """The runs to start so that at most so many are under way: of the first target that wants any, as they come."""
    wanted = ((target, cell) for target in plan.targets for cell in plan.step(target).runs)
    waiting = ((target, cell) for target, cell in wanted if plan.place(target, cell) not in flying)
    return list(islice(waiting, max(most - len(flying), 0)))


def _modules(plan: Plan) -> tuple[str, ...]:
    """What the runs of a study import, each once: one server has it all."""
    return tuple(dict.fromkeys(name for target in plan.targets for name in target.modules()))


def _job(path: Path, target: Target, cell: Cell, claim: Claim, where: Where, modules: tuple[str, ...]) -> Job:
    return Job(
        path=str(path),
        target=target,
        cell=cell,
        claim=str(claim.path),
        folder=os.getcwd(),
        search=tuple(entry or os.getcwd() for entry in sys.path),
        modules=modules,
        retries=where.retries,
        timeout=where.timeout,
    )
