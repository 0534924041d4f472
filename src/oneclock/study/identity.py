"""What names a run: all that changes its loss, and nothing else. Two runs of one identity are the same run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Beta = float | tuple[float, float]
"""The tied beta of a run, or the untied pair (beta1, beta2) of a baseline."""

WORDS = frozenset({"name", "title", "split", "t_es", "seeds"})
"""What a spec says about an experiment and no training reads: correcting it orphans no run."""


@dataclass(frozen=True)
class Identity:
    """A run: its experiment, beta, seed, length, learning rate and whatever else decides its loss (`spec`).

    `rate` is what a sweep over rates set: a factor on an experiment's own, or a function's `lr`; None where it was left
    alone. `split` says what the run is for, and is no part of what names it; nor are the words of a spec.

    >>> one = Identity("digits", beta=0.9, seed=1, budget=200, spec={"width": 8, "title": "Digitz"})
    >>> one.hash == Identity("digits", 0.9, 1, 200, split="heldout", spec={"width": 8, "title": "Digits"}).hash
    True
    """

    experiment: str
    beta: Beta
    seed: int
    budget: int
    split: str = "development"
    spec: Mapping[str, Any] = field(default_factory=dict)
    rate: float | None = None

    @property
    def folder(self) -> str:
        """EXPERIMENT/beta-0.94377-seed-1, below the study's `runs`; with a rate beta-0.94377-rate-0.5-seed-1."""
        beta = f"betas-{self.beta[0]!r}-{self.beta[1]!r}" if isinstance(self.beta, tuple) else f"beta-{self.beta!r}"
        rate = "" if self.rate is None else f"-rate-{self.rate!r}"
        return f"{safe_name(self.experiment)}/{beta}{rate}-seed-{self.seed}"

    @property
    def learning_rate(self) -> float | None:
        """What a sweep over rates trained with: a spec's own, which the factor is in, or the `lr` that it set.

        >>> Identity("digits", 0.9, 1, 200, spec={"optimizer": {"lr": 0.002}}, rate=2.0).learning_rate
        0.002
        """
        optimizer = self.spec.get("optimizer")
        if self.rate is None or not isinstance(optimizer, Mapping):
            return self.rate
        return float(optimizer["lr"])

    @property
    def named(self) -> dict[str, Any]:
        """What the hash is of, as plain data."""
        beta = list(self.beta) if isinstance(self.beta, tuple) else self.beta
        rate = {} if self.rate is None else {"rate": self.rate}
        named = {"experiment": self.experiment, "beta": beta, "seed": self.seed, "budget": self.budget}
        spec = {name: value for name, value in self.spec.items() if name not in WORDS}
        return json.loads(json.dumps(named | rate | {"spec": spec}))

    @property
    def hash(self) -> str:
        """Of all that changes a loss: two runs with the same hash are the same run."""
        return hash_of(self.named)


def tied_of(folder: str) -> tuple[float, float | None, int] | None:
    """Beta, rate and seed of a tied run, by the name of its folder; None of any other.

    >>> tied_of("digits/beta-0.9-seed-1"), tied_of("digits/betas-0.9-0.999-rate-0.5-seed-1")
    ((0.9, None, 1), None)
    """
    found = _TIED.fullmatch(folder)
    if found is None:
        return None
    beta, rate, seed = found.groups()
    return float(beta), None if rate is None else float(rate), int(seed)


_NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
_TIED = re.compile(rf"[^/]+/beta-({_NUMBER})(?:-rate-({_NUMBER}))?-seed-(\d+)")


def hash_of(value: Any) -> str:
    """A short hash of plain data, the same on every machine.

    >>> hash_of({"b": 1, "a": 2}) == hash_of({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(_in_order(value).encode()).hexdigest()[:16]


_in_order = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


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
    """A folder name for any experiment's name: what is not a letter, digit, dot, dash or underscore is escaped.

    >>> safe_name("my run/1")
    'my%20run%2F1'
    """
    return re.sub(r"[^\w.-]|^\.", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name) or "%00"
