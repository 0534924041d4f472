"""Slurm as an engine: an array of jobs, each a worker that takes runs from the study's folder.

`submit` hands the jobs to Slurm and returns; no process stays behind. Slurm sends SIGUSR1 before a job's time limit,
and SIGTERM on preemption. The worker's runs then save, and the job is queued again.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneclock.runs.files import write_aside
from oneclock.runs.lock import take_alone
from oneclock.sweep.plan import Plan

FOLDER = "slurm"
"""Below the study's folder: the script, the numbers of its jobs, and what each printed."""

WARNING = 90
"""Seconds before the end of a job at which Slurm sends SIGUSR1; Slurm counts in minutes and may be early by one."""

TRIES = 3
"""How often a Slurm command is tried: a busy or restarting controller answers a little later."""

PAUSE = 2.0
"""Seconds between two tries."""


@dataclass(frozen=True)
class Jobs:
    """The jobs for Slurm: `array` jobs of `cores` cores, `time` as sbatch takes it, and `options` as they are.

    `warning` is the seconds before a job's end at which its worker is warned, `worker` the worker's own options.
    """

    array: int = 1
    cores: int = 1
    time: str | None = None
    partition: str | None = None
    gres: str | None = None
    options: tuple[str, ...] = ()
    worker: tuple[str, ...] = ("--jobs", "1")
    warning: int = WARNING

    def __post_init__(self) -> None:
        for name in ("array", "cores", "warning"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for text in (self.time, self.partition, self.gres, *self.options, *self.worker):
            _one_line(text or "", "an option of sbatch")


def script(study: Path, jobs: Jobs) -> str:
    """The batch script of a study's workers.

    >>> print(script(Path("s"), Jobs(array=4, time="1:00:00", gres="gpu:1")).splitlines()[1])
    #SBATCH --job-name=oneclock-s --array=1-4 --cpus-per-task=1 --time=1:00:00 --gres=gpu:1
    """
    _one_line(str(study.absolute()), "the folder of a study for Slurm")
    asked = {"time": jobs.time, "partition": jobs.partition, "gres": jobs.gres}
    given = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    size = [f"--job-name=oneclock-{study.name}", f"--array=1-{jobs.array}", f"--cpus-per-task={jobs.cores}"]
    ends = ["--requeue", "--open-mode=append", f"--signal=B:USR1@{jobs.warning}"]
    output = f"--output={study.absolute() / FOLDER}/%A_%a.log"
    work = shlex.join([sys.executable, "-m", "oneclock", "work", str(study.absolute()), *jobs.worker])
    lines = [[*size, *given], [*ends, output], *([option] for option in jobs.options)]
    # exec replaces the batch shell, which gets Slurm's signals, by the worker. USR1 is ignored until it listens.
    head = ["#!/bin/sh", *(f"#SBATCH {shlex.join(line)}" for line in lines)]
    return "\n".join([*head, "trap '' USR1", f"exec {work}", ""])


def submit(plan: Plan, jobs: Jobs) -> str:
    """Write the study's plan, hand its workers to Slurm, and return the number of their array.

    If the plan is written already, these workers join the others.
    """
    if shutil.which("sbatch") is None:
        raise ValueError("sbatch was not found: submit from a machine of the Slurm cluster")
    for target in plan.targets:
        target.afresh()  # raises ValueError if a worker could not load it
    plan.check()
    if not plan.written:
        with take_alone(plan.path):
            plan.write()
    folder = plan.path / FOLDER
    folder.mkdir(exist_ok=True)
    write_aside(folder / "workers.sh", script(plan.path, jobs))
    number = _ask("sbatch", "--parsable", str(folder / "workers.sh")).partition(";")[0].strip()
    with open(folder / "arrays.txt", "a", encoding="utf-8") as arrays:  # others may submit at the same time
        arrays.write(f"{number}\n")
    return number


def in_queue(study: Path) -> list[dict[str, Any]] | None:
    """The study's jobs in Slurm: id, state, seconds so far, node or reason. None if Slurm does not answer."""
    arrays = _arrays(study)
    if not arrays or shutil.which("squeue") is None:
        return None
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
    """Queue this Slurm job again, unless Slurm is ending it anyway: preempted, requeued or cancelled.

    Args:
        terminated: Whether the job got SIGTERM. Someone may have cancelled it: it is then queued again only where Slurm
            says that it still runs. After any other signal it is queued again also where Slurm does not say.

    Returns:
        Whether Slurm accepted it.
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


def _arrays(study: Path) -> list[str]:
    path = study / FOLDER / "arrays.txt"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def _one_line(text: str, what: str) -> None:
    """ValueError for text of several lines: the second one would be a command of the script."""
    if not text.isprintable():
        raise ValueError(f"{what} must be one line of printable text, got {text!r}")


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


def worker_options(**values: Any) -> tuple[str, ...]:
    """Options of `oneclock work` as words; None is left out.

    >>> worker_options(jobs=2, timeout=None, idle=1234567.0)
    ('--jobs', '2', '--idle', '1234567')
    """
    given: Sequence[tuple[str, Any]] = [(name, value) for name, value in values.items() if value is not None]
    return tuple(word for name, value in given for word in (f"--{name.replace('_', '-')}", f"{value:.15g}"))
