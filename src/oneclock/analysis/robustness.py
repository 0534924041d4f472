"""How much the choice of beta depends on T_ES: stability intervals, noise in it, and the conventions behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from oneclock.analysis.arena import Ground
from oneclock.analysis.horizons import horizon_of
from oneclock.analysis.picks import nearest, picks
from oneclock.analysis.risk import NEAR, central, figures
from oneclock.analysis.values import ConventionRow, NoiseFigure, NoiseRisk, NoiseRow, Stability
from oneclock.horizon import CONVENTIONS
from oneclock.rule import Refresh, nearest_beta, stability_interval
from oneclock.study.sweeps import Sweep

SIGMAS = (0.0, 0.03, 0.06, 0.10, 0.15, 0.20, 0.25)
DRAWS = 20
REPEATS = 1000
_AT_ONCE = 2_000_000
PATIENCES = (0.05, 0.1, 0.2)
RELATIVE_DELTA = 0.001


def stability(ground: Ground, rule: Refresh, names: Sequence[str], splits: Sequence[str]) -> tuple[Stability, ...]:
    """The interval of horizons with the same choice, for every experiment that has one."""
    index = picks(rule, ground.horizons, ground.losses.betas)
    rows = []
    for place, pick in enumerate(index):
        if pick < 0:
            continue
        grid = ground.losses.betas[place]
        grid = grid[~np.isnan(grid)].tolist()
        horizon = ground.horizons[place]
        lower, upper = stability_interval(grid[pick], rule.refreshes, grid)
        margin = min(horizon - lower if lower else math.inf, upper - horizon) / horizon
        bounds = (lower or None, upper if upper < math.inf else None)
        rows.append(Stability(names[place], splits[place], grid[pick], horizon, *bounds, margin=margin))
    return tuple(rows)


def mean_width(rows: Sequence[Stability]) -> float | None:
    """The mean of (upper - lower) / lower; None where an interval is open, or there is none."""
    widths = [(row.upper - row.lower) / row.lower for row in rows if row.lower and row.upper]
    return float(np.mean(widths)) if widths and len(widths) == len(rows) else None


def noise_study(
    ground: Ground,
    rule: Refresh,
    sigmas: Sequence[float] = SIGMAS,
    draws: int = DRAWS,
    repeats: int = REPEATS,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[NoiseRow, ...]:
    """T' = T (1 + eps) with eps ~ N(0, sigma), `draws` per experiment, `repeats` times: figures and their range.

    Here, and only here, beta is clipped into the grid. An experiment where the rule has no beta stays out. Without
    noise one draw says it all.
    """
    answered = picks(rule, ground.horizons, ground.losses.betas) >= 0
    sets = {name: rows[answered[rows]] for name, rows in ground.sets.items()}
    return tuple(
        _noise_row(
            ground, rule, sets, sigma, *((draws, repeats) if sigma else (1, 1)), level, np.random.default_rng(seed)
        )
        for sigma in sigmas
    )


def _noise_row(
    ground: Ground,
    rule: Refresh,
    sets: dict[str, np.ndarray],
    sigma: float,
    draws: int,
    repeats: int,
    level: float,
    rng: np.random.Generator,
) -> NoiseRow:
    gaps, counts = ground.losses.gaps, np.zeros(ground.losses.gaps.shape, int)
    members = {rows.tobytes(): rows for rows in sets.values() if len(rows)}  # splits of the same experiments: once
    parts: dict[bytes, list[np.ndarray]] = {key: [] for key in members}
    chunk = max(1, _AT_ONCE // (len(gaps) * draws))
    for start in range(0, repeats, chunk):
        noise = sigma * rng.standard_normal((len(gaps), min(chunk, repeats - start), draws))
        drawn = np.empty((noise.shape[1], len(gaps), draws))
        for row, own in enumerate(gaps):
            picked = _noisy_picks(rule, ground.horizons[row], noise[row], ground.losses.betas[row])
            counts[row] += np.bincount(picked.reshape(-1), minlength=len(own))
            drawn[:, row] = own[picked]
        for key, rows in members.items():
            pooled = (drawn if len(rows) == len(gaps) else drawn[:, rows]).reshape(len(drawn), -1)
            parts[key].append(np.vstack([figures(pooled), (pooled < NEAR).mean(axis=1)]))
    risks = {key: _noise_risk(np.hstack(parts[key]), gaps[rows], counts[rows], level) for key, rows in members.items()}
    return NoiseRow(sigma, draws, repeats, level, **{name: risks.get(rows.tobytes()) for name, rows in sets.items()})


def _noisy_picks(rule: Refresh, horizon: float, noise: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Which beta of one experiment's grid the rule picks for its horizon with each noise in it."""
    noisy = np.maximum(horizon * (1 + noise), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return nearest(1 - rule.rate(noisy), grid)


def _noise_risk(drawn: np.ndarray, gaps: np.ndarray, counts: np.ndarray, level: float) -> NoiseRisk:
    """From 4 x repeats figures (mean, max, CVaR, share) and how often each cell was drawn over all repeats."""
    pooled = _pooled_figures(gaps.reshape(-1), counts.reshape(-1))
    low, high = central(drawn, level, axis=1)
    return NoiseRisk(
        *(
            NoiseFigure(float(row.mean()), float(low[place]), float(high[place]), pooled[place])
            for place, row in enumerate(drawn)
        )
    )


def _pooled_figures(gaps: np.ndarray, counts: np.ndarray) -> list[float]:
    """Mean, max, CVaR and share under 1 % of gaps that occurred `counts` times each."""
    seen = counts > 0
    order = np.argsort(-gaps[seen])
    values, times = gaps[seen][order], counts[seen][order]
    total = int(times.sum())
    tail = math.ceil(total / 4)
    taken = np.diff(np.minimum(np.cumsum(times), tail), prepend=0)
    used = taken > 0
    return [
        float(values @ times / total),
        float(values[0]),
        float(values[used] @ taken[used] / tail),
        float(times[values < NEAR].sum() / total),
    ]


def conventions(sweeps: Sequence[Sweep], ground: Ground, rule: Refresh) -> Iterator[ConventionRow]:
    """T_ES by stop and by best, with shorter and longer patience and a small min_delta, and the choice that follows.

    Only for experiments with curves and a budget.
    """
    for place, sweep in enumerate(sweeps):
        best = float(np.nanmin(ground.losses.loss[place]))
        settings = [(patience, 0.0) for patience in PATIENCES] + [(0.1, RELATIVE_DELTA * best)]
        for convention in CONVENTIONS:
            for patience, delta in settings:
                found = horizon_of(sweep, convention, patience, delta)
                if found is None:
                    continue
                gap = beta = None
                if found[0] > rule.refreshes:
                    beta = nearest_beta(rule(found[0]), sweep.betas)
                    gap = float(ground.losses.gaps[place, sweep.betas.index(beta)])
                yield ConventionRow(sweep.name, convention, patience, delta, found[0], beta, gap)
