"""`oneclock sweep`: many runs over beta, on this machine or a cluster; the same command again continues."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneclock.cli.numbers import count
from oneclock.plain_text import printable

if TYPE_CHECKING:
    from oneclock.sweep import Plan, Where
    from oneclock.sweep.protocol import Protocol
    from oneclock.sweep.targets import Target


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="An experiment, file.py:function or module:function."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The study's folder.")] = Path("study"),
    budget: Annotated[
        float | None, typer.Option(parser=count, help="Steps of one run, as 20000 or 20k; an experiment has its own.")
    ] = None,
    run_command: Annotated[
        str | None,
        typer.Option(
            "--command", help="A command instead: 'python train.py --beta {beta} --seed {seed} --out {folder}'."
        ),
    ] = None,
    log: Annotated[str, typer.Option(help="Where that command writes its log or CSV.")] = "{folder}",
    name: Annotated[str | None, typer.Option(help="What the study calls the function or command.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the experiment.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the data of an experiment lies; else ONECLOCK_DATA or caches.")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="paper (the default), grid or adaptive.")] = None,
    betas: Annotated[str | None, typer.Option(help="0.9,0.99: instead of the paper's thirteen.")] = None,
    seeds: Annotated[str | None, typer.Option(help="1,2,3")] = None,
    arms: Annotated[
        str | None,
        typer.Option(help="Pairs beside the sweep; of an experiment, or {beta1} and {beta2}: 0.9/0.999,0.9/0.95."),
    ] = None,
    no_arms: Annotated[bool, typer.Option("--no-arms", help="No pairs beside the sweep.")] = False,
    rates: Annotated[
        str | None,
        typer.Option(help="grid, adaptive: learning rates too: factors 0.5,1,2 on an experiment's, else {lr} or lr=."),
    ] = None,
    again: Annotated[
        str | None, typer.Option(help="grid: seeds 4,5,6 that come last, for each beta at its own best rate.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="paper: which betas get more seeds: top_k, window or neighbours.")
    ] = None,
    max_runs: Annotated[int | None, typer.Option(help="adaptive: stop there. Default: 10, with --rates 36.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; default: cores, or GPUs.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of one run.")] = 1,
    gpus_per_run: Annotated[float, typer.Option(help="GPUs of one run, or a fraction of one.")] = 1.0,
    processes: Annotated[
        int, typer.Option(help="Processes of one run, by torchrun; a command for them begins with python.")
    ] = 1,
    scheduler: Annotated[str | None, typer.Option(help="A Dask cluster instead: tls://host:port.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Trust the network between here and a cluster without TLS.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option(help="slurm: submit workers and return; or a Dask cluster: tls://host:port.")
    ] = None,
    array: Annotated[int | None, typer.Option(help="slurm: how many jobs share the runs.", show_default="1")] = None,
    time: Annotated[
        str | None, typer.Option(help="slurm: a job's time, 24:00:00; it is queued again after it.")
    ] = None,
    partition: Annotated[str | None, typer.Option(help="slurm: the partition.")] = None,
    gres: Annotated[str | None, typer.Option(help="slurm: what a job needs, gpu:1.")] = None,
    sbatch: Annotated[str | None, typer.Option(help="slurm: more options of sbatch, '--mem=16G --account=a'.")] = None,
    idle: Annotated[
        float | None, typer.Option(help="slurm: a job ends after so many seconds with nothing to take.")
    ] = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="All in this process, to debug.")] = False,
    retries: Annotated[int, typer.Option(help="How often a run that died is tried again.")] = 2,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as hung.")] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Add betas, rates, seeds, arms or experiments to the study in the folder.")
    ] = False,
    keep_runs: Annotated[
        bool,
        typer.Option("--keep-runs", help="Go on in the folder although the code behind its runs has changed."),
    ] = False,
    adopt: Annotated[
        list[Path] | None,
        typer.Option(help="Take runs that have ended elsewhere: another study, a long table, a log. May be repeated."),
    ] = None,
    with_report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the study's report at the end, where it can be drawn.")
    ] = True,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Write the plan and run nothing: `oneclock work` does, anywhere.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost, run nothing.")] = False,
) -> None:
    """Sweep beta by the paper's protocol. It survives a crash: the same command again continues.

    oneclock sweep train.py:train --budget 20000 --out mystudy

    oneclock sweep --command "python train.py --beta {beta} --seed {seed} --out {folder}" --budget 20000 --out mystudy

    oneclock sweep --out mystudy --extend --betas 0.992

    Code that changed since runs were made is refused: --keep-runs keeps them, another --out starts anew.
    """
    from oneclock.sweep import Plan, Where
    from oneclock.sweep.adopt import adopt_all
    from oneclock.sweep.drive import plan_in_words
    from oneclock.sweep.driver import processes_of
    from oneclock.sweep.plan import usual_arms
    from oneclock.sweep.targets import with_data

    if no_arms and arms:
        raise ValueError("give --arms or --no-arms, not both")
    if data_dir is not None and (plan_only or cluster == "slurm"):
        raise ValueError("workers are not told of --data-dir: set ONECLOCK_DATA instead, here and where they run")
    values: dict[str, Any] = {
        "betas": None if betas is None else _numbers(betas, float, "--betas"),
        "seeds": None if seeds is None else _numbers(seeds, int, "--seeds"),
        "rates": None if rates is None else _numbers(rates, float, "--rates"),
        "again": None if again is None else _numbers(again, int, "--again"),
        "arms": ()
        if no_arms
        else None
        if arms is None
        else [_numbers(arm, float, "--arms", "/") for arm in arms.split(",")],
        "second": second,
        "max_runs": max_runs,
    }
    values = {key: value for key, value in values.items() if value is not None}
    of_slurm: dict[str, Any] = {
        "array": array,
        "time": time,
        "partition": partition,
        "gres": gres,
        "sbatch": sbatch,
        "idle": idle,
    }
    given = [f"--{option}" for option, value in of_slurm.items() if value is not None]
    if given and cluster != "slurm":
        raise ValueError(f"{', '.join(given)}: only for --cluster slurm")
    address = None if cluster == "slurm" else cluster
    where = Where(jobs, threads, gpus_per_run, scheduler or address, in_process, retries, timeout, insecure)
    if targets or run_command or not (out / "study.json").exists():
        if extend and not (targets or run_command):
            raise ValueError(f"{out} holds no study to extend; name what to sweep, or the folder of a study (--out)")
        made = _targets(targets, run_command, budget, log, name, settings, processes)
        values = {"arms": usual_arms(out, made)} | values
        plan = Plan(out, made, _protocol(protocol or "paper", values), extend=extend, keep_runs=keep_runs)
    else:
        plan = _again(out, protocol, values, extend, keep_runs)
    plan.targets = with_data(plan.targets, data_dir)
    plan.check()
    if adopt and not dry_run:
        for line in adopt_all(plan, adopt):
            print(printable(line))
    workers = (array or 1) * (jobs or 1) if cluster == "slurm" else where.workers(processes_of(plan))
    for line in plan_in_words(plan, workers):
        print(printable(line))
    if dry_run:
        return
    if plan_only:
        _write(plan)
        return
    if cluster == "slurm":
        _submit(plan, where, **of_slurm)
        return
    run(plan, where)
    _finish(plan, with_report)


def _write(plan: Plan) -> None:
    from oneclock.study.sharing import take_alone

    with take_alone(plan.path):
        plan.write()
    print(printable(f"the plan is written; `oneclock work {plan.path}` takes runs of it, here and elsewhere"))


def _submit(
    plan: Plan, where: Where, array: int | None, sbatch: str | None, idle: float | None, **asked: str | None
) -> None:
    """Hand the plan to Slurm, and say how to look at it."""
    from oneclock.sweep import slurm
    from oneclock.sweep.driver import processes_of
    from oneclock.sweep.work import Shift

    jobs, array = where.jobs or 1, 1 if array is None else array
    worker = slurm.worker_options(
        jobs=jobs,
        threads=where.threads,
        gpus_per_run=where.gpus_per_run,
        retries=where.retries,
        timeout=where.timeout,
        idle=Shift(idle=idle).idle,
    )
    cores = jobs * where.threads * processes_of(plan)
    options = tuple(shlex.split(sbatch or ""))
    number = slurm.submit(plan, slurm.Jobs(array, cores, options=options, worker=worker, **asked))
    print(f"Slurm has it as job {number}, {array} worker(s), and needs nobody here any more")
    print(printable(f"look: `oneclock status {plan.path}`, `squeue --job {number}`; end: `scancel {number}`"))


def _targets(
    targets: list[str] | None,
    run_command: str | None,
    budget: float | None,
    log: str,
    name: str | None,
    settings: list[str] | None,
    processes: int,
) -> list[Target]:
    from oneclock.sweep.targets import target_from

    wanted: list[str | None] = [*(targets or []), *([None] if run_command else [])]
    return [
        target_from(one, budget, None if one else run_command, log, name, tuple(settings or ()), processes)
        for one in wanted or [None]
    ]


def _protocol(kind: str, values: dict[str, Any]) -> Protocol:
    from oneclock.sweep.protocol import protocol_from

    return protocol_from(kind, **values)


def _again(out: Path, kind: str | None, values: dict[str, Any], extend: bool, keep_runs: bool) -> Plan:
    """The study in the folder, as it was asked for, with what is added to it."""
    from oneclock.sweep import Plan
    from oneclock.sweep.protocol import as_data
    from oneclock.sweep.targets import afresh

    before = Plan.read(out)
    protocol = before.protocol
    if extend:
        protocol = _protocol(kind or as_data(before.protocol)["kind"], values)
    elif values or kind:
        raise ValueError(f"{out} holds a study: add to it with --extend, or name what to sweep")
    targets = [afresh(target) for target in before.targets]
    return Plan(out, targets, protocol, extend=extend, keep_runs=keep_runs)


def run(plan: Plan, where: Where) -> None:
    """Sweep; Ctrl-C and a polite kill end it with one line and exit code 130."""
    from oneclock.sweep import sweep

    try:
        sweep(plan, where)
    except KeyboardInterrupt:
        print("oneclock: stopped; the same command goes on with it", file=sys.stderr)
        raise typer.Exit(130) from None


def _finish(plan: Plan, with_report: bool) -> None:
    for target in plan.targets:
        print(printable(f"{target.name}: {plan.step(target).reason}"))
    failed = plan.study.failed()
    try:
        _answer(plan.path, with_report)
    except ValueError as error:
        print(printable(f"no answer yet: {error}"), file=sys.stderr)
    if failed:
        print(f"{len(failed)} runs failed; `oneclock status {plan.path}` says why, `oneclock retry` tries them again")
        raise typer.Exit(1)


def _answer(study: Path, with_report: bool) -> None:
    """The first lines of the study's analysis, and its page where the parts for it are installed."""
    from oneclock.analysis import analyse
    from oneclock.report.brief import in_words

    print("\n" + in_words(analyse(study), shutil.get_terminal_size().columns))
    if with_report and all(find_spec(name) for name in ("jinja2", "matplotlib")):
        from oneclock.report.folder import write_report

        try:
            print(f"\n{write_report(study, study / 'report')}")
        except OSError as error:  # the runs are safe; a page can be drawn at any time
            print(f"\nno report was written ({error.strerror}); `oneclock report {study}` draws it", file=sys.stderr)


def _numbers(text: str, kind: type, option: str, separator: str = ",") -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(separator))
    except ValueError:
        raise ValueError(f"{option} takes numbers separated by {separator!r}, got {text!r}") from None
