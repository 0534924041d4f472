"""What an analysis says of a second axis, as values: the best beta over horizons, and beta beside the learning rate."""

from __future__ import annotations

from dataclasses import dataclass

from oneclock.study.best import Interval


@dataclass(frozen=True)
class SeriesPoint:
    """The best beta at one budget, by a parabola, and its refresh count over the useful horizon.

    `bracketed` is False where the best lies at the end of what was swept; intervals are None where every run is needed
    to draw the parabola.
    """

    budget: float
    horizon: float
    beta: float
    beta_interval: Interval | None
    refreshes: float
    refreshes_interval: Interval | None
    bracketed: bool
    rate: float | None = None
    rate_interval: Interval | None = None


@dataclass(frozen=True)
class Series:
    """One task over several budgets: `alpha` of 1 - beta ~ T ** -alpha over the planned steps, and over useful ones.

    1 is the refresh rule, 0 one beta for all. `c` is 1 - beta at 10,000 planned steps on the fitted line, as in
    `rule.Power(c, alpha)`. `rate_alpha` is that of lr ~ T ** -rate_alpha where rates were swept too and no best one
    lies at an end of them. `flat`: the intervals of all best betas have a beta in common.
    """

    name: str
    points: tuple[SeriesPoint, ...]
    c: float
    alpha: float
    alpha_interval: Interval | None
    alpha_useful: float | None
    alpha_useful_interval: Interval | None
    flat: bool | None
    rate_alpha: float | None = None
    rate_alpha_interval: Interval | None = None


@dataclass(frozen=True)
class SurfaceCell:
    """One pair of beta and learning rate: its loss as the mean seed would have it, and the seeds it ran with."""

    beta: float
    rate: float
    loss: float
    seeds: int


@dataclass(frozen=True)
class Surface:
    """L(beta, lr) of one experiment: every cell, the lowest one, and the best pair by a fitted bowl.

    `beta` and `rate` are the bowl's lowest point (None where too few cells are known), `beta_inside` and `rate_inside`
    whether it lies within what was measured. `tilt` is how far log10(1 - beta) of the best beta moves for a decade of
    rate.
    """

    cells: tuple[SurfaceCell, ...]
    lowest: tuple[float, float]
    beta: float | None
    beta_interval: Interval | None
    rate: float | None
    rate_interval: Interval | None
    beta_inside: bool
    rate_inside: bool
    tilt: float | None
    tilt_interval: Interval | None
