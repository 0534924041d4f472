"""A sweep from start to end: plan, claim, submit, watch. The same call again continues where it stopped."""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from oneclock.plain_text import printable
from oneclock.study.claims import Claim
from oneclock.study.files import sweep_asides
from oneclock.study.folder import Row, Study
from oneclock.study.records import Result
from oneclock.study.sharing import take_alone
from oneclock.sweep.adopt import adopt_all
from oneclock.sweep.cluster import Dask, check
from oneclock.sweep.commands import NO_CURVE, Command
from oneclock.sweep.engine import Engine, InProcess
from oneclock.sweep.job import Ended, Job, kill_left
from oneclock.sweep.live import Display
from oneclock.sweep.local import Local, slots
from oneclock.sweep.plan import Plan, usual_arms
from oneclock.sweep.progress import Progress, span, time_left
from oneclock.sweep.protocol import Cell, Protocol, protocol_from
from oneclock.sweep.server import GRACE
from oneclock.sweep.stop import Stop
from oneclock.sweep.targets import Named, Target, target_from, with_data


@dataclass(frozen=True)
class Where:
    """Where and how runs execute; none of it changes a result.

    `jobs` runs at a time (default: one per core or GPU) with `threads` threads and `gpus_per_run` GPUs each; or the
    workers of `scheduler`, a Dask cluster or its address, with TLS or on loopback unless `insecure`; or `in_process`. A
    run that dies is tried again `retries` times; one that takes longer than `timeout` seconds is killed. A run that is
    to end has `grace` seconds to save what it can.
    """

    jobs: int | None = None
    threads: int = 1
    gpus_per_run: float = 1.0
    scheduler: Any = None
    in_process: bool = False
    retries: int = 2
    timeout: float | None = None
    insecure: bool = False
    grace: float = GRACE

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

    def workers(self, processes: int = 1) -> int | None:
        """How many runs of so many processes it takes at a time; None where a cluster knows."""
        if self.scheduler is not None:
            return None
        return 1 if self.in_process else slots(self.jobs, self._gpus(processes), self.threads, processes)

    def engine(self, modules: tuple[str, ...] = (), processes: int = 1) -> Engine:
        """The place to run; `modules` are those that the runs will import, `processes` those of one run."""
        if self.in_process:
            return InProcess()
        if self.scheduler:
            return Dask(self.scheduler, self.insecure)
        return Local(self.jobs, self._gpus(processes), self.threads, modules, self.grace, processes)

    def _gpus(self, processes: int) -> float:
        return self.gpus_per_run if processes == 1 else max(self.gpus_per_run, processes)


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
    second: Literal["top_k", "window", "neighbours"] | None = None,
    keep: int | None = None,
    max_runs: int | None = None,
    name: str | None = None,
    settings: Sequence[str] = (),
    data_dir: str | Path | None = None,
    extend: bool = False,
    keep_runs: bool = False,
    adopt: str | Path | Sequence[str | Path] = (),
    quiet: bool = False,
    jobs: int | None = None,
    threads: int = 1,
    gpus_per_run: float = 1.0,
    scheduler: Any = None,
    insecure: bool = False,
    in_process: bool = False,
    retries: int = 2,
    timeout: float | None = None,
    processes: int = 1,
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
        arms: Untied pairs (beta1, beta2) beside the sweep (default: (0.9, 0.999) and (0.9, 0.95) beside experiments,
            none beside a function); `()` for none.
        second: Which betas get the other seeds in `paper`: the best (`top_k`), those around the best (`window`), or
            the neighbours with the smallest sum (`neighbours`), as the paper's losses have them.
        keep: How many betas get the other seeds in `paper` (default: 5).
        max_runs: How many runs `adaptive` may spend (default: 10).
        name: What to call a function's experiment.
        settings: Settings of an experiment, as `optimizer.lr=0.003`.
        data_dir: Where the data of an experiment lie (default: ONECLOCK_DATA, or caches).
        extend: Add betas, seeds, rates, arms or experiments to the study in the folder.
        keep_runs: Keep the runs in the folder although the code behind them has changed.
        adopt: Where runs that have ended elsewhere are taken from, one place or several: another study, a long table,
            a log. What the plan may want of them is not trained again.
        quiet: Print nothing.
        jobs: Runs at a time (default: one per core or GPU), with `threads` threads and `gpus_per_run` GPUs each.
        scheduler: A Dask cluster to run on instead, or its address.
        insecure: Trust the network between here and a cluster that has no TLS.
        in_process: Run one after another in this process, for a debugger.
        retries: How often a run that dies is tried again.
        timeout: Seconds after which a run counts as hung.
        processes: Processes of one run of an experiment, whose batch is then as many times as large, or of a function
            that is named (`file.py:function`); torchrun starts them.

    Returns:
        The study: `best()`, `choice()`, `table()`, `rows()`.

    Raises:
        ValueError: Where the values make no sense, or the folder holds another study or runs of other code.
        OSError: Where the disk takes nothing more; once it does, the same call goes on.
        KeyboardInterrupt: Where it was asked to stop, by Ctrl-C or SIGTERM.

    >>> import tempfile
    >>> def train(beta, seed, run):
    ...     run.log(run.budget, val_loss=(beta - 0.9) ** 2 + 1)
    >>> out = tempfile.mkdtemp()
    >>> study = run_sweep(train, 100, out, betas=[0.5, 0.9, 0.95], seeds=[1], in_process=True, quiet=True)
    >>> study.choice()
    0.9
    """
    many = train if isinstance(train, Sequence) and not isinstance(train, str) else [train]
    targets = [target_from(one, budget, name=name, settings=tuple(settings), processes=processes) for one in many]
    targets = with_data(targets, None if data_dir is None else Path(data_dir))
    where = Where(jobs, threads, gpus_per_run, scheduler, in_process, retries, timeout, insecure)
    asked: dict[str, Any] = {"betas": betas, "seeds": seeds, "rates": rates, "arms": arms}
    asked |= {"second": second, "keep": keep, "max_runs": max_runs}
    values = {key: value for key, value in asked.items() if value is not None}
    if arms is None and isinstance(protocol, str):
        values["arms"] = usual_arms(Path(out), targets)
    plan = Plan(Path(out), targets, _protocol(protocol, values), extend=extend, keep_runs=keep_runs)
    _adopt(plan, [adopt] if isinstance(adopt, str | Path) else adopt, quiet)
    return sweep(plan, where, quiet)


def _adopt(plan: Plan, sources: Sequence[str | Path], quiet: bool) -> None:
    if not sources:
        return
    plan.check()
    for line in adopt_all(plan, sources):
        if not quiet:
            print(printable(line))


def sweep(plan: Plan, where: Where, quiet: bool = False) -> Study:
    """Run what is left of a plan, and return its study; what is raised is told in `run_sweep`."""
    plan.check()
    for target in plan.targets if where.scheduler is None else ():
        if isinstance(target, Named):
            target.check_installed()
    with take_alone(plan.path).keep_alive() as claim:
        if claim.inherited:  # from one that was killed
            kill_left(Path(os.path.abspath(plan.path)))
            sweep_asides(plan.path)
        plan.write()
        for folder, reason in plan.study.set_damaged_aside():
            told = printable(f"torn        {folder} was set aside in torn/ and runs anew ({reason})")
            print(told, file=sys.stderr)
        if any(plan.step(target).runs for target in plan.targets):
            plan.study.unpack()
            modules = modules_of(plan)
            engine = where.engine(modules, processes_of(plan))
            with Stop(engine.wake, again=engine.hurry) as stop, at_work(claim, engine):
                driver = Driver(plan, where, claim, engine, modules)
                with Display(driver.progress, engine, quiet) as display:
                    driver.drive(display, stop)
    return plan.study


def plan_in_words(plan: Plan, workers: int | None = None) -> list[str]:
    """The plan and its cost in words, one line per target, then the sum; of a cluster the time of one worker."""
    lines: list[str] = []
    left: dict[str, int] = {}
    steps = 0
    for target in plan.targets:
        step, ended = plan.step(target), len(plan.losses(target))
        left[target.name] = step.at_most
        steps += step.at_most * target.budget
        state = step.reason or f"at most {step.at_most} to go, {len(step.runs)} of them now"
        lines.append(f"{target.name}: {ended} runs have ended; {state}")
        if isinstance(target, Command) and not target.takes_seed:
            lines.append(f"{target.name}: the command has no {{seed}}: one run of each beta, so no interval")
    lines.append(_axes(plan.protocol))
    seconds = time_left(plan.rows(), left, workers or 1)
    where = f"{workers} workers" if workers and workers > 1 else "one worker"
    time = f", about {span(seconds)} on {where}" if seconds else ""
    return [*lines, f"in all at most {sum(left.values())} runs of together {steps:,} steps{time}"]


def _axes(protocol: Protocol) -> str:
    """The betas that may run, and what is crossed with them or runs beside.

    >>> _axes(protocol_from("grid", betas=[0.5, 0.9], arms=[(0.9, 0.999)]))
    'betas 0.5, 0.9; pairs 0.9/0.999'
    """
    pairs = [f"{one:g}/{two:g}" for one, two in protocol.arms]
    rates = [f"{rate:g}" for rate in getattr(protocol, "rates", ())]
    axes = {"betas": [f"{beta:g}" for beta in protocol.betas], "rates": rates, "pairs": pairs}
    return "; ".join(f"{name} {', '.join(values)}" for name, values in axes.items() if values)


def _protocol(protocol: str | Protocol, values: dict[str, Any]) -> Protocol:
    if isinstance(protocol, str):
        return protocol_from(protocol, **values)
    if values:
        raise ValueError(f"the protocol is given whole: {', '.join(values)} cannot be given beside it")
    return protocol


def modules_of(plan: Plan) -> tuple[str, ...]:
    """What the runs of a plan will import."""
    return tuple(dict.fromkeys(name for target in plan.targets for name in target.modules()))


def processes_of(plan: Plan) -> int:
    """The processes of a run of the plan, at most."""
    return max(target.processes for target in plan.targets)


@contextmanager
def at_work(claim: Claim, engine: Engine) -> Iterator[None]:
    """The time in which runs execute; nothing of it is left running."""
    try:
        yield
    finally:
        claim.release()  # runs on other machines see it and stop
        engine.close()


class Driver:
    """Has runs executed until the protocol wants no more. What has ended is remembered, not looked up again."""

    waits = True

    def __init__(self, plan: Plan, where: Where, claim: Claim, engine: Engine, modules: tuple[str, ...]) -> None:
        self.plan, self.where, self.claim, self.engine, self.modules = plan, where, claim, engine, modules
        self.progress = Progress(plan)
        self.due = {target.name: target for target in plan.targets}
        self.waiting: dict[str, deque[Job]] = {target.name: deque() for target in plan.targets}
        self.handed = 0

    @property
    def more(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self.progress.flying)

    def drive(self, display: Display, stop: Stop) -> None:
        self.submit()
        while self.more:
            display.update()
            ends = self.engine.ended(timeout=1.0)
            if stop.asked:
                raise KeyboardInterrupt
            if self.claim.lost:
                raise ValueError(f"others have taken over {self.plan.path}: this process was not seen alive for long")
            for end in ends:
                target, row = self.progress.end(end.path, _result(end))
                self.handed -= 1
                self.due[target.name] = target
                display.ended(row)
                self.refuse_silence(target, row)
            self.submit()

    def refuse_silence(self, target: Target, row: Row) -> None:
        """ValueError where a command's first run to end by itself left no curve: the others would leave none either."""
        if not (row.reason or "").startswith(NO_CURVE):
            return
        losses = self.plan.losses(target).values()
        if all(math.isnan(loss) for loss in losses):
            raise ValueError(
                f"the sweep stops here, for its first run ended without a curve ({row.reason}); have the command print "
                "or log a step and a val_loss, or name its log with --log, and sweep into another folder"
            )

    def submit(self) -> None:
        """Hand the engine as many runs as it has workers, and one to wait; those of the first target come first.

        A protocol looks at all that has ended: it is asked for more of a target only when none of its runs wait.
        """
        for name in [name for name in self.due if not self.waiting[name]]:
            target = self.due.pop(name)
            new = self.progress.plan(target, self.plan.step(target))
            self.waiting[name].extend(self.job(target, cell) for cell in new)
        for jobs in self.waiting.values():
            while jobs and self.handed <= self.engine.workers:
                self.engine.submit(jobs.popleft())
                self.handed += 1

    def job(self, target: Target, cell: Cell) -> Job:
        return Job(
            path=os.path.abspath(self.plan.place(target, cell)),
            target=target,
            cell=cell,
            claim=os.path.abspath(self.claim.path),
            folder=os.getcwd(),
            search=tuple(entry or os.getcwd() for entry in sys.path),
            modules=self.modules,
            retries=self.where.retries,
            timeout=self.where.timeout,
            waits=self.waits,
        )


def _result(end: Ended) -> Result | None:
    """How a run ended; OSError where the disk takes nothing: no other run would fare better, and none is lost."""
    if end.trouble is not None:
        why = f"the disk takes nothing more ({end.trouble})"
        raise OSError(f"{why}; no run is lost: mend that, and the same command goes on")
    return end.result
