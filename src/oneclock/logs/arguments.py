"""The arguments a run was started with, under one name each, whatever its trainer called them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oneclock.logs.source import number

_NAMES = {
    "beta1": ("adam_beta1", "beta1", "beta_1", "b1", "adam_b1"),
    "beta2": ("adam_beta2", "beta2", "beta_2", "b2", "adam_b2"),
    "beta": ("beta", "adam_beta"),
    "lr": ("learning_rate", "lr", "base_lr", "max_lr"),
    "max_steps": ("max_steps", "total_steps", "num_training_steps", "train_steps", "max_iters", "budget"),
    "epochs": ("num_train_epochs", "max_epochs", "epochs", "num_epochs"),
    "steps_per_epoch": ("steps_per_epoch", "num_update_steps_per_epoch"),
}
_BETAS = ("betas", "adam_betas")
_OPTIMIZER = ("optim", "optimizer", "optimizer_name", "optimizer_type")
_HOME = {alias: name for name, aliases in _NAMES.items() for alias in aliases}

ARGUMENTS = frozenset([*_HOME, *_BETAS, *_OPTIMIZER])
"""Every name, in lower case, that is understood."""


@dataclass(frozen=True)
class Arguments:
    """What a run was started with, None where its log does not say. `beta1 == beta2` where one beta is tied."""

    beta1: float | None = None
    beta2: float | None = None
    lr: float | None = None
    max_steps: float | None = None
    epochs: float | None = None
    steps_per_epoch: float | None = None
    optimizer: str | None = None


def understood(raw: Mapping[str, Any]) -> Arguments:
    """The arguments among whatever a log holds; what makes no sense (a beta of 2, -1 steps) counts as not said.

    >>> understood({"optimizer/betas": "(0.9, 0.95)", "learning_rate": "3e-4", "max_steps": -1})
    Arguments(beta1=0.9, beta2=0.95, lr=0.0003, max_steps=None, epochs=None, steps_per_epoch=None, optimizer=None)
    """
    last = {re.split(r"[/.]", key)[-1].lower(): value for key, value in raw.items()}
    found = {_HOME[key]: value for key, text in last.items() if key in _HOME and (value := number(text)) is not None}
    pair = next((pair for key in _BETAS if (pair := _pair(last.get(key)))), (found.get("beta"), found.get("beta")))
    optimizer = next((value for key in _OPTIMIZER if isinstance(value := last.get(key), str)), None)
    return Arguments(
        beta1=_beta(found.get("beta1", pair[0])),
        beta2=_beta(found.get("beta2", pair[1])),
        lr=_positive(found.get("lr")),
        max_steps=_positive(found.get("max_steps")),
        epochs=_positive(found.get("epochs")),
        steps_per_epoch=_positive(found.get("steps_per_epoch")),
        optimizer=optimizer[:80] if optimizer else None,
    )


def _pair(value: object) -> tuple[float | None, float | None] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value.strip().replace("(", "[").replace(")", "]"))
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list | tuple) and len(value) == 2:
        return number(value[0]), number(value[1])
    return None


def _beta(value: float | None) -> float | None:
    return value if value is not None and 0 <= value < 1 else None


def _positive(value: float | None) -> float | None:
    return value if value is not None and 0 < value < math.inf else None
