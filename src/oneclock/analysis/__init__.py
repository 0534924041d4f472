"""Statistics of beta sweeps: values in, values out; nothing is drawn here and nothing imports torch.

`read` is the one door in, `analyse` makes the value that `report` draws; the parts can be used by themselves.
"""

from oneclock.analysis.analyse import analyse, as_json
from oneclock.analysis.table import Study, Sweep, read
from oneclock.analysis.values import Analysis

__all__ = ["Analysis", "Study", "Sweep", "analyse", "as_json", "read"]
