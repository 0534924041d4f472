"""What the analysis starts from: a study of sweeps of runs. `table` reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneclock.horizon import Curve
from oneclock.rule import GRID

SPLITS = ("development", "heldout")


@dataclass(frozen=True)
class Trial:
    """One run: its curves where they are known, its smallest finite losses (None where there is none).

    `rate` is the learning rate, or the factor on it, that a sweep over rates set; None where there was one rate.
    """

    beta: float
    beta2: float | None
    seed: int
    val: Curve | None
    train: Curve | None
    min_val_loss: float | None
    min_train_loss: float | None
    diverged: bool = False
    rate: float | None = None

    @property
    def loss(self) -> float:
        """What it counts for where betas are compared: worse than any finite loss where it diverged."""
        return math.inf if self.diverged or self.min_val_loss is None else self.min_val_loss


@dataclass(frozen=True)
class Sweep:
    """One experiment: runs of several betas and seeds; `tied` by beta and seed, `untied` baselines beside them."""

    name: str
    split: str
    budget: float | None
    t_es: float | None
    tied: tuple[Trial, ...]
    untied: tuple[Trial, ...]
    missing: tuple[str, ...] = ()

    @property
    def betas(self) -> tuple[float, ...]:
        """The tied betas that were swept, ascending."""
        return tuple(sorted({trial.beta for trial in self.tied}))

    @property
    def has_rates(self) -> bool:
        """Whether its tied betas were swept at several rates."""
        return len({trial.rate for trial in self.tied}) > 1


@dataclass(frozen=True)
class Sweeps:
    """Sweeps, development first, each in the order of their names; `missing` says in words what was left out.

    Of records also what was read with the losses: how many runs are in each state, and in which environments they ran.
    """

    sweeps: tuple[Sweep, ...]
    missing: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict, compare=False)
    environments: tuple[tuple[Mapping[str, Any], int], ...] = field(default=(), compare=False)


def missing_from(name: str, trials: list[Trial]) -> Iterator[str]:
    """What the runs of one experiment lack, one sentence each."""
    for trial in trials:
        if math.isinf(trial.loss):
            beta2 = "" if trial.beta2 is None else f"/{trial.beta2:g}"
            why = "has no finite validation loss" if trial.min_val_loss is None else "diverged"
            yield f"{name}: beta {trial.beta:g}{beta2}, seed {trial.seed} {why}; it counts as worse than any other"
    tied = [trial for trial in trials if trial.beta2 is None]
    yield from _few_seeds(name, Counter(trial.beta for trial in tied if math.isfinite(trial.loss)))
    swept = {trial.beta for trial in tied}
    absent = [beta for beta in GRID if beta not in swept]
    if absent and len(absent) < len(GRID):
        yield f"{name}: not swept at beta {_listed(absent)} of the paper's grid"


def _few_seeds(name: str, seeds: Counter[float]) -> Iterator[str]:
    single = [beta for beta, count in seeds.items() if count == 1]
    if len(seeds) == 1:
        yield f"{name}: one beta was swept; its gap is 0 whatever it is"
    if seeds and len(single) == len(seeds):
        yield f"{name}: one seed per beta; its gaps have no interval"
    elif single:
        yield f"{name}: one seed at beta {_listed(single)}"


def _listed(betas: Sequence[float]) -> str:
    return ", ".join(f"{beta:g}" for beta in betas)
