"""Where the loss of one sweep is lowest, and how the best beta and learning rate move with the length of training.

    u = log10(1 - beta), w = log10(lr)     log loss near its minimum: a quadratic in u (and w), plus one effect per seed
    1 - beta ~ T ** -alpha                 alpha is minus the slope of the best u over log10 T

The deviance of a value of u is how much worse the quadratic fits if its lowest point must lie there, in squared
standard errors. The 95 % CI of the best u holds every u with a small deviance, at the best w for it. It is not confined
to the cells that were measured: where the quadratic is flat, the interval is open.

The deviance of an exponent adds up the deviances of all lengths along a line. Its 95 % CI holds every alpha with a
small deviance, and is wider where the best betas scatter around the line more than their noise explains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneclock.rule import Power
from oneclock.runs.best import at_best_lrs, cell_runs
from oneclock.runs.noise import f_quantile
from oneclock.runs.paired import LEVEL, CellRun, Interval, PairedSweep
from oneclock.runs.sweeps import Sweep

BETAS, LRS = 2, 1
"""The quadratic uses this many swept betas and learning rates on each side of the lowest cell."""

BEYOND = 1.0
"""How far beyond the swept values a lowest point is searched, in decades."""

FINE, COARSE = 0.01, 0.02
"""Steps of that search, in decades: along one coordinate, and along each of two."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The deviance of every value that one coordinate of the lowest point may have; `best` has the smallest.

    `freedom` is that of the noise; 0 if the noise is not known and the deviances are not to scale. `inside` says
    whether the best lies within what was swept.
    """

    at: np.ndarray
    deviance: np.ndarray
    best: float
    freedom: int
    inside: bool

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """The lowest and highest value within the confidence set; infinite if it reaches the end of the search."""
        if not self.freedom:
            return None
        kept = np.flatnonzero(self.deviance - self.deviance.min() <= f_quantile(level, 1, self.freedom))
        low = -math.inf if kept[0] == 0 else float(self.at[kept[0] - 1])  # a step wider: the search is that coarse
        high = math.inf if kept[-1] == len(self.at) - 1 else float(self.at[kept[-1] + 1])
        return low, high


Profiles = tuple[Profile, Profile | None]
"""Of the best u, and of the best w where several learning rates were swept."""


def planned_steps(sweep: Sweep) -> float | None:
    """The planned steps: the table's, or the last step of any curve."""
    if sweep.budget is not None:
        return sweep.budget
    return max((run.val.steps[-1] for run in sweep.tied if run.val is not None), default=None)


def profiles_of(sweep: Sweep) -> Profiles | None:
    """The profiles of the best u and, with several learning rates, of the best w; None with too few runs."""
    runs = [
        run for run in cell_runs(sweep.runs) if not isinstance(run[0], tuple) and math.isfinite(run[3]) and run[3] > 0
    ]
    lrs = {run[1] for run in runs} - {None}
    if len(lrs) > 1 and (both := _fit(runs, has_lrs=True)) is not None:
        return both[0], both[1]
    if len(lrs) > 1:
        best = at_best_lrs(sweep)
        runs = [run for run in cell_runs(best.runs) if not isinstance(run[0], tuple) and math.isfinite(run[3])]
    alone = _fit(runs, has_lrs=False)
    return None if alone is None else (alone[0], None)


def _fit(runs: Sequence[CellRun], has_lrs: bool) -> tuple[Profile, ...] | None:
    """One profile per coordinate, from runs around the lowest cell; None if they do not determine a quadratic."""
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
    ends = [(axis.min() - BEYOND, min(axis.max() + BEYOND, top)) for axis, top in ((u, 0.0), (w, math.inf))]
    grids = [np.arange(low, high + step / 2, step) for low, high in (ends if has_lrs else ends[:1])]
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
    """Where the fitted quadratic has both slopes 0; None if it bends down in some direction."""
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


