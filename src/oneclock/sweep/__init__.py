"""Many runs: the protocol (which), targets (what), the engine (where).

protocol    which runs are next, from what is finished: pure functions
targets     what a run executes: an experiment, a function, a command
claims      who works on a folder: one live process at a time
process     a process for every run
supervise   what a worker does with a run: see it to its end
engine      where runs execute: Dask, or this process
study       the folder: what was asked for, and how far it is
drive       a sweep from start to end
live        what a person sees of it
"""

from oneclock.sweep.drive import Where, run_sweep, sweep
from oneclock.sweep.protocol import Adaptive, Grid, Paper
from oneclock.sweep.study import Study

__all__ = ["Adaptive", "Grid", "Paper", "Study", "Where", "run_sweep", "sweep"]
