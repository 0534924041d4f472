"""`oneclock status`, `retry`, `work` and `export`: what is done with the folder of a study."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from oneclock.plain_text import printable

StudyFolder = Annotated[Path, typer.Argument(help="The study's folder, as `oneclock sweep` made it.")]


def status(
    study: StudyFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """How far a study is: every run with its state, and what is left. Works while a sweep runs."""
    import oneclock.lab.sweep_target  # noqa: F401 (a target of the study may be an experiment)
    from oneclock.sweep import Plan, view

    state = view.status(Plan.read(study))
    if as_json:
        print(json.dumps(state, indent=2))
    else:
        view.show(state)


def retry(study: StudyFolder) -> None:
    """Let the next `oneclock sweep` of this study try its failed runs again, each from its checkpoint."""
    from oneclock.runs.lock import take_alone
    from oneclock.runs.store import Study

    opened = Study.open(study)
    with take_alone(opened.path):
        count = opened.forget_failed()
    if not count:
        print(printable(f"{opened.path} has no failed run: nothing to try again"))
        return
    runs = f"{count} failed run{'' if count == 1 else 's'} will be tried again"
    print(f"{runs}; run the same `oneclock sweep` again, with --keep-runs if your code has changed")


def work(
    study: StudyFolder,
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

    After SIGTERM, SIGUSR1 or Ctrl-C its runs save and other workers continue them. Its exit code is then 130.

    In a Slurm job it stops before the job's time limit, and has the job queued again.
    """
    import oneclock.lab.sweep_target  # noqa: F401 (a target of the study may be an experiment)
    from oneclock.runs.store import open_study
    from oneclock.sweep import Execution
    from oneclock.sweep.exec import slurm, worker

    where = Execution(jobs, threads, gpus_per_run, retries=retries, timeout=timeout, grace=grace)
    left = worker.work(study, where, slurm.seconds_left() if time_left is None else time_left, idle)
    if left is not None:
        print(printable(f"oneclock: left {study} ({left}); another worker can continue it"), file=sys.stderr)
        if left not in ("SIGINT", worker.IDLE) and slurm.queue_again(terminated=left == "SIGTERM"):
            print("oneclock: Slurm has queued this job again", file=sys.stderr)
        raise typer.Exit(130)
    failed = len(open_study(study).failed())
    print(printable(f"{study} is done{f', {failed} runs failed' if failed else ''}"))
    print(printable(f"Next: oneclock {'retry' if failed else 'analyse'} {study}"))


def export(
    study: StudyFolder,
    to: Annotated[str | None, typer.Option(help="tensorboard, mlflow or wandb (offline).")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder; default: STUDY-TO beside the study.")] = None,
) -> None:
    """Write the ended runs, with their curves, as the files of another tool. Nothing is sent anywhere."""
    from oneclock.export import export

    if to is None:
        raise ValueError("name the tool: --to tensorboard, mlflow or wandb")
    folder = out or study.with_name(f"{study.name}-{to}")
    count, look = export(study, to, folder)
    print(printable(f"{count} runs are in {folder}; look: {look}"))
