"""Slurm as an engine: an array of jobs, each a worker that takes runs from the study's folder.

Slurm sends SIGUSR1 before a job's time limit, and SIGTERM on preemption. The worker's runs then save, and the job is
queued again.
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
    """The seconds left for the Slurm job of this process; None outside of a job, or without a limit.

    >>> in_seconds("1-02:03:04"), in_seconds("2:03"), in_seconds("UNLIMITED")
    (93784.0, 123.0, None)
    """
    job = _own_job()
    if job is None or shutil.which("squeue") is None:
        return None
    with suppress(OSError):  # the controller does not answer now: the warning before the end is enough
        return in_seconds(_ask("squeue", "--noheader", f"--jobs={job}", "--format=%L").strip())
    return None


def in_seconds(span: str) -> float | None:
    """Slurm's [days-][hours:]minutes:seconds, or None for words."""
    days, _, clock = span.rpartition("-")
    parts = [days or "0", *clock.split(":")]
    if len(parts) < 3 or not all(part.isdigit() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    seconds = sum(number * 60**power for power, number in enumerate(reversed(numbers[1:])))
    return float(86_400 * numbers[0] + seconds)


def queue_again(terminated: bool = False) -> bool:
    """Queue this Slurm job again, unless Slurm is ending it anyway (preempted, requeued, cancelled); whether it did.

    A job that was `terminated` (SIGTERM) may have been cancelled: it is queued again only if Slurm says that it runs.
    """
    job = _own_job()
    if job is None:
        return False
    state = "unknown"
    with suppress(OSError):
        state = _ask_again("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip()
    if state == "RUNNING" or (state == "unknown" and not terminated):
        _ask_again("scontrol", "requeue", job)
        return True
    return False


def _own_job() -> str | None:
    """The Slurm job of this process; in an array its own task, because the number alone means the whole array."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def _ask_again(*line: str) -> str:
    """`_ask`, given several times."""
    for _ in range(TRIES - 1):
        with suppress(OSError):
            return _ask(*line)
        time.sleep(PAUSE)
    return _ask(*line)


def _ask(*line: str) -> str:
    """The output of a Slurm command; OSError with its message if it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        raise OSError(f"{line[0]} did not answer within a minute") from None
    if done.returncode:
        error = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise OSError(f"{line[0]} says: {error}")
    return done.stdout
