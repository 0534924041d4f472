"""Beta and learning rate together: L(beta, lr) as measured, and a bowl through its lowest part.

    u = log10(1 - beta),  w = log10(lr)        L near its minimum is a full quadratic in (u, w)

The best cell and its eight neighbours are fitted, with each seed's own lift; the best pair is the lowest point of the
bowl over the stretch they span. Intervals come from drawing the noise anew, and how large it is, and fitting again.
Where the bowl lies across the axes, the best beta moves with the rate: `tilt` says how far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oneclock.analysis.axes import Surface, SurfaceCell
from oneclock.analysis.risk import central
from oneclock.study.best import LEVEL, Interval, levels
from oneclock.study.sweeps import Sweep

DRAWS = 1000
_FINE = 41
"""Places along each axis at which the bowl's lowest point is looked for."""


@dataclass(frozen=True, eq=False)
class Bowl:
    """The lowest point (u, w) of a fitted bowl, its draws, and whether it lies inside what was measured."""

    u: float
    w: float
    drawn_u: np.ndarray
    drawn_w: np.ndarray
    inside_u: bool
    inside_w: bool
    tilt: float
    drawn_tilt: np.ndarray


def surface_of(sweep: Sweep, draws: int = DRAWS, seed: int = 0) -> Surface | None:
    """L(beta, lr) of one experiment with its fitted best pair; None where fewer than two rates were swept."""
    if len({trial.rate for trial in sweep.tied} - {None}) < 2:
        return None
    level = levels((trial.beta, trial.rate, trial.seed, trial.loss) for trial in sweep.tied)
    cells = tuple(
        SurfaceCell(beta, rate, loss, sum((t.beta, t.rate) == (beta, rate) for t in sweep.tied))
        for (beta, rate), loss in sorted(level.items())
        if rate is not None and isinstance(beta, float)
    )
    bowl = bowl_of(sweep, draws, seed)
    best = min(cells, key=lambda cell: (cell.loss, cell.beta, cell.rate))
    if bowl is None:
        return Surface(cells, (best.beta, best.rate), None, None, None, None, False, False, None, None)
    return Surface(
        cells=cells,
        lowest=(best.beta, best.rate),
        beta=1 - 10**bowl.u,
        beta_interval=_interval(1 - 10**bowl.drawn_u),
        rate=10**bowl.w,
        rate_interval=_interval(10**bowl.drawn_w),
        beta_inside=bowl.inside_u,
        rate_inside=bowl.inside_w,
        tilt=bowl.tilt,
        tilt_interval=_interval(bowl.drawn_tilt),
    )


def bowl_of(sweep: Sweep, draws: int = DRAWS, seed: int = 0) -> Bowl | None:
    """The bowl through the best cell and its neighbours; None where they are too few for one."""
    near = _neighbourhood(sweep)
    if near is None:
        return None
    u, w, seeds, loss = near
    design = np.column_stack([u * u, w * w, u * w, u, w, *(seeds == one for one in np.unique(seeds))])
    rank = int(np.linalg.matrix_rank(design))
    if rank < design.shape[1]:
        return None
    solve = np.linalg.pinv(design)
    fitted = design @ (solve @ loss)
    freedom = len(loss) - rank
    rng = np.random.default_rng(seed)
    spread = np.sqrt(np.sum((loss - fitted) ** 2) / rng.chisquare(max(freedom, 1), draws))
    noise = spread if freedom else np.full(draws, math.nan)
    drawn = solve @ (fitted[:, None] + noise * rng.standard_normal((len(loss), draws)))
    (best_u,), (best_w,) = _lowest((solve @ loss)[:, None], u, w)
    drawn_u, drawn_w = _lowest(drawn, u, w)
    inside_u, inside_w = (bool(axis.min() < at < axis.max()) for axis, at in ((u, best_u), (w, best_w)))
    tilt = _tilt((solve @ loss)[:, None])
    return Bowl(float(best_u), float(best_w), drawn_u, drawn_w, inside_u, inside_w, float(tilt[0]), _tilt(drawn))


def _neighbourhood(sweep: Sweep) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """(u, w, seed, loss) of the finite runs at the best cell and its eight neighbours."""
    runs = [trial for trial in sweep.tied if trial.rate is not None and math.isfinite(trial.loss)]
    level = levels((trial.beta, trial.rate, trial.seed, trial.loss) for trial in runs)
    if len(level) < 6:
        return None
    betas, rates = (sorted({getattr(trial, name) for trial in runs}) for name in ("beta", "rate"))
    beta, rate = min(level, key=lambda pair: (level[pair], str(pair)))
    at = betas.index(beta), rates.index(rate)
    near = [t for t in runs if max(abs(betas.index(t.beta) - at[0]), abs(rates.index(t.rate) - at[1])) <= 1]
    table = np.array([(math.log10(1 - t.beta), math.log10(t.rate or 1), t.seed, t.loss) for t in near])
    return tuple(table.T)


def _lowest(coefficients: np.ndarray, u: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each column's bowl is lowest on the rectangle that u and w span."""
    fine_u, fine_w = np.linspace(u.min(), u.max(), _FINE), np.linspace(w.min(), w.max(), _FINE)
    x, y = (grid.reshape(-1) for grid in np.meshgrid(fine_u, fine_w, indexing="ij"))
    height = np.column_stack([x * x, y * y, x * y, x, y]) @ coefficients[:5]
    place = height.argmin(axis=0)
    return x[place], y[place]


def _tilt(coefficients: np.ndarray) -> np.ndarray:
    """How far the best u moves for a decade of rate, of each column's bowl."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return -coefficients[2] / (2 * coefficients[0])


def _interval(drawn: np.ndarray) -> Interval | None:
    if not np.isfinite(drawn).all():
        return None
    lower, upper = central(drawn, LEVEL)
    return Interval(float(lower), float(upper), LEVEL)
