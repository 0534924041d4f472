"""Adam with one memory, and the rule that sets it: `beta = 1 - 1000 / horizon`.

The names below are the public ones; each is loaded when first used, so that `import oneclock` does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneclock.advice import advise
    from oneclock.analysis import analyse
    from oneclock.answers import choose, recommend
    from oneclock.horizon import Curve, early_stop, effective_horizon
    from oneclock.logs import read_log
    from oneclock.optim import BalancedAdam, BalancedAdamW, MemoryProbe, RefreshScheduler, decay_groups
    from oneclock.report.brief import in_words
    from oneclock.report.folder import write_report
    from oneclock.rule import (
        GRID,
        beta_for,
        memory_horizon,
        nearest_beta,
        refresh_beta,
        refresh_count,
        stability_interval,
    )
    from oneclock.steps import steps_from_epochs, steps_from_tokens
    from oneclock.study.folder import Study, open_study
    from oneclock.sweep import run_sweep

    __version__: str

_HOME = {
    **dict.fromkeys(["beta_for", "memory_horizon", "refresh_count", "refresh_beta"], "oneclock.rule"),
    **dict.fromkeys(["nearest_beta", "stability_interval", "GRID"], "oneclock.rule"),
    **dict.fromkeys(["BalancedAdamW", "BalancedAdam", "decay_groups"], "oneclock.optim"),
    **dict.fromkeys(["RefreshScheduler", "MemoryProbe"], "oneclock.optim"),
    **dict.fromkeys(["Curve", "early_stop", "effective_horizon"], "oneclock.horizon"),
    **dict.fromkeys(["steps_from_tokens", "steps_from_epochs"], "oneclock.steps"),
    **dict.fromkeys(["recommend", "choose"], "oneclock.answers"),
    "read_log": "oneclock.logs",
    "advise": "oneclock.advice",
    "run_sweep": "oneclock.sweep",
    **dict.fromkeys(["open_study", "Study"], "oneclock.study.folder"),
    "analyse": "oneclock.analysis",
    "in_words": "oneclock.report.brief",
    "write_report": "oneclock.report.folder",
}
"""Where each public name lives."""

__all__ = [
    "GRID",
    "BalancedAdam",
    "BalancedAdamW",
    "Curve",
    "MemoryProbe",
    "RefreshScheduler",
    "Study",
    "advise",
    "analyse",
    "beta_for",
    "choose",
    "decay_groups",
    "early_stop",
    "effective_horizon",
    "in_words",
    "memory_horizon",
    "nearest_beta",
    "open_study",
    "read_log",
    "recommend",
    "refresh_beta",
    "refresh_count",
    "run_sweep",
    "stability_interval",
    "steps_from_epochs",
    "steps_from_tokens",
    "write_report",
]


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
