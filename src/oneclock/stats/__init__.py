"""Statistics of beta sweeps: values in, values out; nothing is drawn here and nothing imports torch.

`read` reads every kind of source, and `analyse` makes the value that `report` draws. The parts can be used alone.
"""

from oneclock.runs.table import read_source as read
from oneclock.stats.analyse import Analysis, analyse, as_json
from oneclock.stats.experiments import ExperimentResult

__all__ = ["Analysis", "ExperimentResult", "analyse", "as_json", "read"]
