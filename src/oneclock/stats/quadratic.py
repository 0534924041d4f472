"""Where the loss of one sweep is lowest: a quadratic fitted around the lowest cell, and its profile likelihood.

    u = log10(1 - beta), w = log10(lr)     log loss near its minimum: a quadratic in u (and w), plus one effect per seed

The deviance of a place is how much worse the quadratic fits if its lowest point must lie there, in squared standard
errors. The 95 % CI of the best u holds every u of which the deviance is small, at the best w for it. It is not confined
to the cells that were measured: where the quadratic is flat, the interval is open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneclock.runs.best import at_best_lrs, cell_runs
from oneclock.runs.noise import f_quantile
from oneclock.runs.paired import LEVEL, CellRun, PairedSweep
from oneclock.runs.sweeps import Sweep

BETAS, LRS = 2, 1
"""A quadratic reaches so many swept betas and learning rates to each side of the lowest cell."""

BEYOND = 1.0
"""How far beyond the swept values a lowest point is looked for, in decades."""

FINE, COARSE = 0.01, 0.02
"""Steps of that search, in decades: along one coordinate, and along each of two."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The deviance of every place that one coordinate of the lowest point may have; `best` has the smallest.

    `freedom` is that of the noise; 0 where the noise is not known and the deviances are not to scale. `inside` says
    whether the best lies within what was swept.
    """

    at: np.ndarray
    deviance: np.ndarray
    best: float
    freedom: int
    inside: bool

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """The lowest and highest place within the confidence set; infinite where it reaches the end of the search."""
        if not self.freedom:
            return None
        kept = np.flatnonzero(self.deviance - self.deviance.min() <= f_quantile(level, 1, self.freedom))
        low = -math.inf if kept[0] == 0 else float(self.at[kept[0] - 1])  # a step wider: the search is that coarse
        high = math.inf if kept[-1] == len(self.at) - 1 else float(self.at[kept[-1] + 1])
        return low, high


Profiles = tuple[Profile, Profile | None]
"""Of the best u, and of the best w where several learning rates were swept."""


def profiles_of(sweep: Sweep) -> Profiles | None:
    """The profiles of the best u and, with several learning rates, of the best w; None with too few runs."""
    runs = [run for run in cell_runs(sweep) if not isinstance(run[0], tuple) and math.isfinite(run[3]) and run[3] > 0]
    lrs = {run[1] for run in runs} - {None}
    if len(lrs) > 1 and (both := _fit(runs, has_lrs=True)) is not None:
        return both[0], both[1]
    if len(lrs) > 1:
        best = at_best_lrs(sweep)
        runs = [run for run in cell_runs(best) if not isinstance(run[0], tuple) and math.isfinite(run[3])]
    alone = _fit(runs, has_lrs=False)
    return None if alone is None else (alone[0], None)


def _fit(runs: Sequence[CellRun], has_lrs: bool) -> tuple[Profile, ...] | None:
    """One profile per coordinate, from runs around the lowest cell; None where they do not determine a quadratic."""
    near = _neighbourhood(runs, has_lrs)
    u = np.array([math.log10(1 - run[0]) for run in near])
    w = np.array([math.log10(run[1]) for run in near]) if has_lrs else np.zeros(len(near))
    loss, seeds = np.log([run[3] for run in near]), np.array([run[2] for run in near])
    middle = np.array([u.mean(), w.mean()])
    x, y = u - middle[0], w - middle[1]
    bend = [x * x, y * y, x * y, x, y] if has_lrs else [x * x, x]
    design = np.column_stack([*bend, *(seeds == seed for seed in np.unique(seeds))]).astype(float)
    rank = int(np.linalg.matrix_rank(design))
    if rank < design.shape[1]:
        return None
    solved = np.linalg.pinv(design) @ loss
    freedom = len(loss) - rank
    square = float(np.sum((loss - design @ solved) ** 2))
    variance, freedom = _noise(runs, square, freedom)
    spread = np.linalg.inv(design.T @ design)[: len(bend), : len(bend)] * variance
    step = COARSE if has_lrs else FINE
    grids = [_search_grid(axis, top, step) for axis, top in ((u, 0.0), (w, math.inf))[: 2 if has_lrs else 1]]
    if has_lrs:
        height = _deviance_of_pairs(solved[:5], spread, grids[0] - middle[0], grids[1] - middle[1])
        heights = [height.min(axis=1), height.min(axis=0)]
    else:
        heights = [_deviance(solved[:2], spread, grids[0] - middle[0])]
    exact = _lowest_point(solved[: len(bend)])
    profiles = []
    for index, (at, deviance, axis) in enumerate(zip(grids, heights, (u, w), strict=False)):
        best = float(at[np.argmin(deviance)]) if exact is None else float(exact[index] + middle[index])
        best = min(max(best, float(at[0])), float(at[-1]))
        profiles.append(Profile(at, deviance, best, freedom, bool(axis.min() < best < axis.max())))
    return tuple(profiles)


def _lowest_point(bend: np.ndarray) -> np.ndarray | None:
    """Where the fitted quadratic has both slopes 0; None where it bends down in some direction."""
    if len(bend) == 2:
        return np.array([-bend[1] / (2 * bend[0])]) if bend[0] > 0 else None
    a, b, c = bend[:3]
    curved = np.array([[2 * a, c], [c, 2 * b]])
    return -np.linalg.solve(curved, bend[3:]) if a > 0 and 4 * a * b > c**2 else None


def _noise(runs: Sequence[CellRun], square: float, freedom: int) -> tuple[float, int]:
    """The variance of one run: of the fit or of the seeds, whichever is larger; and its degrees of freedom."""
    seeds = PairedSweep(runs).noise[0]
    if freedom < 1:
        return (seeds.spread**2, seeds.freedom) if seeds.freedom and seeds.spread else (1e-12, 0)
    fitted = max(square / freedom, 1e-18)
    return (fitted, freedom) if fitted >= seeds.spread**2 else (seeds.spread**2, max(seeds.freedom, freedom))


def _neighbourhood(runs: Sequence[CellRun], has_lrs: bool) -> list[Any]:
    """The runs at the lowest cell and around it."""
    losses = PairedSweep(runs).losses
    betas, lrs = sorted({run[0] for run in runs}), sorted({run[1] for run in runs if run[1] is not None})
    lowest = min(losses, key=lambda cell: (losses[cell], str(cell)))
    window = _around(betas, lowest[0], 1 if has_lrs else BETAS)
    near = _around(lrs, lowest[1], LRS) if has_lrs else {run[1] for run in runs}
    return [run for run in runs if run[0] in window and run[1] in near]


def _around(values: Sequence[Any], middle: Any, reach: int) -> set[Any]:
    """The values around one of them: so many to each side, or more to the other side at an end."""
    first = max(min(values.index(middle) - reach, len(values) - 2 * reach - 1), 0)
    return set(values[first : first + 2 * reach + 1])


def _search_grid(axis: np.ndarray, top: float, step: float) -> np.ndarray:
    """Where a lowest point is looked for: over the axis and beyond its ends, up to `top`."""
    return np.arange(axis.min() - BEYOND, min(axis.max() + BEYOND, top) + step / 2, step)


def _deviance(solved: np.ndarray, spread: np.ndarray, at: np.ndarray) -> np.ndarray:
    """How much worse the quadratic fits if its lowest point must be at each place, in squared standard errors.

    Where it would then bend down it must be flat instead, which fits worse still.
    """
    rows = np.stack([2 * at, np.ones_like(at)], axis=-1)
    slope, across = rows @ solved, rows @ spread
    variance = (across * rows).sum(axis=-1)
    bend = solved[0] - across[:, 0] * slope / variance
    flat = float(solved @ np.linalg.solve(spread, solved))
    return np.where(bend >= 0, slope**2 / variance, flat)


def _deviance_of_pairs(solved: np.ndarray, spread: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same for a quadratic in two coordinates, both slopes being 0: x places times y places.

    Where the quadratic would then bend down in some direction, its fit is made worse by how far, to first order.
    """
    across, along = np.meshgrid(x, y, indexing="ij")
    zero, one = np.zeros_like(across), np.ones_like(across)
    rows = np.stack(
        [np.stack([2 * across, zero, along, one, zero], -1), np.stack([zero, 2 * along, across, zero, one], -1)], -2
    )
    slopes, gain = rows @ solved, rows @ spread
    inverse = np.linalg.inv(gain @ rows.swapaxes(-1, -2))
    shift = np.einsum("...sk,...st,...t->...k", gain, inverse, slopes)
    a, b, c = np.moveaxis((solved - shift)[..., :3], -1, 0)
    tilt = np.hypot(a - b, c)
    angle = 0.5 * np.arctan2(-c, b - a)  # of the direction that bends up least
    direction = np.stack([np.cos(angle) ** 2, np.sin(angle) ** 2, np.cos(angle) * np.sin(angle)], -1)
    left = spread[:3, :3] - np.einsum("...sk,...st,...tm->...km", gain[..., :3], inverse, gain[..., :3])
    doubt = np.einsum("...k,...km,...m->...", direction, left, direction)
    down = np.minimum(a + b - tilt, 0) / 2
    return np.einsum("...s,...st,...t->...", slopes, inverse, slopes) + down**2 / np.maximum(doubt, 1e-300)
