"""How the best beta (and the best learning rate) moves with the length of training.

    1 - beta ~ T ** -alpha     alpha is minus the slope of the best log10(1 - beta) over log10 T

The deviance of an exponent adds up the deviances of all lengths (`quadratic`) along a line. Its 95 % CI holds every
alpha of which the deviance is small, and is wider where the best betas scatter around the line more than their noise
explains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneclock.rule import Power
from oneclock.runs.best import cell_runs
from oneclock.runs.noise import f_quantile
from oneclock.runs.paired import LEVEL, Interval, PairedSweep
from oneclock.runs.sweeps import Sweep
from oneclock.stats.quadratic import FINE, Profile, Profiles
from oneclock.stats.sources import budget_of


@dataclass(frozen=True)
class SeriesPoint:
    """The best beta at one length by a fitted quadratic, with its 95 % CI, and its refreshes over the planned steps.

    `bracketed` is False where the best lies outside what was swept. Intervals are None where every run is needed to fit
    the quadratic. `lr` is the best learning rate where several were swept.
    """

    budget: float
    beta: float
    beta_interval: Interval | None
    refreshes: float
    refreshes_interval: Interval | None
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
    """The loss over beta and learning rate of one experiment: every cell, the lowest one, and the fitted best pair.

    `beta` and `lr` are the lowest point of the fitted quadratic, with 95 % CIs (None where too few cells are known).
    `beta_inside` and `lr_inside` say whether it lies within what was swept.
    """

    cells: tuple[SurfaceCell, ...]
    lowest: tuple[float, float]
    beta: float | None
    beta_interval: Interval | None
    lr: float | None
    lr_interval: Interval | None
    beta_inside: bool
    lr_inside: bool


def surface_of(sweep: Sweep, profiles: Profiles | None) -> Surface | None:
    """The loss over beta and learning rate with its fitted best pair (`profiles_of` the sweep).

    None where fewer than two learning rates were swept.
    """
    if len({run.lr for run in sweep.tied} - {None}) < 2:
        return None
    runs = [run for run in cell_runs(sweep) if not isinstance(run[0], tuple)]
    paired = PairedSweep(runs)
    cells = tuple(
        SurfaceCell(beta, lr, loss, sum(run[:2] == (beta, lr) for run in runs))
        for (beta, lr), loss in sorted(paired.losses.items())
        if lr is not None and not isinstance(beta, tuple)
    )
    best = min(cells, key=lambda cell: (cell.loss, cell.beta, cell.lr))
    u, w = profiles or (None, None)
    if u is None or w is None:
        return Surface(cells, (best.beta, best.lr), None, None, None, None, False, False)
    return Surface(
        cells=cells,
        lowest=(best.beta, best.lr),
        beta=1 - 10**u.best,
        beta_interval=_of_beta(u.interval()),
        lr=10**w.best,
        lr_interval=_powers(w.interval()),
        beta_inside=u.inside,
        lr_inside=w.inside,
    )


def series_name(sweep: Sweep) -> str | None:
    """The series that a sweep belongs to by its name: `vit` of `vit-250` with 250 steps; None of any other."""
    named, budget = re.fullmatch(r"(.+)-(\d+)", sweep.name), budget_of(sweep)
    return named[1] if named and float(named[2]) == budget and len(sweep.betas) >= 3 else None


def series_of(sweeps: Sequence[Sweep], profiles: Sequence[Profiles | None]) -> tuple[Series, ...]:
    """The series among the sweeps: at least three named after one thing and their budget, as `vit-250`, `vit-1000`."""
    members: dict[str, list[tuple[float, Profile, Profile | None]]] = {}
    for sweep, own in zip(sweeps, profiles, strict=True):
        name, budget = series_name(sweep), budget_of(sweep)
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
"""Exponents that are looked at."""


def exponent(
    steps: np.ndarray, profiles: Sequence[Profile], level: float = LEVEL
) -> tuple[float, float, Interval | None]:
    """The exponent alpha of the best place over steps, its place at the mean of `steps`, and the 95 % CI of alpha.

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
    ends = profile.interval()
    return SeriesPoint(
        budget=budget,
        beta=1 - 10**profile.best,
        beta_interval=_of_beta(ends),
        refreshes=10**profile.best * budget,
        refreshes_interval=None if ends is None else Interval(10 ** ends[0] * budget, min(10 ** ends[1], 1) * budget),
        bracketed=profile.inside,
        lr=None if by_lr is None else 10**by_lr.best,
        lr_interval=None if by_lr is None else _powers(by_lr.interval()),
    )


def _of_beta(ends: tuple[float, float] | None) -> Interval | None:
    """The interval of u as one of beta, which lies between 0 and 1."""
    return None if ends is None else Interval(max(1 - 10 ** ends[1], 0.0), 1 - 10 ** ends[0])


def _powers(ends: tuple[float, float] | None) -> Interval | None:
    return None if ends is None else Interval(10 ** ends[0], 10 ** ends[1])
