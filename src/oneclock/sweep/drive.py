"""A sweep from start to end: plan, claim, submit, watch. The same call again continues where it stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from oneclock.plain_text import printable
from oneclock.study.files import sweep_asides
from oneclock.study.folder import Study
from oneclock.study.sharing import take_alone
from oneclock.sweep.adopt import adopt_all
from oneclock.sweep.commands import Command
from oneclock.sweep.driver import Driver, at_work, modules_of, processes_of
from oneclock.sweep.job import kill_left
from oneclock.sweep.live import Display
from oneclock.sweep.named import Named
from oneclock.sweep.plan import Plan, usual_arms
from oneclock.sweep.progress import have_ended, span, time_left
from oneclock.sweep.protocol import Protocol, protocol_from
from oneclock.sweep.stop import Stop
from oneclock.sweep.targets import target_from, with_data
from oneclock.sweep.where import Where


def run_sweep(
    train: str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
    budget: int | None = None,
    out: str | Path = "study",
    *,
    protocol: str | Protocol = "paper",
    betas: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
    again: Sequence[int] | None = None,
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
        rates: Learning rates to sweep too, for `grid` and `adaptive`: factors on an experiment's own, or the `lr` that
            your function then takes.
        again: Seeds that come last in `grid`, for each beta at its own best rate: they have chosen nothing.
        arms: Untied pairs (beta1, beta2) beside the sweep (default: (0.9, 0.999) and (0.9, 0.95) beside experiments,
            none beside a function); `()` for none.
        second: Which betas get the other seeds in `paper`: the best (`top_k`), those around the best (`window`), or
            the neighbours with the smallest sum (`neighbours`), as the paper's losses have them.
        keep: How many betas get the other seeds in `paper` (default: 5).
        max_runs: How many runs `adaptive` may spend (default: 10, with rates 36).
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
    asked: dict[str, Any] = {"betas": betas, "seeds": seeds, "rates": rates, "again": again, "arms": arms}
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
    with take_alone(plan.path) as claim:
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
        lines.append(f"{target.name}: {have_ended(ended)}; {state}")
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
