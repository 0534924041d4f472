"""Many runs: the protocol (which), targets (what), the engine (where).

protocol    which runs are next, from what is finished: pure functions
targets     what a run executes: an experiment, a function, a command
process     a process for every run
supervise   what a worker does with a run: see it to its end
engine      where runs execute: Dask, or this process
plan        a sweep as it was asked for, and which runs are next
code        a fingerprint of the user's own code
drive       a sweep from start to end
live        what a person sees of it
"""

from oneclock.sweep.drive import Where, run_sweep, sweep
from oneclock.sweep.plan import Plan
from oneclock.sweep.protocol import Adaptive, Grid, Paper

__all__ = ["Adaptive", "Grid", "Paper", "Plan", "Where", "run_sweep", "sweep"]
