"""The losses of sweeps as arrays, experiments x betas, padded with NaN; and the steps to a target.

L(beta)   = mean over seeds of each seed's minimum loss, infinite if one of them diverged
gap(beta) = (L(beta) - min L) / min L
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweep

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
    grids = [sweep.betas for sweep in sweeps]
    cells = [[_minima(sweep.tied, beta, kind) for beta in grid] for sweep, grid in zip(sweeps, grids, strict=True)]
    wide = max(map(len, grids))
    deep = max(len(cell) for row in cells for cell in row)
    betas = np.full((len(sweeps), wide), np.nan)
    minima = np.full((len(sweeps), wide, deep), np.nan)
    for row, (grid, values) in enumerate(zip(grids, cells, strict=True)):
        betas[row, : len(grid)] = grid
        for column, cell in enumerate(values):
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


def steps_to_target(runs: Sequence[RunRecord], target: float) -> list[float] | None:
    """Steps at which each run's validation loss first reaches `target`, infinite if never; None without curves."""
    if not runs or any(run.val is None and run.best_loss is not None for run in runs):
        return None
    return [
        next((step for step, loss in zip(run.val.steps, run.val.losses, strict=True) if loss <= target), math.inf)
        if run.val is not None
        else math.inf
        for run in runs
    ]


def _minima(runs: Sequence[RunRecord], beta: float, kind: str) -> list[float]:
    """One value per seed: infinite if the run diverged, NaN if that loss was not recorded."""
    own = [run for run in runs if run.beta == beta]
    return [run.loss if kind == "min_val_loss" else run.train_loss for run in own]