def _deviance(solved: np.ndarray, spread: np.ndarray, at: np.ndarray) -> np.ndarray:
    """How much worse the quadratic fits if its lowest point must be at each value, in squared standard errors.

    Where it would then bend down it must be flat instead, which fits worse still.
    """
    rows = np.stack([2 * at, np.ones_like(at)], axis=-1)
    slope, across = rows @ solved, rows @ spread
    variance = (across * rows).sum(axis=-1)
    bend = solved[0] - across[:, 0] * slope / variance
    flat = float(solved @ np.linalg.solve(spread, solved))
    return np.where(bend >= 0, slope**2 / variance, flat)


def _deviance_of_pairs(solved: np.ndarray, spread: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same for a quadratic in two coordinates, both slopes being 0: x values times y values.

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


@dataclass(frozen=True)
class SeriesPoint:
    """The best beta at one length by a fitted quadratic, with its 95 % CI.

    `bracketed` is False if the best lies outside what was swept. Intervals are None if every run is needed to fit
    the quadratic. `lr` is the best learning rate where several were swept.
    """

    budget: float
    beta: float
    beta_interval: Interval | None
    bracketed: bool
    lr: float | None = None
    lr_interval: Interval | None = None


@dataclass(frozen=True)
class Series:
    """One task over several lengths: `alpha` of 1 - beta ~ T ** -alpha over the planned steps, with its 95 % CI.

    1 is the paper's rule, 1/2 a memory that grows with the square root, 0 one beta for all. `c` is 1 - beta at 10,000
    steps on the fitted line, as in `Power(c, alpha)`. `lr_alpha` is that of lr ~ T ** -lr_alpha where learning
    rates were swept too and every best one lies within those swept. `flat` says whether the CI of alpha holds 0.
    """

    name: str
    points: tuple[SeriesPoint, ...]
    c: float
    alpha: float
    alpha_interval: Interval | None
    flat: bool | None
    lr_alpha: float | None = None
    lr_alpha_interval: Interval | None = None


@dataclass(frozen=True)
class SurfaceCell:
    """One pair of beta and learning rate: its loss as the mean seed would have it, and the seeds it ran with."""

    beta: float
    lr: float
    loss: float
    seeds: int


@dataclass(frozen=True)
class Surface:
    """The loss over beta and learning rate of one experiment: every cell, and the fitted best pair.

    `beta` and `lr` are the lowest point of the fitted quadratic, with 95 % CIs (None if too few cells are known).
    `beta_inside` and `lr_inside` say whether it lies within what was swept.
    """

    cells: tuple[SurfaceCell, ...]
    beta: float | None
    beta_interval: Interval | None
    lr: float | None
    lr_interval: Interval | None
    beta_inside: bool
    lr_inside: bool


def surface_of(sweep: Sweep, profiles: Profiles | None) -> Surface | None:
    """The loss over beta and learning rate with its fitted best pair (`profiles_of` the sweep).

    None if fewer than two learning rates were swept.
    """
    if len({run.lr for run in sweep.tied} - {None}) < 2:
        return None
    runs = [run for run in cell_runs(sweep.runs) if not isinstance(run[0], tuple)]
    paired = PairedSweep(runs)
    cells = tuple(
        SurfaceCell(beta, lr, loss, sum(run[:2] == (beta, lr) for run in runs))
        for (beta, lr), loss in sorted(paired.losses.items())
        if lr is not None and not isinstance(beta, tuple)
    )
    u, w = profiles or (None, None)
    if u is None or w is None:
        return Surface(cells, None, None, None, None, False, False)
    return Surface(
        cells=cells,
        beta=1 - 10**u.best,
        beta_interval=_of_beta(u.interval()),
        lr=10**w.best,
        lr_interval=_powers(w.interval()),
        beta_inside=u.inside,
        lr_inside=w.inside,
    )


def series_name(sweep: Sweep) -> str | None:
    """The series that a sweep belongs to by its name: `vit` of `vit-250` with 250 steps; None of any other."""
    named, budget = re.fullmatch(r"(.+)-(\d+)", sweep.name), planned_steps(sweep)
    return named[1] if named and float(named[2]) == budget and len(sweep.betas) >= 3 else None


def series_of(sweeps: Iterable[tuple[Sweep, Profiles | None]]) -> tuple[Series, ...]:
    """The series among the sweeps: at least three named after one thing and their budget, as `vit-250`, `vit-1000`."""
    members: dict[str, list[tuple[float, Profile, Profile | None]]] = {}
    for sweep, own in sweeps:
        name, budget = series_name(sweep), planned_steps(sweep)
        if name is not None and budget is not None and own is not None:
            members.setdefault(name, []).append((budget, *own))
    return tuple(
        _series(name, sorted(group, key=lambda one: one[0])) for name, group in members.items() if len(group) >= 3
    )


def _series(name: str, group: Sequence[tuple[float, Profile, Profile | None]]) -> Series:
    steps = np.log10([budget for budget, _, _ in group])
    alpha, middle, interval = exponent(steps, [profile for _, profile, _ in group])
    lr_profiles = [profile for _, _, profile in group if profile is not None and profile.inside]
    by_lr = exponent(steps, lr_profiles) if len(lr_profiles) == len(group) else None
    return Series(
        name=name,
        points=tuple(_point(*one) for one in group),
        c=float(10 ** (middle - alpha * (math.log10(Power.t0) - steps.mean()))),
        alpha=alpha,
        alpha_interval=interval,
        flat=None if interval is None else 0 in interval,
        lr_alpha=None if by_lr is None else by_lr[0],
        lr_alpha_interval=None if by_lr is None else by_lr[2],
    )


ALPHAS = np.round(np.arange(-2.0, 3.0001, 0.01), 2)
"""The exponents that are tried."""


def exponent(
    steps: np.ndarray, profiles: Sequence[Profile], level: float = LEVEL
) -> tuple[float, float, Interval | None]:
    """The exponent alpha of the best value over steps, that value at the mean of `steps`, and the 95 % CI of alpha.

    `steps` are log10 of the lengths, one per profile.
    """
    centred = steps - steps.mean()
    low, high = min(one.at[0] for one in profiles), max(one.at[-1] for one in profiles)
    middles = np.arange(low, high, FINE)
    total = np.zeros((len(ALPHAS), len(middles)))
    for position, one in zip(centred, profiles, strict=True):
        there = middles[None] - ALPHAS[:, None] * position
        total += np.interp(there, one.at, one.deviance, left=one.deviance[0], right=one.deviance[-1])
    by_alpha = total.min(axis=1)
    best = int(np.argmin(by_alpha))
    alpha, middle = float(ALPHAS[best]), float(middles[np.argmin(total[best])])
    freedom = sum(one.freedom for one in profiles)
    if not all(one.freedom for one in profiles):
        return alpha, middle, None
    scatter = max(1.0, float(by_alpha[best]) / max(len(profiles) - 2, 1))
    kept = np.flatnonzero(by_alpha - by_alpha[best] <= scatter * f_quantile(level, 1, freedom))
    ends = (
        -math.inf if kept[0] == 0 else float(ALPHAS[kept[0]]),
        math.inf if kept[-1] == len(ALPHAS) - 1 else float(ALPHAS[kept[-1]]),
    )
    return alpha, middle, Interval(*ends, level)


def _point(budget: float, profile: Profile, by_lr: Profile | None) -> SeriesPoint:
    return SeriesPoint(
        budget=budget,
        beta=1 - 10**profile.best,
        beta_interval=_of_beta(profile.interval()),
        bracketed=profile.inside,
        lr=None if by_lr is None else 10**by_lr.best,
        lr_interval=None if by_lr is None else _powers(by_lr.interval()),
    )


def _of_beta(ends: tuple[float, float] | None) -> Interval | None:
    """The interval of u as one of beta, which lies between 0 and 1."""
    return None if ends is None else Interval(max(1 - 10 ** ends[1], 0.0), 1 - 10 ** ends[0])


def _powers(ends: tuple[float, float] | None) -> Interval | None:
    return None if ends is None else Interval(10 ** ends[0], 10 ** ends[1])
