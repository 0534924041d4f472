"""Statistics of beta sweeps: values in, values out; nothing is drawn here and nothing imports torch.

`read` is the one door in, `analyse` makes the value that `report` draws; the parts can be used by themselves.
"""

from oneclock.analysis.analyse import analyse, as_json
from oneclock.analysis.sources import read
from oneclock.analysis.values import Analysis
from oneclock.study.sweeps import Sweep, Sweeps

__all__ = ["Analysis", "Sweeps", "Sweep", "analyse", "as_json", "read"]
