"""The record of a run: one value from the plan to the report. Loss and divergence are defined here."""

from __future__ import annotations

import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_args

from oneclock.horizon import Curve
from oneclock.runs.key import Beta, RunKey

End = Literal["finished", "diverged", "failed"]
"""How a run ended: it `finished`, it `diverged` (a loss that is not finite), or it `failed` (the reason says why)."""

Status = Literal["waiting", "running", "interrupted", "finished", "diverged", "failed", "damaged"]
"""`interrupted`: it has begun, and no process works on it. `damaged`: its files cannot be trusted."""

ENDS: frozenset[str] = frozenset(get_args(End))

ON_PURPOSE = "stopped early"
"""Start of the reason of a run that ended before its budget on purpose."""


@dataclass(frozen=True)
class RunRecord:
    """A run: its key, its status, and its measurements; None where there is none, or it was not read.

    `steps` is how far it came; `best_step` is the first step with `best_loss`, its smallest finite validation loss.
    `reason` says why it failed, diverged or is damaged.

    >>> key = RunKey("digits", 0.9, seed=1, budget=100)
    >>> RunRecord(key, "finished", 100, best_loss=1.5).loss, RunRecord(key, "diverged", 40, best_loss=1.2).loss
    (1.5, inf)
    """

    key: RunKey
    status: Status
    steps: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    best_train_loss: float | None = None
    seconds: float | None = field(default=None, compare=False)
    reason: str | None = field(default=None, compare=False)
    val: Curve | None = field(default=None, repr=False)
    train: Curve | None = field(default=None, repr=False)
    environment: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def loss(self) -> float:
        """The loss of the run in comparisons of betas; lower is better.

        Infinite if it diverged: worse than any finite loss. NaN if it failed or has not ended: unknown.
        """
        if not self.has_loss:
            return math.nan
        return math.inf if self.diverged or self.best_loss is None else self.best_loss

    @property
    def has_loss(self) -> bool:
        return self.status in ("finished", "diverged")

    @property
    def train_loss(self) -> float:
        """`loss` of the training loss; NaN if none was recorded."""
        if self.diverged:
            return math.inf
        return self.best_train_loss if self.status == "finished" and self.best_train_loss is not None else math.nan

    @property
    def diverged(self) -> bool:
        """Whether it ended without a finite validation loss: it diverged, or finished without any."""
        return self.status == "diverged" or (self.status == "finished" and self.best_loss is None)

    @property
    def experiment(self) -> str:
        return self.key.experiment

    @property
    def beta(self) -> Beta:
        return self.key.beta

    @property
    def tied_beta(self) -> float:
        return self.key.tied_beta

    @property
    def seed(self) -> int:
        return self.key.seed

    @property
    def lr(self) -> float | None:
        return self.key.lr

    @property
    def budget(self) -> int:
        return self.key.budget

    def as_row(self) -> dict[str, Any]:
        """The record as one flat row of a table, without curves and environment; `from_row` reads it."""
        return {name: getattr(self, name) for name in ROW}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> RunRecord:
        return cls(RunKey(**{name: row[name] for name in _KEY}), **{name: row[name] for name in ROW[len(_KEY) :]})


_KEY = ("experiment", "beta", "lr", "seed", "budget")
ROW = (*_KEY, "status", "steps", "best_loss", "best_step", "seconds", "reason")
"""The columns of `RunRecord.as_row`."""


def with_learning_rate(run: RunRecord) -> RunRecord:
    """The run with its learning rate instead of a factor on it."""
    if run.lr is None or run.key.learning_rate == run.lr:
        return run
    return replace(run, key=replace(run.key, lr=run.key.learning_rate))


def has_diverged(val_losses: Sequence[float | None]) -> bool:
    """Whether a run with these validation losses diverged: the last that was measured (is not None) is not finite.

    >>> has_diverged([2.0, math.nan]), has_diverged([2.0, math.inf, 1.5, None]), has_diverged([])
    (True, False, False)
    """
    last = next((loss for loss in reversed(val_losses) if loss is not None), None)
    return last is not None and not math.isfinite(last)


PACKAGES = ("oneclock", "torch", "accelerate", "numpy", "transformers", "tokenizers", "datasets", "torchvision")


def environment(packages: tuple[str, ...] = PACKAGES) -> dict[str, Any]:
    """The environment of a run, without paths and host names, because records are shared."""
    versions = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    system = f"{platform.system()} {platform.machine()}"
    return {"python": platform.python_version(), "system": system, "versions": versions, "commit": commit()}


def commit() -> str | None:
    """The commit of the working folder, with `+` where files differ from it; None outside of git."""
    head = _git("rev-parse", "HEAD")
    return head and head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    """The output of a git command, called without locks: a killed git would leave its lock in the repository."""
    line = ["git", "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
