"""The key of a run: everything that decides its loss, and nothing else. Two runs with equal hashes are the same run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, cast
from urllib.parse import unquote

from oneclock.rule import as_float

Beta = float | tuple[float, float]
"""The tied beta of a run, or the untied pair (beta1, beta2) of a baseline."""

WORDS = frozenset({"name", "title", "split", "t_es", "seeds"})
"""Parts of a spec that training does not use. They are not in the hash, so they can be corrected later."""


@dataclass(frozen=True)
class RunKey:
    """One run of an experiment: its betas, seed, length, learning rate and every other setting (`spec`).

    Two keys are equal when they name the same run of a plan; `hash` also covers `spec`, but not the `split`. `lr` is
    what a sweep over learning rates set: a learning rate, or for an experiment of the lab a factor on its own.

    >>> import numpy as np
    >>> RunKey("digits", np.float64(0.9), np.int64(1), 200, lr=np.float32(0.5)).folder
    'digits/beta-0.9-rate-0.5-seed-1'
    >>> one = RunKey("digits", beta=0.9, seed=1, budget=200, spec={"width": 8, "title": "Digitz"})
    >>> one.hash == RunKey("digits", 0.9, 1, 200, split="heldout", spec={"width": 8, "title": "Digits"}).hash
    True
    """

    experiment: str
    beta: Beta
    seed: int
    budget: int
    lr: float | None = None
    split: str = field(default="development", compare=False)
    spec: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        plain = {"beta": _plain_beta(self.beta), "lr": None if self.lr is None else plain_float(self.lr, "lr")}
        plain |= {name: plain_int(getattr(self, name), name) for name in ("seed", "budget")}
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def at(self, beta: Beta, seed: int, lr: float | None = None) -> RunKey:
        """The key of another run of the same experiment and budget."""
        return RunKey(self.experiment, beta, seed, self.budget, lr, self.split)

    @property
    def is_tied(self) -> bool:
        return not isinstance(self.beta, tuple)

    @property
    def tied_beta(self) -> float:
        assert not isinstance(self.beta, tuple)
        return self.beta

    @property
    def betas(self) -> tuple[float, float]:
        """(beta1, beta2), equal in a tied run."""
        return self.beta if isinstance(self.beta, tuple) else (self.beta, self.beta)

    @property
    def beta_in_words(self) -> str:
        """`0.9`, or `0.9/0.999` for a pair."""
        return "/".join(f"{beta:g}" for beta in dict.fromkeys(self.betas))

    @cached_property
    def folder(self) -> str:
        """EXPERIMENT/beta-0.94377-seed-1, below the study's `runs`."""
        beta = f"beta-{self.beta!r}" if self.is_tied else f"betas-{self.betas[0]!r}-{self.betas[1]!r}"
        lr = "" if self.lr is None else f"-rate-{self.lr!r}"
        return f"{safe_name(self.experiment)}/{beta}{lr}-seed-{self.seed}"

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting within an experiment: by beta, learning rate and seed, baselines last."""
        return not self.is_tied, self.betas, self.lr or 0.0, self.seed

    @property
    def learning_rate(self) -> float | None:
        """The learning rate that a sweep over learning rates trained with, where `lr` may be a factor on it."""
        optimizer = self.spec.get("optimizer")
        return float(optimizer["lr"]) if self.lr is not None and isinstance(optimizer, Mapping) else self.lr

    @property
    def content(self) -> dict[str, Any]:
        """The data behind the hash. The files call `lr` `rate`."""
        named = {name: getattr(self, name) for name in ("experiment", "beta", "seed", "budget")}
        lr = {} if self.lr is None else {"rate": self.lr}
        spec = {name: value for name, value in self.spec.items() if name not in WORDS}
        return json.loads(json.dumps(named | lr | {"spec": spec}))

    @property
    def hash(self) -> str:
        """The hash of everything that changes the loss: two runs with the same hash are the same run."""
        return hash_of(self.content)


_NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
_FOLDER = re.compile(rf"([^/]+)/(?:beta-({_NUMBER})|betas-({_NUMBER})-({_NUMBER}))(?:-rate-({_NUMBER}))?-seed-(\d+)")


def key_from_folder(folder: str) -> RunKey | None:
    """The key from the name of a run's folder, with budget 0; None for other names.

    >>> key_from_folder("digits/betas-0.9-0.999-rate-0.5-seed-1")
    RunKey(experiment='digits', beta=(0.9, 0.999), seed=1, budget=0, lr=0.5, split='development', spec={})
    """
    if (match := _FOLDER.fullmatch(folder)) is None:
        return None
    experiment, beta, beta1, beta2, lr, seed = match.groups()
    betas = float(beta) if beta else (float(beta1), float(beta2))
    return RunKey(unquote(experiment), betas, int(seed), 0, None if lr is None else float(lr))


def plain_float(value: Any, name: str) -> float:
    """The value as a Python float; ValueError if it is not one number. NumPy and torch scalars are numbers."""
    is_scalar_array = getattr(value, "shape", None) == () and hasattr(value, "__float__")
    if isinstance(value, bool) or not (isinstance(value, Real) or is_scalar_array):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return as_float(value)


def plain_int(value: Any, name: str) -> int:
    """The value as a Python int; ValueError if it is not a whole number."""
    if not plain_float(value, name).is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return int(value)


def _plain_beta(beta: Any) -> Beta:
    if (isinstance(beta, Sequence) and not isinstance(beta, str)) or getattr(beta, "shape", ()) == (2,):
        pair = tuple(plain_float(one, "beta") for one in cast("Sequence[Any]", beta))
        if len(pair) != 2:
            raise ValueError(f"an untied pair is (beta1, beta2), got {beta!r}")
        return pair
    return plain_float(beta, "beta")


def hash_of(value: Any) -> str:
    """A short hash of plain data, the same on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """`name: old -> new` for every leaf that differs between two nested mappings.

    >>> list(differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}}))
    ['b.c: 2 -> 3']
    """
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{key}.")
        elif json.dumps(old) != json.dumps(new):
            yield f"{prefix}{key}: {json.dumps(old)} -> {json.dumps(new)}"


def safe_name(name: str) -> str:
    """A folder name for any experiment's name.

    >>> safe_name("my run/1")
    'my%20run%2F1'
    """
    return re.sub(r"[^\w.-]|^\.", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name) or "%00"
