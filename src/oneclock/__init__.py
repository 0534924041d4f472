"""Adam with one memory, and the rule that sets it: `beta = 1 - 1000 / horizon`.

The names below are the public ones; each is loaded when first used, so that `import oneclock` does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneclock.horizon import Curve, early_stop, effective_horizon
    from oneclock.optim import BalancedAdam, BalancedAdamW, RefreshScheduler, decay_groups
    from oneclock.rule import (
        GRID,
        beta_for,
        choose,
        memory_horizon,
        nearest_beta,
        refresh_beta,
        refresh_count,
        stability_interval,
        steps_from_epochs,
        steps_from_tokens,
    )
    from oneclock.sweep import run_sweep

    __version__: str

__all__ = [
    "GRID",
    "BalancedAdam",
    "BalancedAdamW",
    "Curve",
    "RefreshScheduler",
    "beta_for",
    "choose",
    "decay_groups",
    "early_stop",
    "effective_horizon",
    "memory_horizon",
    "nearest_beta",
    "refresh_beta",
    "refresh_count",
    "run_sweep",
    "stability_interval",
    "steps_from_epochs",
    "steps_from_tokens",
]

_HOME = {
    **dict.fromkeys(["Curve", "early_stop", "effective_horizon"], "oneclock.horizon"),
    **dict.fromkeys(["BalancedAdam", "BalancedAdamW", "RefreshScheduler", "decay_groups"], "oneclock.optim"),
    "run_sweep": "oneclock.sweep",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("oneclock")
    if name not in __all__:
        raise AttributeError(f"module 'oneclock' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOME.get(name, "oneclock.rule")), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"oneclock.{name} needs torch: pip install 'oneclock[torch]'") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
