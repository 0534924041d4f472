"""Many runs: `api` is a sweep from start to end, `plan` says which runs are next, a target what a run executes (a
function in `targets`, a command line in `commands`), and `exec` where runs execute.
"""

from oneclock.runs.adaptive import Adaptive
from oneclock.runs.protocols import Grid, Paper
from oneclock.sweep.api import run_sweep, sweep
from oneclock.sweep.commands import Command
from oneclock.sweep.exec.execution import Execution
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import RunHandle

__all__ = ["Adaptive", "Command", "Execution", "Grid", "Paper", "Plan", "RunHandle", "run_sweep", "sweep"]
