"""Statistics of beta sweeps: values in, values out; nothing is drawn here and nothing imports torch.

`read` reads every kind of source, and `analyse` makes the value that `report` draws. The parts can be used alone.
"""

from oneclock.runs.best import Baseline, Best
from oneclock.runs.paired import Difference, Interval
from oneclock.runs.sweeps import Sweep, Sweeps
from oneclock.stats.analyse import Analysis, analyse, as_json
from oneclock.stats.results import BaselinePoint, BetaPoint, ExperimentResult, RuleCost
from oneclock.stats.risk import Risk, RuleRow
from oneclock.stats.rules import RuleComparison
from oneclock.stats.sources import read

__all__ = [
    "Analysis",
    "Baseline",
    "BaselinePoint",
    "Best",
    "BetaPoint",
    "Difference",
    "ExperimentResult",
    "Interval",
    "Risk",
    "RuleComparison",
    "RuleCost",
    "RuleRow",
    "Sweep",
    "Sweeps",
    "analyse",
    "as_json",
    "read",
]
