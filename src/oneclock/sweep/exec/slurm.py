"""Slurm as an engine: an array of jobs, each a worker that takes runs from the study's folder.

Slurm sends SIGUSR1 before a job's time limit, and SIGTERM on preemption. The runs then save; the job is queued again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from oneclock.runs.files import write_aside

FOLDER = "slurm"
"""Below the study's folder: the script, the numbers of its jobs, and what each printed."""

WARNING = 90
"""Seconds before the end of a job at which Slurm sends SIGUSR1; Slurm counts in minutes and may be early by one."""

TRIES, PAUSE = 3, 2.0
"""How often a Slurm command is tried, and the seconds between: a busy controller answers a little later."""


def script(study: Path, array: int, cores: int, options: Sequence[str] = (), worker: Sequence[str] = ()) -> str:
    """The batch script of a study's workers: `options` of sbatch as they are, and those of `oneclock work`.

    >>> print(script(Path("s"), array=4, cores=2, options=["--time=1:00:00"]).splitlines()[1])
    #SBATCH --job-name=oneclock-s --array=1-4 --cpus-per-task=2
    """
    folder = study.absolute()
    for text in (str(folder), *options):
        if not text.isprintable():  # its second line would be a command of the script
            raise ValueError(f"an option of sbatch and a study's folder are one line of printable text, got {text!r}")
    lines = [
        [f"--job-name=oneclock-{study.name}", f"--array=1-{array}", f"--cpus-per-task={cores}"],
        ["--requeue", "--open-mode=append", f"--signal=B:USR1@{WARNING}", f"--output={folder / FOLDER}/%A_%a.log"],
        *([option] for option in options),
    ]
    work = shlex.join([sys.executable, "-m", "oneclock", "work", str(folder), *worker])
    # exec replaces the batch shell, which gets Slurm's signals, by the worker. USR1 is ignored until it listens.
    head = ["#!/bin/sh", *(f"#SBATCH {shlex.join(line)}" for line in lines)]
    return "\n".join([*head, "trap '' USR1", f"exec {work}", ""])


def submit(study: Path, text: str) -> str:
    """Write the script below the study's folder, hand it to Slurm, and return the number of the job array."""
    folder = study / FOLDER
    folder.mkdir(exist_ok=True)
    write_aside(folder / "workers.sh", text)
    number = _ask("sbatch", "--parsable", str(folder / "workers.sh")).partition(";")[0].strip()
    with open(folder / "arrays.txt", "a", encoding="utf-8") as arrays:  # others may submit at the same time
        arrays.write(f"{number}\n")
    return number


def in_queue(study: Path) -> list[dict[str, Any]] | None:
    """The study's jobs in Slurm: id, state, seconds so far, node or reason. None if Slurm does not answer."""
    path = study / FOLDER / "arrays.txt"
    if not path.exists() or shutil.which("squeue") is None:
        return None
    arrays = path.read_text(encoding="utf-8").split()
    try:
        output = _ask("squeue", "--noheader", "--array", f"--jobs={','.join(arrays)}", "--format=%i|%T|%M|%R")
    except OSError:
        return []  # squeue reports an error for a job that it has forgotten
    names = ("job", "state", "time", "where")
    return [dict(zip(names, line.split("|", 3), strict=True)) for line in output.splitlines()]


def seconds_left() -> float | None:
    """The seconds left for the Slurm job of this process; None outside of a job, or without a limit."""
    job = _own_job()
    if job is None or shutil.which("squeue") is None:
        return None
    with suppress(OSError, ValueError):  # no answer, or no time: the warning before the end is enough
        end = datetime.fromisoformat(_ask("squeue", "--noheader", f"--jobs={job}", "--format=%e").strip())
        return max(end.timestamp() - time.time(), 1.0)
    return None


def queue_again(terminated: bool = False) -> bool:
    """Queue this Slurm job again, unless Slurm is ending it anyway (preempted, requeued, cancelled); whether it did.

    A job that was `terminated` (SIGTERM) may have been cancelled: it is queued again only if Slurm says that it runs.
    """
    job = _own_job()
    if job is None:
        return False
    state = "UNKNOWN"
    with suppress(OSError):
        state = _ask("squeue", "--noheader", f"--jobs={job}", "--format=%T", tries=TRIES).strip()
    if again := state == "RUNNING" or (state == "UNKNOWN" and not terminated):
        _ask("scontrol", "requeue", job, tries=TRIES)
    return again


def _own_job() -> str | None:
    """The Slurm job of this process; in an array its own task, because the number alone means the whole array."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def _ask(*line: str, tries: int = 1) -> str:
    """The output of a Slurm command; OSError with its message if it fails that often."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            return done.stdout
        error = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        error = "no answer within a minute"
    if tries == 1:
        raise OSError(f"{line[0]} says: {error}")
    time.sleep(PAUSE)
    return _ask(*line, tries=tries - 1)
