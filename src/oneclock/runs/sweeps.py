"""What the analysis starts from: sweeps of runs, which `table` reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneclock.rule import GRID
from oneclock.runs.record import RunRecord

SPLITS = ("development", "heldout")


@dataclass(frozen=True)
class Sweep:
    """One experiment: `tied` runs, `untied` baselines, and runs that failed or have not ended, `without_result`."""

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
    """Sweeps, development first, then by name; those from records also count runs by state and by environment."""

    sweeps: tuple[Sweep, ...]
    missing: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict, compare=False)
    environments: tuple[tuple[Mapping[str, Any], int], ...] = field(default=(), compare=False)


def sweep_of(
    runs: Sequence[RunRecord], budget: float | None, t_es: float | None = None, notes: Sequence[str] = ()
) -> Sweep:
    """One experiment from its runs, with `notes` after what is missing in them."""
    name, ended = runs[0].experiment, [run for run in runs if run.has_loss]
    return Sweep(
        name=name,
        split=runs[0].key.split,
        budget=budget,
        t_es=t_es,
        tied=tuple(run for run in ended if run.key.is_tied),
        untied=tuple(run for run in ended if not run.key.is_tied),
        missing=(*(f"{name}: {what}" for what in _missing_from(ended)), *notes),
        without_result=tuple(run for run in runs if not run.has_loss),
    )


def _missing_from(runs: Sequence[RunRecord]) -> Iterator[str]:
    """What is missing in the runs of one experiment, one clause each."""
    for run in runs:
        if run.diverged:
            why = "has no finite validation loss" if run.best_loss is None else "diverged"
            yield f"beta {run.key.beta_in_words}, seed {run.seed} {why}; it counts as worse than any other"
    tied = [run for run in runs if run.key.is_tied]
    seeds = Counter(run.tied_beta for run in tied if math.isfinite(run.loss))
    single = [beta for beta, count in seeds.items() if count == 1]
    if len(seeds) == 1:
        yield "one beta was swept; its gap is 0 whatever it is"
    if seeds and len(single) == len(seeds):
        yield "one seed per beta; its gaps have no interval"
    elif single:
        yield f"one seed at beta {_listed(single)}"
    swept = {run.beta for run in tied}
    absent = [beta for beta in GRID if beta not in swept]
    if absent and len(absent) < len(GRID):
        yield f"not swept at beta {_listed(absent)} of the paper's grid"


def _listed(betas: Sequence[float]) -> str:
    return ", ".join(f"{beta:g}" for beta in betas)


def error_bars(minima: Sequence[float]) -> tuple[float, float] | None:
    """One-sided root-mean-square deviations (below, above) from the seed mean; None with one seed.

    >>> error_bars([1.0, 2.0, 3.0])
    (1.0, 1.0)
    """
    if len(minima) < 2:
        return None
    deviations = np.asarray(minima) - np.mean(minima)
    low, high = deviations[deviations < 0], deviations[deviations > 0]
    return tuple(float(np.sqrt(np.mean(side**2))) if len(side) else 0.0 for side in (low, high))  # type: ignore[return-value]
