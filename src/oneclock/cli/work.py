"""`oneclock work`: a worker for a study, on any machine that sees its folder; any number of them share the runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from oneclock.plain_text import printable


def command(
    study: Annotated[Path, typer.Argument(help="The study's folder, as `oneclock sweep` made it.")],
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; default: cores, or GPUs.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of one run.")] = 1,
    gpus_per_run: Annotated[float, typer.Option(help="GPUs of one run, or a fraction of one.")] = 1.0,
    retries: Annotated[int, typer.Option(help="How often a run that died is tried again.")] = 2,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as hung.")] = None,
    time_left: Annotated[
        float | None, typer.Option(help="Stop within this many seconds; no run starts that could not save by then.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option(help="Stop after this many seconds without a free run; default: when all is done.")
    ] = None,
    grace: Annotated[float, typer.Option(help="Seconds that a run has to save when this worker is to end.")] = 20.0,
) -> None:
    """Work on the free runs of a study until it is done. Start any number of workers, on any machines.

    On SIGTERM, SIGUSR1 and Ctrl-C the runs save what they can, and the worker ends with exit code 130. Other workers
    continue its runs. In a Slurm job it stops before the job's time limit, and has the job queued again.
    """
    import oneclock.lab.sweep_target  # noqa: F401 (a target of the study may be an experiment)
    from oneclock.runs.store import open_study
    from oneclock.sweep import Execution
    from oneclock.sweep.exec import slurm
    from oneclock.sweep.exec.worker import IDLE, work

    where = Execution(jobs, threads, gpus_per_run, retries=retries, timeout=timeout, grace=grace)
    left = work(study, where, slurm.seconds_left() if time_left is None else time_left, idle)
    if left is not None:
        print(printable(f"oneclock: left {study} ({left}); another worker can continue it"), file=sys.stderr)
        if left not in ("SIGINT", IDLE) and slurm.queue_again(terminated=left == "SIGTERM"):
            print("oneclock: Slurm has queued this job again", file=sys.stderr)
        raise typer.Exit(130)
    failed = len(open_study(study).failed())
    print(printable(f"{study} is done{f', {failed} runs failed' if failed else ''}"))
    print(printable(f"Next: oneclock {'retry' if failed else 'analyse'} {study}"))
