"""Many runs: which (`oneclock.runs.protocols`), what they execute (targets), and where (exec).

api           a sweep from start to end
plan          a sweep as it was asked for, and which runs are next
targets       what a run executes; a Python function
commands      a command line as a target
source        the user's Python code: found, checked, loaded
fingerprint   what counts as the same code
view          what the user sees of a sweep
exec/         where runs execute: execution, scheduler, supervise, server, processes, job, worker, slurm

The modules that run a sweep are loaded when first used: a program that only reads a study does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneclock.runs.adaptive import Adaptive
from oneclock.runs.protocols import Grid, Paper
from oneclock.sweep import commands  # registers itself as a kind of target
from oneclock.sweep.plan import Plan

if TYPE_CHECKING:
    from oneclock.sweep.api import run_sweep, sweep
    from oneclock.sweep.exec.execution import Execution
    from oneclock.sweep.targets import RunHandle

Command = commands.Command

_HOME = {
    "run_sweep": "api",
    "sweep": "api",
    "Execution": "exec.execution",
    "RunHandle": "targets",
}

__all__ = ["Adaptive", "Command", "Execution", "Grid", "Paper", "Plan", "RunHandle", "run_sweep", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'oneclock.sweep' has no attribute {name!r}")
    import importlib

    globals()[name] = getattr(importlib.import_module(f"oneclock.sweep.{_HOME[name]}"), name)
    return globals()[name]
