"""How the best beta moves where nothing but the horizon differs: a parabola in u per horizon, a line through them.

    u = log10(1 - beta)        L(u) near its minimum is a parabola, its vertex the best u
    1 - beta ~ T ** -alpha     alpha is minus the slope of the best u over log10 T

Every seed starts from the same weights and sees the same batches at every beta, so a seed lifts or lowers its whole
curve: that lift is fitted with the parabola, and what remains is the noise. Intervals come from drawing this noise anew
(and how large it is, which few runs tell only roughly) and fitting again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneclock.analysis.axes import Series, SeriesPoint
from oneclock.analysis.horizons import budget_of
from oneclock.analysis.risk import central
from oneclock.analysis.surface import Bowl, bowl_of
from oneclock.analysis.values import Horizons
from oneclock.rule import Power
from oneclock.study.best import Interval, at_best_rates
from oneclock.study.sweeps import Sweep

WINDOW = 5
"""Betas in a parabola: the best and two to each side."""

DRAWS = 2000
LEVEL = 0.95


def series_of(
    sweeps: Sequence[Sweep], horizons: Sequence[Horizons], draws: int = DRAWS, seed: int = 0
) -> tuple[Series, ...]:
    """The series among the sweeps: at least three named after one thing and their budget, as `vit-250`, `vit-1000`."""
    members: dict[str, list[tuple[float, Sweep, Horizons]]] = {}
    for sweep, horizon in zip(sweeps, horizons, strict=True):
        found, budget = re.fullmatch(r"(.+)-(\d+)", sweep.name), budget_of(sweep)
        if found and budget is not None and float(found[2]) == budget and len(sweep.betas) >= 3:
            members.setdefault(found[1], []).append((budget, sweep, horizon))
    rng = np.random.default_rng(seed)
    return tuple(
        _series(name, sorted(group, key=lambda one: one[0]), draws, rng)
        for name, group in members.items()
        if len(group) >= 3
    )


def _series(name: str, group: Sequence[tuple[float, Sweep, Horizons]], draws: int, rng: np.random.Generator) -> Series:
    bowls = [bowl_of(sweep, draws) for _, sweep, _ in group]
    fits = [
        _best_u(sweep, draws, rng) if bowl is None else (bowl.u, bowl.drawn_u, bowl.inside_u)
        for (_, sweep, _), bowl in zip(group, bowls, strict=True)
    ]
    points = tuple(
        _point(budget, horizon, *fit, bowl) for (budget, _, horizon), fit, bowl in zip(group, fits, bowls, strict=True)
    )
    best = np.array([[one] for one, _, _ in fits])
    drawn = np.stack([one for _, one, _ in fits])
    planned = np.log10([budget for budget, _, _ in group])
    useful = np.log10([horizon.used for _, _, horizon in group])
    alpha = float(_slope(planned, best)[0])
    return Series(
        name=name,
        points=points,
        c=float(10 ** (best.mean() - alpha * (math.log10(Power.t0) - planned.mean()))),
        alpha=alpha,
        alpha_interval=_interval(_slope(planned, drawn)),
        alpha_useful=float(_slope(useful, best)[0]) if len({*useful}) > 1 else None,
        alpha_useful_interval=_interval(_slope(useful, drawn)) if len({*useful}) > 1 else None,
        flat=_flat(drawn),
        **_rate_alpha(planned, bowls),
    )


def _rate_alpha(planned: np.ndarray, bowls: Sequence[Bowl | None]) -> dict[str, Any]:
    """The exponent of the best rate over the planned steps, where every member has its best rate inside those swept."""
    known = [bowl for bowl in bowls if bowl is not None and bowl.inside_w]
    if len(known) < len(bowls):
        return {}
    best, drawn = np.array([[bowl.w] for bowl in known]), np.stack([bowl.drawn_w for bowl in known])
    return {
        "rate_alpha": float(_slope(planned, best)[0]),
        "rate_alpha_interval": _interval(_slope(planned, drawn)),
    }


def _best_u(sweep: Sweep, draws: int, rng: np.random.Generator) -> tuple[float, np.ndarray, bool]:
    """The vertex of the parabola, its draws, and whether it lies inside the betas that were swept."""
    u, seeds, loss = _cells(at_best_rates(sweep))
    low, high = u.min(), u.max()
    design = np.column_stack([u**2, u, *(seeds == one for one in np.unique(seeds))])
    solve = np.linalg.pinv(design)
    fitted = design @ (solve @ loss)
    freedom = len(loss) - np.linalg.matrix_rank(design)
    vertex = float(_vertex((solve @ loss)[:, None], low, high)[0])
    if freedom < 1:
        return vertex, np.full(draws, math.nan), bool(low < vertex < high)
    spread = np.sqrt(np.sum((loss - fitted) ** 2) / rng.chisquare(freedom, draws))
    drawn = fitted[:, None] + spread * rng.standard_normal((len(loss), draws))
    return vertex, _vertex(solve @ drawn, low, high), bool(low < vertex < high)


def _cells(sweep: Sweep) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(u, seed, loss) of the runs at the best beta and around it; a beta of one seed counts with what it has."""
    runs = [(trial.beta, trial.seed, trial.min_val_loss) for trial in sweep.tied if trial.min_val_loss is not None]
    by_seed: dict[int, dict[float, float]] = {}
    for beta, seed, loss in runs:
        by_seed.setdefault(seed, {})[beta] = loss
    widest = max(by_seed.values(), key=len)
    level: dict[float, list[float]] = {}  # losses as if all were of the widest seed
    for own in by_seed.values():
        shared = own.keys() & widest.keys()
        lift = math.fsum(own[beta] - widest[beta] for beta in shared) / len(shared) if shared else 0.0
        for beta, loss in own.items():
            level.setdefault(beta, []).append(loss - lift)
    mean = {beta: math.fsum(losses) / len(losses) for beta, losses in level.items()}
    best = sweep.betas.index(min(mean, key=lambda beta: (mean[beta], beta)))
    first = max(min(best - WINDOW // 2, len(sweep.betas) - WINDOW), 0)
    window = sweep.betas[first : first + WINDOW]
    near = [run for run in runs if run[0] in window]
    betas, seeds, losses = (np.array(column, dtype=float) for column in zip(*near, strict=True))
    return np.log10(1 - betas), seeds, losses


def _vertex(coefficients: np.ndarray, low: float, high: float) -> np.ndarray:
    """Where a u**2 + b u is smallest on [low, high], for each column of coefficients."""
    a, b = coefficients[0], coefficients[1]
    edge = np.where((a * low + b) * low <= (a * high + b) * high, low, high)
    return np.where(a > 0, np.clip(-b / np.where(a > 0, 2 * a, 1.0), low, high), edge)


def _slope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minus the slope of each column of y over x."""
    centred = x - x.mean()
    return -(centred @ y) / (centred @ centred)


def _interval(drawn: np.ndarray) -> Interval | None:
    if np.isnan(drawn).any():
        return None
    lower, upper = central(drawn, LEVEL)
    return Interval(float(lower), float(upper), LEVEL)


def _flat(drawn: np.ndarray) -> bool | None:
    """Whether one beta for all horizons is as likely as not: the intervals of all best u have a value in common."""
    if np.isnan(drawn).any():
        return None
    lower, upper = central(drawn, LEVEL, axis=1)
    return bool(lower.max() <= upper.min())


def _point(
    budget: float, horizon: Horizons, best: float, drawn: np.ndarray, bracketed: bool, bowl: Bowl | None
) -> SeriesPoint:
    interval = _interval(drawn)
    betas = None if interval is None else Interval(1 - 10**interval.upper, 1 - 10**interval.lower, LEVEL)
    refreshes = (
        None
        if interval is None
        else Interval(10**interval.lower * horizon.used, 10**interval.upper * horizon.used, LEVEL)
    )
    return SeriesPoint(
        budget=budget,
        horizon=horizon.used,
        beta=1 - 10**best,
        beta_interval=betas,
        refreshes=10**best * horizon.used,
        refreshes_interval=refreshes,
        bracketed=bracketed,
        rate=None if bowl is None else 10**bowl.w,
        rate_interval=None if bowl is None else _interval(10**bowl.drawn_w),
    )
