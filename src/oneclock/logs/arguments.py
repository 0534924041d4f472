"""The arguments of a run under standard names, independent of the trainer's names for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from oneclock.logs.number_text import number

_NAMES = {  # if a run has several names of one line, the first counts
    "beta1": ("adam_beta1", "beta1", "beta_1", "b1", "adam_b1"),
    "beta2": ("adam_beta2", "beta2", "beta_2", "b2", "adam_b2"),
    "beta": ("beta", "adam_beta"),
    "lr": ("max_lr", "peak_lr", "learning_rate", "lr", "base_lr", "initial_lr"),
    "max_steps": ("max_steps", "total_steps", "num_training_steps", "train_steps", "max_iters", "budget"),
    "epochs": ("num_train_epochs", "max_epochs", "epochs", "num_epochs"),
    "steps_per_epoch": ("steps_per_epoch", "num_update_steps_per_epoch"),
}
BETA_PAIRS = ("betas", "adam_betas")
"""The names, in lower case, of (beta1, beta2)."""

_OPTIMIZER = ("optim", "optimizer", "optimizer_name", "optimizer_type")
_HOME = {alias: name for name, aliases in _NAMES.items() for alias in aliases}

ARGUMENTS = frozenset([*_HOME, *BETA_PAIRS, *_OPTIMIZER])
"""Every known name, in lower case."""

LEARNING_RATES = frozenset(_NAMES["lr"])
"""The names, in lower case, of the learning rate."""


@dataclass(frozen=True)
class Arguments:
    """What a run was started with, None if its log does not say. `beta1 == beta2` where they are tied."""

    beta1: float | None = None
    beta2: float | None = None
    lr: float | None = None
    max_steps: float | None = None
    epochs: float | None = None
    steps_per_epoch: float | None = None
    optimizer: str | None = None
    lr_left: float | None = None
    """The last learning rate that was logged, as a share of the largest; None if fewer than two were logged."""


@lru_cache(4096)
def is_argument(name: str) -> bool:
    """Whether a value logged under the name is an argument: one of `ARGUMENTS`, or a learning rate after any prefix."""
    return name.lower() in ARGUMENTS or is_learning_rate(name)


def is_learning_rate(name: str) -> bool:
    """Whether the name is that of a learning rate, after any prefix."""
    return _last_part(name) in LEARNING_RATES


class LoggedArgument:
    """An argument that was logged at steps: how often, its last value, its largest, and whether it ever changed."""

    def __init__(self, value: Any) -> None:
        self.last = self.largest = value
        self.changed = False
        self.times = 1

    def add(self, value: Any) -> None:
        """Take the value at a further step."""
        self.changed |= value != self.last
        self.times += 1
        self.last = value
        new, old = number(value), number(self.largest)
        if new is not None and math.isfinite(new) and (old is None or not old >= new):
            self.largest = value


def understood(raw: Mapping[str, Any], logged: Mapping[str, LoggedArgument] | None = None) -> Arguments:
    """The arguments among the values of a log; values that make no sense (a beta of 2, -1 steps) are ignored.

    `logged` are values that were logged at steps. They count only if `raw`, the run's settings, has no value. The
    learning rate is then the largest one logged, to three digits, because a schedule makes the last one small. Betas
    that changed during the run are left out.

    >>> found = understood({"optimizer/betas": "(0.9, 0.95)", "learning_rate": "3e-4", "max_steps": -1})
    >>> found.beta1, found.beta2, found.lr, found.max_steps
    (0.9, 0.95, 0.0003, None)
    """
    settings = _understood(raw)
    if not logged:
        return settings
    beside = _understood({name: value for name, one in logged.items() if (value := _one_value(name, one)) is not None})
    missing = [name for name, value in vars(settings).items() if value is None and name != "lr_left"]
    return replace(settings, **{name: getattr(beside, name) for name in missing}, lr_left=_lr_left(logged))


def _lr_left(logged: Mapping[str, LoggedArgument]) -> float | None:
    rates = next((one for name, one in logged.items() if is_learning_rate(name) and one.times > 1), None)
    last, peak = (None, None) if rates is None else (number(rates.last), number(rates.largest))
    return last / peak if last is not None and peak is not None and 0 <= last <= peak and 0 < peak < math.inf else None


def _one_value(name: str, logged: LoggedArgument) -> Any:
    """One value for all that were logged, None if there is none."""
    last_part = _last_part(name)
    if not logged.changed:
        return logged.last
    if last_part in LEARNING_RATES:
        peak = number(logged.largest)
        return None if peak is None else float(f"{peak:.3g}")
    is_beta = last_part in BETA_PAIRS or _HOME.get(last_part, "").startswith("beta")
    return None if is_beta else logged.last


def _understood(raw: Mapping[str, Any]) -> Arguments:
    by_name = {_last_part(key): value for key, value in raw.items()}
    values = {
        name: value
        for name, aliases in _NAMES.items()
        if (value := next((one for key in aliases if (one := number(by_name.get(key))) is not None), None)) is not None
    }
    pair = next(
        (pair for key in BETA_PAIRS if (pair := _pair(by_name.get(key)))), (values.get("beta"), values.get("beta"))
    )
    optimizer = next((value for key in _OPTIMIZER if isinstance(value := by_name.get(key), str)), None)
    return Arguments(
        beta1=_beta(values.get("beta1", pair[0])),
        beta2=_beta(values.get("beta2", pair[1])),
        lr=_positive(values.get("lr")),
        max_steps=_positive(values.get("max_steps")),
        epochs=_positive(values.get("epochs")),
        steps_per_epoch=_positive(values.get("steps_per_epoch")),
        optimizer=optimizer[:80] if optimizer else None,
    )


def _last_part(name: str) -> str:
    return re.split(r"[/.]", name)[-1].lower()


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
