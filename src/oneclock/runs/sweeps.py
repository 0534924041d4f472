"""What the analysis starts from: sweeps of runs, which `table` reads, and their losses as arrays.

The arrays are experiments x betas, padded with NaN:

    L(beta)   = mean over seeds of each seed's minimum loss, infinite if one of them diverged
    gap(beta) = (L(beta) - min L) / min L
"""

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
    """One experiment: runs of several betas and seeds; `tied` by beta and seed, `untied` baselines beside them.

    `without_result` are runs that failed or have not ended: their losses are unknown.
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
    """Sweeps, development first, in the order of their names; `missing` says in words what was left out.

    Sweeps from records also have the number of runs in each state, and their environments.
    """

    sweeps: tuple[Sweep, ...]
    missing: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict, compare=False)
    environments: tuple[tuple[Mapping[str, Any], int], ...] = field(default=(), compare=False)


def sweep_of(
    runs: Sequence[RunRecord], budget: float | None, t_es: float | None = None, notes: Sequence[str] = ()
) -> Sweep:
    """One experiment from its runs, with `notes` after what is missing in them."""
    name, split = runs[0].experiment, runs[0].key.split
    ended = [run for run in runs if run.has_loss]
    return Sweep(
        name=name,
        split=split,
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


TARGET = 1.01
"""The loss to reach, in units of min L, for the time to target."""


@dataclass(frozen=True, eq=False)
class Losses:
    """n experiments x m betas x s seeds. Ascending betas and their minima; NaN if there is no beta or no run.

    `loss` is L(beta), infinite if a beta was swept without a finite loss or a seed of it diverged; `counts` is the
    number of seeds with a finite loss.
    """

    betas: np.ndarray
    minima: np.ndarray
    loss: np.ndarray
    counts: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """n x m relative gaps, NaN if there is no beta."""
        return relative_gaps(self.loss)

    @property
    def oracle(self) -> np.ndarray:
        """n indices of the beta with the smallest L; a tie goes to the smaller beta."""
        return np.nanargmin(self.loss, axis=1)


def losses_of(sweeps: Sequence[Sweep], kind: str = "min_val_loss") -> Losses:
    """The arrays of several sweeps; `kind` is `min_val_loss` or `min_train_loss`.

    >>> from oneclock.runs.table import read_source
    >>> study = read_source({"experiment": "aaa", "budget": [9] * 3, "beta": [0, 0.9, 0.9], "seed": [1, 1, 2],
    ...               "min_val_loss": [4, 1, 3]})
    >>> losses_of(study.sweeps).loss
    array([[4., 2.]])
    """
    is_val = kind == "min_val_loss"
    if is_val and (wrong := next(((s, run) for s in sweeps for run in (*s.tied, *s.untied) if run.loss <= 0), None)):
        sweep, run = wrong
        where = f"{sweep.name}: beta {run.beta}, seed {run.seed} has the loss {run.loss:g}"
        raise ValueError(f"{where}; relative gaps need losses above 0")
    cells: list[dict[float, list[float]]] = []
    for sweep in sweeps:
        cells.append({beta: [] for beta in sweep.betas})
        for run in sweep.tied:
            cells[-1][run.tied_beta].append(run.loss if is_val else run.train_loss)
    betas = np.full((len(sweeps), max(map(len, cells))), np.nan)
    minima = np.full((*betas.shape, max(len(cell) for row in cells for cell in row.values())), np.nan)
    for row, by_beta in enumerate(cells):
        betas[row, : len(by_beta)] = list(by_beta)
        for column, cell in enumerate(by_beta.values()):
            minima[row, column, : len(cell)] = cell
    counts = np.isfinite(minima).sum(axis=2)
    total = np.where(np.isfinite(minima), minima, 0.0).sum(axis=2)
    whole = (counts > 0) & ~np.isinf(minima).any(axis=2)
    loss = np.where(whole, total / np.maximum(counts, 1), np.where(np.isnan(betas), np.nan, np.inf))
    return Losses(betas, minima, loss, counts)


def relative_gaps(loss: np.ndarray) -> np.ndarray:
    """(L - min L) / min L along the last axis, which holds the betas; NaN stays NaN.

    >>> relative_gaps(np.array([2.0, 2.5, np.nan]))
    array([0.  , 0.25,  nan])
    """
    best = np.nanmin(loss, axis=-1, keepdims=True)
    return (loss - best) / best


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


def steps_to_target(runs: Sequence[RunRecord], target: float) -> list[float] | None:
    """Steps at which each run's validation loss first reaches `target`, infinite if never; None without curves."""
    if not runs or any(run.val is None and run.best_loss is not None for run in runs):
        return None
    curves = [() if run.val is None else zip(run.val.steps, run.val.losses, strict=True) for run in runs]
    return [next((step for step, loss in curve if loss <= target), math.inf) for curve in curves]
