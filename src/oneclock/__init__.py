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
    from oneclock.rule import (
        GRID,
        Fixed,
        Power,
        Refresh,
        Rule,
        SquareRoot,
        memory_horizon,
        nearest_beta,
        refresh_count,
        stability_interval,
    )
    from oneclock.runs.best import Best
    from oneclock.runs.paired import Difference, Interval
    from oneclock.runs.store import Study, open_study
    from oneclock.stats import Analysis, ExperimentResult, analyse
    from oneclock.steps import steps_from_epochs, steps_from_tokens
    from oneclock.sweep import Adaptive, Command, Execution, Grid, Paper, RunHandle, run_sweep

    __version__: str

_HOME = {
    **dict.fromkeys(["recommend", "Recommendation"], "oneclock.recommend"),
    **dict.fromkeys(["Rule", "SquareRoot", "Refresh", "Fixed", "Power"], "oneclock.rule"),
    **dict.fromkeys(["memory_horizon", "refresh_count"], "oneclock.rule"),
    **dict.fromkeys(["nearest_beta", "stability_interval", "GRID"], "oneclock.rule"),
    **dict.fromkeys(["BalancedAdamW", "BalancedAdam", "decay_groups"], "oneclock.optim"),
    **dict.fromkeys(["RefreshScheduler"], "oneclock.optim"),
    **dict.fromkeys(["Curve", "EarlyStop", "early_stop", "effective_horizon"], "oneclock.horizon"),
    **dict.fromkeys(["UsefulHorizon", "useful_horizon"], "oneclock.horizon"),
    **dict.fromkeys(["steps_from_tokens", "steps_from_epochs"], "oneclock.steps"),
    **dict.fromkeys(["read_log", "Log", "LoggedRun"], "oneclock.logs"),
    **dict.fromkeys(["advise", "Advice"], "oneclock.advise"),
    **dict.fromkeys(["run_sweep", "Command", "Execution", "RunHandle"], "oneclock.sweep"),
    **dict.fromkeys(["Paper", "Grid", "Adaptive"], "oneclock.sweep"),
    **dict.fromkeys(["open_study", "Study"], "oneclock.runs.store"),
    "Best": "oneclock.runs.best",
    **dict.fromkeys(["Difference", "Interval"], "oneclock.runs.paired"),
    **dict.fromkeys(["analyse", "Analysis", "ExperimentResult"], "oneclock.stats"),
    "in_words": "oneclock.report.brief",
    "write_report": "oneclock.report.folder",
}
"""Where each public name lives."""

__all__ = [
    "GRID",
    "Adaptive",
    "Advice",
    "Analysis",
    "BalancedAdam",
    "BalancedAdamW",
    "Best",
    "Command",
    "Curve",
    "Difference",
    "EarlyStop",
    "Execution",
    "ExperimentResult",
    "Fixed",
    "Grid",
    "Interval",
    "Log",
    "LoggedRun",
    "Paper",
    "Power",
    "Recommendation",
    "Refresh",
    "RefreshScheduler",
    "Rule",
    "RunHandle",
    "SquareRoot",
    "Study",
    "UsefulHorizon",
    "advise",
    "analyse",
    "decay_groups",
    "early_stop",
    "effective_horizon",
    "in_words",
    "memory_horizon",
    "nearest_beta",
    "open_study",
    "read_log",
    "recommend",
    "refresh_count",
    "run_sweep",
    "stability_interval",
    "steps_from_epochs",
    "steps_from_tokens",
    "useful_horizon",
    "write_report",
]


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
