"""Many runs: the protocol (which), targets (what), the engine (where).

protocol    which runs are next, from what is finished: pure functions
targets     what a run executes, in the words of who asks for it
named       an experiment of the project
functions   a function of the user's, and the handle it gets
commands    a command of the user's, and the curve it leaves
ranks       a run of several processes
job         one run as it travels
family      processes and what they start
server      the process that forks runs
process     a process for every run
supervise   what is done with a run: see it to its end
engine      where runs execute; in this process
local       on this machine
cluster     on the workers of a Dask cluster
work        a worker that shares a study's runs with others
slurm       such workers as jobs of Slurm
plan        a sweep as it was asked for, and which runs are next
adopt       runs made elsewhere, taken into a plan
code        a fingerprint of the user's own code
shell       a command line with places to fill
progress    how far a sweep under way is
stop        Ctrl-C as a flag
where       where and how runs execute, as asked for
driver      has the runs of a plan executed
drive       a sweep from start to end
live        what a person sees of it

What drives a sweep is loaded when first used: who looks at a study need not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneclock.sweep.plan import Plan
from oneclock.sweep.protocol import Adaptive, Grid, Paper

if TYPE_CHECKING:
    from oneclock.sweep.drive import run_sweep, sweep
    from oneclock.sweep.where import Where

__all__ = ["Adaptive", "Grid", "Paper", "Plan", "Where", "run_sweep", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'oneclock.sweep' has no attribute {name!r}")
    from oneclock.sweep import drive

    globals()[name] = getattr(drive, name)
    return globals()[name]
