"""A sweep from start to end: plan, claim, submit, watch. The same call again continues where it stopped."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneclock.study.claims import Claim
from oneclock.sweep.engine import Dask, Engine, InProcess
from oneclock.sweep.live import Display, span, time_left
from oneclock.sweep.process import Job
from oneclock.sweep.protocol import Cell, Protocol, protocol_from
from oneclock.sweep.study import Study
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
    name: str | None = None,
    extend: bool = False,
    quiet: bool = False,
    jobs: int | None = None,
    threads: int = 1,
    gpus_per_run: float = 1.0,
    scheduler: str | None = None,
    in_process: bool = False,
    retries: int = 2,
    timeout: float | None = None,
    **values: Any,
) -> Study:
    """Sweep beta over `train` and return the study; called again with the same values it continues.

    `train(beta, seed, run)` is your function (or `file.py:function`, an experiment's name, or a list of those) and
    `budget` its length in steps. `protocol` is `paper`, `grid` or `adaptive`; `betas`, `seeds`, `arms`, `max_runs`, ..
    are its values. With `extend` it adds betas, seeds, arms or experiments to a study that is there.

    >>> import tempfile
    >>> def train(beta, seed, run):
    ...     run.log(run.budget, val_loss=(beta - 0.9) ** 2 + 1)
    >>> study = run_sweep(train, 100, tempfile.mkdtemp(), betas=[0.5, 0.9], seeds=[1], in_process=True, quiet=True)
    >>> study.choice()
    0.9
    """
    many = train if isinstance(train, Sequence) and not isinstance(train, str) else [train]
    targets = [target_from(one, budget, name=name) for one in many]
    where = Where(jobs, threads, gpus_per_run, scheduler, in_process, retries, timeout)
    return sweep(Study(Path(out), targets, _protocol(protocol, values), extend=extend), where, quiet)


def sweep(study: Study, where: Where, quiet: bool = False) -> Study:
    """Run what is left of a study."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError("a script that sweeps needs `if __name__ == '__main__':` around the call: workers import it")
    study.check()
    with Claim.take(study.path).keep_alive() as claim:
        study.write()
        for place, reason in study.set_torn_aside():
            print(f"torn        {place} was set aside and runs anew ({reason})", file=sys.stderr)
        if not any(study.step(target).runs for target in study.targets):
            return study
        engine = where.engine(_modules(study))
        try:
            with Display(study, engine.workers, engine.dashboard, quiet) as display:
                _drive(study, where, engine, claim, display)
        finally:
            claim.release()  # runs see it and stop
            engine.close()
    return study


def plan(study: Study, workers: int | None = None) -> list[str]:
    """The plan and its cost in words, one line per target, then the sum."""
    lines: list[str] = []
    left: dict[str, int] = {}
    steps = 0
    for target in study.targets:
        step, ended = study.step(target), len(study.losses(target))
        left[target.name] = step.at_most
        steps += step.at_most * target.budget
        state = step.reason or f"at most {step.at_most} to go, {len(step.runs)} of them now"
        lines.append(f"{target.name}: {ended} runs have ended; {state}")
    seconds = time_left(study.rows(), left, workers or 1)
    time = f", about {span(seconds)} on {workers or 1} worker(s)" if seconds else ""
    return [*lines, f"in all at most {sum(left.values())} runs of together {steps:,} steps{time}"]


def _protocol(protocol: str | Protocol, values: dict[str, Any]) -> Protocol:
    if isinstance(protocol, str):
        return protocol_from(protocol, **values)
    if values:
        raise ValueError(f"the protocol is given whole: {', '.join(values)} cannot be given beside it")
    return protocol


def _drive(study: Study, where: Where, engine: Engine, claim: Claim, display: Display) -> None:
    flying: dict[Path, tuple[Target, Cell]] = {}
    modules = _modules(study)
    while True:
        if claim.lost:
            raise ValueError(f"another sweep has taken over {study.path}: this one was not seen alive for too long")
        for target in study.targets:
            for cell in study.step(target).runs:
                path = study.folder(target, cell)
                if path not in flying:
                    flying[path] = target, cell
                    engine.submit(_job(path, target, cell, claim, where, modules))
        if not flying:
            return
        display.update()
        for end in engine.ended(timeout=1.0):
            target, cell = flying.pop(Path(end.path))
            if end.result is not None:
                study.remember(Path(end.path), end.result)
                display.ended(study.row(target, cell))


def _modules(study: Study) -> tuple[str, ...]:
    """What the runs of a study import, each once: one server has it all."""
    return tuple(dict.fromkeys(name for target in study.targets for name in target.modules()))


def _job(path: Path, target: Target, cell: Cell, claim: Claim, where: Where, modules: tuple[str, ...]) -> Job:
    return Job(
        path=str(path),
        target=target,
        beta=cell.beta,
        seed=cell.seed,
        claim=str(claim.path),
        folder=os.getcwd(),
        search=tuple(entry or os.getcwd() for entry in sys.path),
        modules=modules,
        retries=where.retries,
        timeout=where.timeout,
    )
