"""A sweep from start to end: plan, claim, submit, watch. The same call again continues where it stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneclock.study.claims import Claim
from oneclock.sweep.cluster import Dask, check
from oneclock.sweep.engine import Engine, InProcess
from oneclock.sweep.job import Ended, Job
from oneclock.sweep.live import Display, span, time_left
from oneclock.sweep.local import Local
from oneclock.sweep.progress import Progress
from oneclock.sweep.protocol import Cell, Protocol, protocol_from
from oneclock.sweep.stop import Stop
from oneclock.sweep.study import Study
from oneclock.sweep.targets import Target, target_from


@dataclass(frozen=True)
class Where:
    """Where and how runs execute; none of it changes a result.

    `jobs` runs at a time (default: one per core or GPU) with `threads` threads and `gpus_per_run` GPUs each; or the
    workers of `scheduler`, a Dask cluster or its address, with TLS or on loopback unless `insecure`; or `in_process`. A
    run that dies is tried again `retries` times; one that takes longer than `timeout` seconds is killed.
    """

    jobs: int | None = None
    threads: int = 1
    gpus_per_run: float = 1.0
    scheduler: Any = None
    in_process: bool = False
    retries: int = 2
    timeout: float | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        for name, least in (("jobs", 1), ("threads", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout:g}")
        if self.scheduler and self.jobs:
            raise ValueError("the workers of a scheduler are its own: give jobs or a scheduler, not both")
        if isinstance(self.scheduler, str):
            check(self.scheduler, self.insecure)

    def engine(self, modules: tuple[str, ...] = ()) -> Engine:
        """The place to run; `modules` are those that the runs will import."""
        if self.in_process:
            return InProcess()
        if self.scheduler:
            return Dask(self.scheduler, self.insecure)
        return Local(self.jobs, self.gpus_per_run, self.threads, modules)


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
    scheduler: Any = None,
    insecure: bool = False,
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
    where = Where(jobs, threads, gpus_per_run, scheduler, in_process, retries, timeout, insecure)
    return sweep(Study(Path(out), targets, _protocol(protocol, values), extend=extend), where, quiet)


def sweep(study: Study, where: Where, quiet: bool = False) -> Study:
    """Run what is left of a study. KeyboardInterrupt where it was asked to stop, OSError where the disk is full."""
    study.check()
    with Claim.take(study.path).keep_alive() as claim:
        study.write()
        for place, reason in study.set_torn_aside():
            print(f"torn        {place} was set aside and runs anew ({reason})", file=sys.stderr)
        if any(study.step(target).runs for target in study.targets):
            _run(study, where, claim, quiet)
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


def _run(study: Study, where: Where, claim: Claim, quiet: bool) -> None:
    driver = _Driver(study, where, claim)
    with Stop(driver.engine.wake, again=driver.engine.hurry) as stop:
        try:
            with Display(driver.progress, driver.engine, quiet) as display:
                driver.drive(display, stop)
        finally:
            claim.release()  # runs on other machines see it and stop
            driver.engine.close()


class _Driver:
    """Has runs executed until the protocol wants no more. What has ended is remembered, not looked up again."""

    def __init__(self, study: Study, where: Where, claim: Claim) -> None:
        self.study, self.where, self.claim = study, where, claim
        self.modules = tuple(dict.fromkeys(name for target in study.targets for name in target.modules()))
        self.engine = where.engine(self.modules)
        self.progress = Progress(study)

    def drive(self, display: Display, stop: Stop) -> None:
        self.submit(self.study.targets)
        while self.progress.flying:
            display.update()
            ends = self.engine.ended(timeout=1.0)
            if stop.asked:
                raise KeyboardInterrupt
            if self.claim.lost:
                raise ValueError(
                    f"another sweep has taken over {self.study.path}: this one was not seen alive for long"
                )
            self.submit(self.take(ends, display))

    def submit(self, targets: Iterable[Target]) -> None:
        """Hand over the runs that the protocol wants now."""
        for target in targets:
            for cell in self.progress.plan(target, self.study.step(target)):
                self.engine.submit(self.job(target, cell))

    def take(self, ends: Iterable[Ended], display: Display) -> list[Target]:
        """Note what has ended; the targets of which the protocol may now want more."""
        found: dict[str, Target] = {}
        for end in ends:
            if end.trouble is not None:
                why = f"the disk takes nothing more ({end.trouble})"
                raise OSError(f"{why}; no run is lost: mend that, and the same command goes on")
            if end.result is not None:
                target = self.progress.end(end.path, end.result)
                display.ended(self.progress.last)
                found[target.name] = target
        return list(found.values())

    def job(self, target: Target, cell: Cell) -> Job:
        return Job(
            path=os.path.abspath(self.study.folder(target, cell)),
            target=target,
            beta=cell.beta,
            seed=cell.seed,
            claim=os.path.abspath(self.claim.path),
            folder=os.getcwd(),
            search=tuple(entry or os.getcwd() for entry in sys.path),
            modules=self.modules,
            retries=self.where.retries,
            timeout=self.where.timeout,
        )
