"""Where the loss of one sweep is lowest, and how the best beta and learning rate move with the length of training.

In u = log10(1 - beta) and w = log10(lr), the log loss near its minimum is a quadratic plus one effect per seed. The
deviance of a u (or w) is how much worse the quadratic fits, in squared standard errors, if its lowest point must lie
there; the 95 % CI holds every u with a small one. Over lengths T, 1 - beta ~ T ** -alpha; deviances add up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
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

    `freedom` is 0 if the noise is not known. `inside`: the best lies within what was swept.
    """

    at: np.ndarray
    deviance: np.ndarray
    best: float
    freedom: int
    inside: bool

    def interval(self) -> tuple[float, float] | None:
        """The 95 % CI; infinite where it reaches the end of the search, a step wider where not."""
        if not self.freedom:
            return None
        kept = self.deviance - self.deviance.min() <= f_quantile(LEVEL, 1, self.freedom)
        return _ends(self.at, kept, 1)


def _ends(at: np.ndarray, kept: np.ndarray, wider: int) -> tuple[float, float]:
    """The lowest and highest value that is kept, so many places `wider`; infinite at the ends of `at`."""
    first, last = np.flatnonzero(kept)[[0, -1]]
    return (
        -math.inf if first == 0 else float(at[first - wider]),
        math.inf if last == len(at) - 1 else float(at[last + wider]),
    )


Profiles = tuple[Profile, Profile | None]
"""Of the best u, and of the best w where several learning rates were swept."""


def planned_steps(sweep: Sweep) -> float | None:
    """The planned steps: the table's, or the last step of any curve."""
    if sweep.budget is not None:
        return sweep.budget
    return max((run.val.steps[-1] for run in sweep.tied if run.val is not None), default=None)


def profiles_of(sweep: Sweep) -> Profiles | None:
    """The profiles of the best u and, with several learning rates, of the best w; None with too few runs."""
    runs = _finite_runs(sweep)
    if len({run[1] for run in runs} - {None}) > 1:
        if (both := _fit(runs, has_lrs=True)) is not None:
            return both[0], both[1]
        runs = _finite_runs(at_best_lrs(sweep))
    alone = _fit(runs, has_lrs=False)
    return None if alone is None else (alone[0], None)


def _finite_runs(sweep: Sweep) -> list[CellRun]:
    return [run for run in cell_runs(sweep.tied) if math.isfinite(run[3])]


def _fit(runs: Sequence[CellRun], has_lrs: bool) -> tuple[Profile, ...] | None:
    """One profile per coordinate, from runs around the lowest cell; None if they do not determine a quadratic."""
    near = _neighbourhood(runs, has_lrs)
    u = np.array([math.log10(1 - run[0]) for run in near])
    w = np.array([math.log10(run[1]) for run in near]) if has_lrs else np.zeros(len(near))
    loss, seeds = np.log([run[3] for run in near]), np.array([run[2] for run in near])
    middle = np.array([u.mean(), w.mean()])
    x, y = u - middle[0], w - middle[1]
    terms = [x * x, y * y, x * y, x, y] if has_lrs else [x * x, x]
    design = np.column_stack([*terms, *(seeds == seed for seed in np.unique(seeds))]).astype(float)
    if (rank := int(np.linalg.matrix_rank(design))) < design.shape[1]:
        return None
    solved = np.linalg.pinv(design) @ loss
    bend = solved[: len(terms)]
    variance, freedom = _noise(runs, float(np.sum((loss - design @ solved) ** 2)), len(loss) - rank)
    spread = np.linalg.inv(design.T @ design)[: len(bend), : len(bend)] * variance
    step = COARSE if has_lrs else FINE
    axes = ((u, 0.0), (w, math.inf))[: 1 + has_lrs]
    grids = [np.arange(v.min() - BEYOND, min(v.max() + BEYOND, top) + step / 2, step) for v, top in axes]
    if has_lrs:
        height = _deviance_of_pairs(bend, spread, grids[0] - middle[0], grids[1] - middle[1])
        heights = [height.min(axis=1), height.min(axis=0)]
    else:
        heights = [_deviance(bend, spread, grids[0] - middle[0])]
    exact = _lowest_point(bend)
    profiles = []
    for index, (at, deviance, (axis, _)) in enumerate(zip(grids, heights, axes, strict=True)):
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
    """How much worse the quadratic fits if its lowest point must be at each value; flat where it would bend down."""
    rows = np.stack([2 * at, np.ones_like(at)], axis=-1)
    slope, across = rows @ solved, rows @ spread
    variance = (across * rows).sum(axis=-1)
    bend = solved[0] - across[:, 0] * slope / variance
    flat = float(solved @ np.linalg.solve(spread, solved))
    return np.where(bend >= 0, slope**2 / variance, flat)


