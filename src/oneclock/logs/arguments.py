"""The arguments of a run under standard names, independent of the trainer's names for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from oneclock.logs.number_text import number

BETA_PAIRS = ("betas", "adam_betas")  # of (beta1, beta2); all names are in lower case
_NAMES = {  # if a run has several names of one line, the first counts
    "beta1": ("adam_beta1", "beta1", "beta_1", "b1", "adam_b1", "betas[0]", "adam_betas[0]", "beta", "adam_beta"),
    "beta2": ("adam_beta2", "beta2", "beta_2", "b2", "adam_b2", "betas[1]", "adam_betas[1]", "beta", "adam_beta"),
    "lr": ("max_lr", "peak_lr", "learning_rate", "lr", "base_lr", "initial_lr"),
    "max_steps": ("max_steps", "total_steps", "num_training_steps", "train_steps", "max_iters", "budget"),
    "epochs": ("num_train_epochs", "max_epochs", "epochs", "num_epochs"),
    "steps_per_epoch": ("steps_per_epoch", "num_update_steps_per_epoch"),
    "optimizer": ("optim", "optimizer", "optimizer_name", "optimizer_type"),
}
_BETAS = frozenset([*BETA_PAIRS, *_NAMES["beta1"], *_NAMES["beta2"]])
ARGUMENTS = frozenset(BETA_PAIRS).union(*_NAMES.values())


@dataclass(frozen=True)
class Arguments:
    """What a run was started with, None if its log does not say."""

    beta1: float | None = None
    beta2: float | None = None
    lr: float | None = None
    max_steps: float | None = None
    epochs: float | None = None
    steps_per_epoch: float | None = None
    optimizer: str | None = None
    lr_left: float | None = None  # the last of several learning rates that were logged, as a share of the largest


@lru_cache(4096)
def is_argument(name: str) -> bool:
    """Whether a value logged under the name is an argument: one of `ARGUMENTS`, or a learning rate after any prefix."""
    return name.lower() in ARGUMENTS or _is_rate(name)


class LoggedArgument(NamedTuple):
    """An argument that was logged at steps: its last value, its largest, how often, and whether it ever changed."""

    last: Any = None
    largest: Any = None
    times: int = 0
    changed: bool = False

    def with_value(self, value: Any) -> LoggedArgument:
        """With the value at a further step."""
        new, old = number(value), number(self.largest)
        is_larger = new is not None and math.isfinite(new) and (old is None or not old >= new)
        changed = self.changed or (self.times > 0 and value != self.last)
        return LoggedArgument(value, value if is_larger else self.largest, self.times + 1, changed)


def understood(settings: Mapping[str, Any], logged: Mapping[str, LoggedArgument]) -> Arguments:
    """The arguments among the values of a log; values that make no sense (a beta of 2, -1 steps) are ignored.

    Values `logged` at steps count only if the run's `settings` have none. The learning rate is then the largest one
    logged, to three digits, because a schedule makes the last one small.
    """
    beside = {}
    for name, one in logged.items():
        peak = number(one.largest) if one.changed and _is_rate(name) else None
        if not one.changed or _last_part(name) not in _BETAS:
            beside[name] = one.last if peak is None else float(f"{peak:.3g}")
    return Arguments(**(_standard(beside) | _standard(settings)), lr_left=_lr_left(logged))


def _lr_left(logged: Mapping[str, LoggedArgument]) -> float | None:
    rates = next((one for name, one in logged.items() if _is_rate(name) and one.times > 1), LoggedArgument())
    last, peak = number(rates.last), number(rates.largest)
    return last / peak if last is not None and peak is not None and 0 <= last <= peak and 0 < peak < math.inf else None


def _standard(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Standard name -> value, for the names that have a sensible value."""
    by_name = {_last_part(key): value for key, value in raw.items()}
    for pair in BETA_PAIRS:
        by_name |= {f"{pair}[{index}]": one for index, one in enumerate(_pair(by_name.get(pair)))}
    values = ((name, _checked(name, by_name.get(alias))) for name in _NAMES for alias in reversed(_NAMES[name]))
    return {name: value for name, value in values if value is not None}


def _checked(name: str, value: Any) -> Any:
    """The value of that argument, None if it makes no sense."""
    if name == "optimizer":
        return value[:80] if isinstance(value, str) and value else None
    value = math.nan if (found := number(value)) is None else found
    return value if (0 <= value < 1 if name.startswith("beta") else 0 < value < math.inf) else None


def _pair(value: object) -> list[Any] | tuple[Any, ...]:
    """The two numbers of a list or its text, nothing if it is something else."""
    if isinstance(value, str):
        try:
            value = json.loads(value.strip().replace("(", "[").replace(")", "]"))
        except (ValueError, RecursionError):
            return []
    return value if isinstance(value, list | tuple) and len(value) == 2 else []


def _is_rate(name: str) -> bool:
    return _last_part(name) in _NAMES["lr"]


def _last_part(name: str) -> str:
    return re.split(r"[/.]", name)[-1].lower()
