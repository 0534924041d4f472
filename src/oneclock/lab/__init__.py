"""What reproduces the paper and the studies of this project: experiments, data, models, training, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneclock.lab.sweep_target import experiment_target

__all__ = ["experiment_target"]


def __getattr__(name: str) -> Any:
    if name != "experiment_target":
        raise AttributeError(f"module 'oneclock.lab' has no attribute {name!r}")
    from importlib import import_module

    return import_module("oneclock.lab.sweep_target").experiment_target
