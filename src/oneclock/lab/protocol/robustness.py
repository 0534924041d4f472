"""How much the choice of beta depends on T_ES: stability intervals, and noise in T_ES."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oneclock.lab.protocol.data import ProtocolData, nearest, select_beta
from oneclock.lab.protocol.risk import central
from oneclock.rule import GRID, REFRESHES, Refresh, positive
from oneclock.stats.rules import NEAR

SIGMAS = (0.0, 0.03, 0.06, 0.10, 0.15, 0.20, 0.25)
DRAWS = 20
REPEATS = 1000
_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Stability:
    """The horizons for which the selected beta stays (None: open), and the relative distance to the nearer bound."""

    experiment: str
    split: str
    beta: float
    horizon: float
    lower: float | None
    upper: float | None
    margin: float


@dataclass(frozen=True)
class NoiseFigure:
    """One figure under noise in T: its mean over repeats, and their sampling range (lower, upper)."""

    expected: float
    lower: float
    upper: float


@dataclass(frozen=True)
class NoiseRisk:
    """Mean, max, CVaR and share under 1 % of all draws of one set of experiments."""

    mean: NoiseFigure
    max: NoiseFigure
    cvar: NoiseFigure
    within: NoiseFigure


@dataclass(frozen=True)
class NoiseRow:
    """The refresh rule with T' = T (1 + eps), eps ~ N(0, sigma): `draws` per experiment in each of `repeats`."""

    sigma: float
    draws: int
    repeats: int
    level: float
    development: NoiseRisk | None
    heldout: NoiseRisk | None
    all: NoiseRisk | None


@dataclass(frozen=True)
class Robustness:
    """How much the choice depends on T_ES. `mean_width` is the mean of (upper - lower) / lower, None if one is open."""

    stability: tuple[Stability, ...]
    mean_width: float | None
    noise: tuple[NoiseRow, ...]


def stability(data: ProtocolData, rule: Refresh, names: Sequence[str], splits: Sequence[str]) -> tuple[Stability, ...]:
    """The interval of horizons with the same choice, for every experiment that has one."""
    index = select_beta(rule, data.horizons, data.losses.betas)
    rows = []
    for number, pick in enumerate(index):
        if pick < 0:
            continue
        grid = data.losses.betas[number]
        grid = grid[~np.isnan(grid)].tolist()
        horizon = data.horizons[number]
        lower, upper = stability_interval(grid[pick], rule.refreshes, grid)
        margin = min(horizon - lower if lower else math.inf, upper - horizon) / horizon
        bounds = (lower or None, upper if upper < math.inf else None)
        rows.append(Stability(names[number], splits[number], grid[pick], horizon, *bounds, margin=margin))
    return tuple(rows)


def stability_interval(beta: float, refreshes: float = REFRESHES, grid: Sequence[float] = GRID) -> tuple[float, float]:
    """The horizons (lower, upper), in steps, for which the paper's rule projects to the grid value `beta`.

    Each bound is the T whose rule value lies midway to the neighbour. The ends of the grid are open: 0 and inf.

    >>> tuple(round(bound) for bound in stability_interval(0.94377))
    (12802, 22766)
    """
    values = sorted(grid)
    if beta not in values:
        raise ValueError(f"beta {beta!r} is not on the grid; project it first with nearest_beta")
    between = [positive(refreshes, "refreshes") / (1 - (low + high) / 2) for low, high in pairwise(values)]
    index = values.index(beta)
    return (0.0, *between, math.inf)[index], (0.0, *between, math.inf)[index + 1]


def mean_width(rows: Sequence[Stability]) -> float | None:
    """The mean of (upper - lower) / lower; None if an interval is open, or there is none."""
    widths = [(row.upper - row.lower) / row.lower for row in rows if row.lower and row.upper]
    return float(np.mean(widths)) if widths and len(widths) == len(rows) else None


def noise_study(
    data: ProtocolData,
    rule: Refresh,
    sigmas: Sequence[float] = SIGMAS,
    draws: int = DRAWS,
    repeats: int = REPEATS,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[NoiseRow, ...]:
    """T' = T (1 + eps) with eps ~ N(0, sigma), `draws` per experiment, `repeats` times: figures and their range.

    Here, and only here, beta is clipped into the grid. An experiment where the rule has no beta stays out. Without
    noise one draw is enough.
    """
    answered = select_beta(rule, data.horizons, data.losses.betas) >= 0
    sets = {name: rows[answered[rows]] for name, rows in data.sets.items()}
    return tuple(
        _noise_row(
            data, rule, sets, sigma, *((draws, repeats) if sigma else (1, 1)), level, np.random.default_rng(seed)
        )
        for sigma in sigmas
    )


def _noise_row(
    data: ProtocolData,
    rule: Refresh,
    sets: dict[str, np.ndarray],
    sigma: float,
    draws: int,
    repeats: int,
    level: float,
    rng: np.random.Generator,
) -> NoiseRow:
    gaps = data.losses.gaps
    tally = np.zeros((repeats, *gaps.shape), np.int32)
    chunk = max(1, _AT_ONCE // (len(gaps) * draws))
    for start in range(0, repeats, chunk):
        noise = sigma * rng.standard_normal((len(gaps), min(chunk, repeats - start), draws))
        for row, grid in enumerate(data.losses.betas):
            picked = _noisy_picks(rule, data.horizons[row], noise[row], grid)
            offsets = picked + np.arange(len(picked))[:, None] * len(grid)
            times = np.bincount(offsets.reshape(-1), minlength=len(picked) * len(grid))
            tally[start : start + chunk, row] = times.reshape(len(picked), -1)
    members = {rows.tobytes(): rows for rows in sets.values() if len(rows)}  # splits of the same experiments: once
    risks = {key: _noise_risk(gaps[rows], tally[:, rows], level) for key, rows in members.items()}
    return NoiseRow(sigma, draws, repeats, level, **{name: risks.get(rows.tobytes()) for name, rows in sets.items()})


def _noisy_picks(rule: Refresh, horizon: float, noise: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Which beta of one experiment's grid the rule picks for its horizon with each noise in it."""
    noisy = np.maximum(horizon * (1 + noise), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return nearest(1 - rule.one_minus_beta(noisy), grid)


def _noise_risk(gaps: np.ndarray, tally: np.ndarray, level: float) -> NoiseRisk:
    """From how often each cell was drawn in each repeat."""
    counts = tally.reshape(len(tally), -1)
    drawn = _figures_of(gaps.reshape(-1), counts)
    low, high = central(drawn, level, axis=1)
    return NoiseRisk(
        *(NoiseFigure(float(row.mean()), float(low[index]), float(high[index])) for index, row in enumerate(drawn))
    )


def _figures_of(gaps: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean, max, CVaR and share under 1 % of gaps that occurred as often as each row of `counts` says."""
    seen = counts.any(axis=0)
    order = np.argsort(-gaps[seen])
    values, times = gaps[seen][order], counts[:, seen][:, order]
    total = times.sum(axis=1)
    tail = np.ceil(total / 4)
    taken = np.diff(np.minimum(np.cumsum(times, axis=1), tail[:, None]), prepend=0, axis=1)
    return np.stack(
        [
            _weighed(values, times) / total,
            values[(times > 0).argmax(axis=1)],
            _weighed(values, taken) / tail,
            times @ (values < NEAR) / total,
        ]
    )


def _weighed(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The sum of values that occur so often, infinite only where an infinite one occurs."""
    finite = np.isfinite(values)
    return np.where(times[:, ~finite].any(axis=1), np.inf, times[:, finite] @ values[finite])
