"""What the analysis starts from: a study of sweeps of runs. `table` reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneclock.rule import GRID
from oneclock.runs.record import RunRecord

SPLITS = ("development", "heldout")


@dataclass(frozen=True)
class Sweep:
    """One experiment: runs of several betas and seeds; `tied` by beta and seed, `untied` baselines beside them.

    `without_result` are runs that failed or have not ended: nothing is known of their losses.
    """

    name: str
    split: str
    budget: float | None
    t_es: float | None
    tied: tuple[RunRecord, ...]
    untied: tuple[RunRecord, ...]
    missing: tuple[str, ...] = ()
    without_result: tuple[RunRecord, ...] = ()

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """Every run, tied and untied, with and without a result."""
        return (*self.tied, *self.untied, *self.without_result)

    @property
    def betas(self) -> tuple[float, ...]:
        """The tied betas that were swept, ascending."""
        return tuple(sorted({run.tied_beta for run in self.tied}))

    @property
    def has_lrs(self) -> bool:
        """Whether its tied betas were swept at several learning rates."""
        return len({run.lr for run in self.tied}) > 1


@dataclass(frozen=True)
class Sweeps:
    """Sweeps, development first, each in the order of their names; `missing` says in words what was left out.

    Of records also what was read with the losses: how many runs are in each state, and in which environments they ran.
    """

    sweeps: tuple[Sweep, ...]
    missing: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict, compare=False)
    environments: tuple[tuple[Mapping[str, Any], int], ...] = field(default=(), compare=False)


def missing_from(name: str, runs: list[RunRecord]) -> Iterator[str]:
    """What the runs of one experiment lack, one sentence each."""
    for run in runs:
        if run.diverged:
            beta = "/".join(f"{beta:g}" for beta in dict.fromkeys(run.key.betas))
            why = "has no finite validation loss" if run.best_loss is None else "diverged"
            yield f"{name}: beta {beta}, seed {run.seed} {why}; it counts as worse than any other"
    tied = [run for run in runs if run.key.is_tied]
    yield from _few_seeds(name, Counter(run.tied_beta for run in tied if math.isfinite(run.loss)))
    swept = {run.beta for run in tied}
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