def _deviance_of_pairs(solved: np.ndarray, spread: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same for x values times y values; where the quadratic would bend down, its fit is worse by how far."""
    across, along = np.meshgrid(x, y, indexing="ij")
    zero, one = np.zeros_like(across), np.ones_like(across)
    slope_of = ([2 * across, zero, along, one, zero], [zero, 2 * along, across, zero, one])
    rows = np.stack([np.stack(terms, -1) for terms in slope_of], -2)
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
    """The best beta at one length by a fitted quadratic, and the best learning rate where several were swept.

    `bracketed`: the best beta lies within what was swept. CIs are None if every run is needed for the fit.
    """

    budget: float
    beta: float
    beta_interval: Interval | None
    bracketed: bool
    lr: float | None = None
    lr_interval: Interval | None = None


@dataclass(frozen=True)
class Series:
    """One task over several lengths: `alpha` of 1 - beta ~ T ** -alpha (1 is the paper's rule), and `c` of `Power`.

    `lr_alpha` is that of lr ~ T ** -lr_alpha, if every best learning rate lies within those swept. `flat`: the CI of
    alpha holds 0, one beta for all.
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
    """The loss over beta and learning rate of one experiment: every cell, and the lowest point of the fitted quadratic.

    That is None if too few cells are known. `beta_inside` and `lr_inside`: it lies within what was swept.
    """

    cells: tuple[SurfaceCell, ...]
    beta: float | None
    beta_interval: Interval | None
    lr: float | None
    lr_interval: Interval | None
    beta_inside: bool
    lr_inside: bool


def surface_of(sweep: Sweep, profiles: Profiles | None) -> Surface | None:
    """The loss over beta and learning rate, with `profiles_of` the sweep; None with fewer than two learning rates."""
    if len({run.lr for run in sweep.tied} - {None}) < 2:
        return None
    runs = cell_runs(run for run in sweep.runs if run.key.is_tied)
    cells = tuple(
        SurfaceCell(beta, lr, loss, sum(run[:2] == (beta, lr) for run in runs))
        for (beta, lr), loss in sorted(PairedSweep(runs).losses.items())
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
    members: dict[str, dict[float, Profiles]] = {}
    for sweep, own in sweeps:
        name, budget = series_name(sweep), planned_steps(sweep)
        if name is not None and budget is not None and own is not None:
            members.setdefault(name, {})[budget] = own
    return tuple(_series(name, group) for name, group in members.items() if len(group) >= 3)


def _series(name: str, group: Mapping[float, Profiles]) -> Series:
    budgets = sorted(group)
    steps = np.log10(budgets)
    alpha, middle, interval = exponent(steps, [group[budget][0] for budget in budgets])
    lrs = [lr for _, lr in map(group.__getitem__, budgets) if lr is not None and lr.inside]
    lr_alpha, _, lr_interval = exponent(steps, lrs) if len(lrs) == len(group) else (None, None, None)
    return Series(
        name=name,
        points=tuple(_point(budget, *group[budget]) for budget in budgets),
        c=float(10 ** (middle - alpha * (math.log10(Power.t0) - steps.mean()))),
        alpha=alpha,
        alpha_interval=interval,
        flat=None if interval is None else 0 in interval,
        lr_alpha=lr_alpha,
        lr_alpha_interval=lr_interval,
    )


ALPHAS = np.round(np.arange(-2.0, 3.0001, 0.01), 2)
"""The exponents that are tried."""


def exponent(steps: np.ndarray, profiles: Sequence[Profile]) -> tuple[float, float, Interval | None]:
    """The exponent alpha over `steps` (log10 of the lengths), the best value at their mean, and the 95 % CI of alpha.

    The CI is wider where the best values scatter around the line more than their noise explains.
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
    if not all(one.freedom for one in profiles):
        return alpha, middle, None
    scatter = max(1.0, float(by_alpha[best]) / max(len(profiles) - 2, 1))
    reach = scatter * f_quantile(LEVEL, 1, sum(one.freedom for one in profiles))
    return alpha, middle, Interval(*_ends(ALPHAS, by_alpha - by_alpha[best] <= reach, 0))


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
