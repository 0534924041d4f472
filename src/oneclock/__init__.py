"""Adam with one memory, and the rule that sets it: a memory of 1 + sqrt(steps) / 7 steps.

The names below are the public ones; each is loaded when first used, so that `import oneclock` does not import torch.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneclock.advise import Advice, advise
    from oneclock.horizon import Curve, EarlyStop, UsefulHorizon, early_stop, effective_horizon, useful_horizon
    from oneclock.logs import Log, LoggedRun, read_log
    from oneclock.optim import BalancedAdam, BalancedAdamW, RefreshScheduler, decay_groups
    from oneclock.recommend import Recommendation, recommend
    from oneclock.report.brief import in_words
    from oneclock.report.folder import write_report
    from oneclock.rule import GRID, Fixed, Power, Refresh, Rule, SquareRoot, memory_horizon, nearest_beta, refresh_count
    from oneclock.runs.best import Best
    from oneclock.runs.paired import Difference, Interval
    from oneclock.runs.store import Study, open_study
    from oneclock.stats import Analysis, ExperimentResult, analyse
    from oneclock.steps import steps_from_epochs, steps_from_tokens
    from oneclock.sweep import Adaptive, Command, Execution, Grid, Paper, RunHandle, run_sweep

    __version__: str

_NAMES = {
    "recommend": "recommend Recommendation",
    "rule": "Rule SquareRoot Refresh Fixed Power GRID memory_horizon refresh_count nearest_beta",
    "optim": "BalancedAdam BalancedAdamW RefreshScheduler decay_groups",
    "horizon": "Curve EarlyStop UsefulHorizon early_stop effective_horizon useful_horizon",
    "steps": "steps_from_epochs steps_from_tokens",
    "logs": "Log LoggedRun read_log",
    "advise": "Advice advise",
    "sweep": "Adaptive Command Execution Grid Paper RunHandle run_sweep",
    "runs.store": "Study open_study",
    "runs.best": "Best",
    "runs.paired": "Difference Interval",
    "stats": "Analysis ExperimentResult analyse",
    "report.brief": "in_words",
    "report.folder": "write_report",
}
_HOME = {name: f"oneclock.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [  # spelled out, for type checkers
    "recommend", "Recommendation", "steps_from_epochs", "steps_from_tokens",
    "Rule", "SquareRoot", "Refresh", "Fixed", "Power", "GRID",
    "memory_horizon", "refresh_count", "nearest_beta",
    "BalancedAdam", "BalancedAdamW", "RefreshScheduler", "decay_groups",
    "Curve", "EarlyStop", "UsefulHorizon", "early_stop", "effective_horizon", "useful_horizon",
    "advise", "Advice", "read_log", "Log", "LoggedRun",
    "run_sweep", "Adaptive", "Command", "Execution", "Grid", "Paper", "RunHandle",
    "open_study", "Study", "Best", "Difference", "Interval",
    "analyse", "Analysis", "ExperimentResult", "in_words", "write_report",
]  # fmt: skip


class _Package(ModuleType):
    """Makes `oneclock.advise` and `oneclock.recommend` the functions, not the modules of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):  # Python sets a submodule here once it is loaded
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Pickled by name, as every module: cloudpickle does not know subclasses of the module type."""
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("oneclock")
    if name not in __all__:
        raise AttributeError(f"module 'oneclock' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"oneclock.{name} needs torch: pip install 'oneclock[torch]'") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
