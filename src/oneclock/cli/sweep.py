"""`oneclock sweep`: many runs over beta, on this machine or a cluster; the same command again continues."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from oneclock.sweep import Study, Where


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="An experiment, file.py:function or module:function."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The study's folder.")] = Path("study"),
    budget: Annotated[int | None, typer.Option(help="Steps of one run; an experiment has its own.")] = None,
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
    protocol: Annotated[str, typer.Option(help="paper, grid or adaptive.")] = "paper",
    betas: Annotated[str | None, typer.Option(help="0.9,0.99: instead of the paper's thirteen.")] = None,
    seeds: Annotated[str | None, typer.Option(help="1,2,3")] = None,
    arms: Annotated[str | None, typer.Option(help="Untied pairs beside the sweep: 0.9/0.999,0.9/0.95")] = None,
    second: Annotated[str | None, typer.Option(help="paper: which betas get more seeds, top_k or window.")] = None,
    max_runs: Annotated[int | None, typer.Option(help="adaptive: stop there.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; default: cores, or GPUs.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of one run.")] = 1,
    gpus_per_run: Annotated[float, typer.Option(help="GPUs of one run, or a fraction of one.")] = 1.0,
    scheduler: Annotated[str | None, typer.Option(help="A Dask cluster instead: tls://host:port.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Trust the network between here and a cluster without TLS.")
    ] = False,
    in_process: Annotated[bool, typer.Option("--in-process", help="All in this process, to debug.")] = False,
    retries: Annotated[int, typer.Option(help="How often a run that died is tried again.")] = 2,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as hung.")] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Add betas, seeds, arms or experiments to the study in the folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost, run nothing.")] = False,
) -> None:
    """Sweep beta by the paper's protocol. It survives a crash: the same command again continues.

    oneclock sweep train.py:train --budget 20000 --out mystudy

    oneclock sweep --command "python train.py --beta {beta} --seed {seed} --out {folder}" --budget 20000 --out mystudy
    """
    from oneclock.sweep import Study, Where
    from oneclock.sweep.drive import plan
    from oneclock.sweep.protocol import protocol_from
    from oneclock.sweep.targets import target_from

    values = {
        "betas": None if betas is None else _numbers(betas, float, "--betas"),
        "seeds": None if seeds is None else _numbers(seeds, int, "--seeds"),
        "arms": None if arms is None else [_numbers(arm, float, "--arms", "/") for arm in arms.split(",")],
        "second": second,
        "max_runs": max_runs,
    }
    chosen = protocol_from(protocol, **{key: value for key, value in values.items() if value is not None})
    wanted: list[str | None] = [*(targets or []), *([None] if run_command else [])]
    made = [
        target_from(one, budget, None if one else run_command, log, name, tuple(settings or ()))
        for one in wanted or [None]
    ]
    where = Where(jobs, threads, gpus_per_run, scheduler, in_process, retries, timeout, insecure)
    study = Study(out, made, chosen, extend=extend)
    study.check()
    for line in plan(study, jobs):
        print(line)
    if dry_run:
        return
    run(study, where)
    _finish(study)


def run(study: Study, where: Where) -> None:
    """Sweep; Ctrl-C and a polite kill end it with one line and exit code 130."""
    from oneclock.sweep import sweep

    try:
        sweep(study, where)
    except KeyboardInterrupt:
        print("oneclock: stopped; the same command goes on with it", file=sys.stderr)
        raise typer.Exit(130) from None


def _finish(study: Study) -> None:
    for target in study.targets:
        best = study.choice(target.name)
        found = "no beta ended with a finite loss" if best is None else f"best beta {best:g}"
        print(f"{target.name}: {found}; {study.step(target).reason}")
    failed = study.failed()
    if failed:
        print(f"{len(failed)} runs failed; `oneclock status {study.path}` says why, `oneclock retry` tries them again")
        raise typer.Exit(1)


def _numbers(text: str, kind: type, option: str, separator: str = ",") -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(separator))
    except ValueError:
        raise ValueError(f"{option} takes numbers separated by {separator!r}, got {text!r}") from None
