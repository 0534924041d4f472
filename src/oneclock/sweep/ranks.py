"""Runs of several processes: started by torchrun, ended and resumed as one.

torchrun ends the others when one of them dies, and so the run; its next attempt goes on from the last checkpoint. The
number of processes multiplies the batch, as with `accelerate launch`, and is part of the study.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oneclock.study.records import Result, Run
from oneclock.sweep.cells import Cell
from oneclock.sweep.family import outlasting

if TYPE_CHECKING:
    from oneclock.sweep.targets import Named

_PYTHON = re.compile(r"\s*(\S*python[\d.]*)\s+")


def torchrun(python: str, processes: int) -> str:
    """How several processes are started: the words before a script or `-m module`."""
    return f"{python} -m torch.distributed.run --standalone --nproc-per-node {processes}"


def under_torchrun(command: str, processes: int) -> str:
    """A command line that begins with python, as several processes; ValueError for any other.

    >>> under_torchrun("python train.py --beta {beta}", 2)
    'python -m torch.distributed.run --standalone --nproc-per-node 2 train.py --beta {beta}'
    """
    match = _PYTHON.match(command)
    if match is None:
        raise ValueError(f"several processes (--processes) need a command that begins with python, got {command!r}")
    return f"{torchrun(match[1], processes)} {command[match.end() :]}"


def run_ranks(target: Named, path: Path, cell: Cell) -> Result:
    """Train a run of an experiment with as many processes as the target says; RuntimeError where they end badly."""
    told = [target.name, target.budget, target.settings, path, cell.beta, cell.seed, cell.rate, target.data_dir]
    line = shlex.split(torchrun(shlex.quote(sys.executable), target.processes))
    with outlasting() as asked:
        code = subprocess.call([*line, "-m", "oneclock.sweep.rank", json.dumps(told, default=str)])
    result = Run.read(path).result if (path / "run.json").exists() else None
    if result is not None:
        return result
    if asked:
        raise KeyboardInterrupt("asked to end")
    raise RuntimeError(f"one of its {target.processes} processes died: torchrun ended with exit code {code}")
