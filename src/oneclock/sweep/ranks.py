"""Runs of several processes: started by torchrun, ended and resumed as one.

torchrun ends the others when one of them dies, and so the run; its next attempt goes on from the last checkpoint. The
number of processes multiplies the batch, as with `accelerate launch`, and is part of the study.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.study.records import Result, Run
from oneclock.sweep.cells import Cell
from oneclock.sweep.family import outlasting

if TYPE_CHECKING:
    from oneclock.sweep.functions import Function
    from oneclock.sweep.named import Named

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


def several(processes: int) -> dict[str, Any]:
    """What a description says of a run's processes: nothing where there is one.

    >>> several(1), several(4)
    ({}, {'processes': 4})
    """
    return {"processes": processes} if processes > 1 else {}


def is_first() -> bool:
    """Whether this is the process of a run that keeps its record: the only one, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


def run_ranks(target: Named | Function, path: Path, cell: Cell) -> Result:
    """Train a run with as many processes as the target says; RuntimeError where they end badly."""
    told = {
        "kind": type(target).__name__,
        "target": asdict(target),
        "path": path,
        "cell": cell._asdict(),
        "search": sys.path,
    }
    line = shlex.split(torchrun(shlex.quote(sys.executable), target.processes))
    with outlasting() as asked:
        code = subprocess.call([*line, "-m", "oneclock.sweep.rank", json.dumps(told, default=str)])
    result = Run.read(path).result if (path / "run.json").exists() else None
    if result is not None:
        return result
    if asked:
        raise KeyboardInterrupt("asked to end")
    raise RuntimeError(f"one of its {target.processes} processes died: torchrun ended with exit code {code}")
