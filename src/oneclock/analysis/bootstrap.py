"""Uncertainty: seeds resampled within experiments, and experiments resampled; seeded, and vectorised over all of it.

Three seeds are too few to resample one beta by itself (no interval of three values holds its mean more than three
times in four). So the relative residuals of an experiment's five best betas are pooled, which also gives a beta with
one seed its spread; each draw of L scales them by sqrt(df / chi2(df)), because the spread is itself an estimate.
A beta outside the five with seeds of its own keeps its own residuals.

A gap is measured to the best of noisy losses, so seed noise inflates it, and every resampling inflates it again.
Intervals are therefore "basic": 2 * figure - quantiles, cut at 0. They may lie below the figure itself: then noise
explains it. `docs/analysis.md` gives their measured coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneclock.analysis.losses import Losses, at
from oneclock.analysis.values import Interval, NoiseFloor

DRAWS = 1000
LEVEL = 0.95
POOLED = 5
"""As many of the best betas share one pool of residuals: those the paper's second stage runs again."""


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """Relative residuals to draw from: n x m x k, `sizes` n x m of them valid (0: none); `df` of their spread."""

    residuals: np.ndarray
    sizes: np.ndarray
    df: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """n relative standard deviations of one seed, at the best beta's pool."""
        first = np.argmax(self.sizes, axis=1)[:, None, None]
        pool = np.take_along_axis(self.residuals, first, axis=1)[:, 0]
        return np.sqrt((pool**2).sum(axis=1) / np.maximum(self.sizes.max(axis=1), 1))

    def draw(self, loss: np.ndarray, counts: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
        """draws x n x m resampled L: each the mean of as many seeds as it had."""
        n, m, k = self.residuals.shape
        flat = self.residuals.reshape(-1)
        start = np.arange(n * m).reshape(n, m) * k
        total = np.zeros((draws, n, m))
        for seed in range(int(counts.max())):
            chosen = start + (rng.random((draws, n, m)) * self.sizes).astype(np.intp)
            total += np.where(seed < counts, flat[chosen], 0.0)
        df = np.maximum(self.df, 1)
        scale = np.sqrt(df / rng.chisquare(df, size=(draws, n)))[..., None]
        return loss * np.exp(scale * total / np.maximum(counts, 1))


def seed_noise(losses: Losses) -> SeedNoise | None:
    """The residuals of every experiment; None where no beta anywhere has two seeds."""
    several = losses.counts > 1
    if not several.any():
        return None
    finite = np.isfinite(losses.minima)
    with np.errstate(invalid="ignore", divide="ignore"):
        inflate = np.sqrt(losses.counts / np.maximum(losses.counts - 1, 1))[..., None]
        relative = np.where(finite & several[..., None], (losses.minima / losses.loss[..., None] - 1) * inflate, np.nan)
    n, m, s = relative.shape
    order = np.argsort(np.where(several, losses.loss, np.inf), axis=1, kind="stable")
    residuals, sizes, df = np.zeros((n, m, POOLED * s)), np.zeros((n, m), int), np.zeros(n, int)
    for row in range(n):
        best = [beta for beta in order[row, :POOLED] if several[row, beta]]
        shared = _finite(relative[row, best])
        df[row] = (losses.counts[row, best] - 1).sum() if best else 0
        for beta in range(m):
            own = several[row, beta] and beta not in best
            pool = _finite(relative[row, beta]) if own else shared
            residuals[row, beta, : len(pool)], sizes[row, beta] = pool, len(pool)
    return SeedNoise(residuals, sizes, df)


@dataclass(frozen=True, eq=False)
class Resamples:
    """Draws shared by every rule, so that rules are compared on the same ones.

    `noise` is the seed spread and `loss` draws x n x m resampled L (both None without seeds); `places` are, per set
    of k experiments, draws x k numbers in [0, 1) that choose its members.
    """

    level: float
    noise: SeedNoise | None
    loss: np.ndarray | None
    places: dict[str, np.ndarray]

    def gaps_at(self, index: np.ndarray) -> np.ndarray | None:
        """draws x n resampled gaps of the betas at `index`."""
        if self.loss is None:
            return None
        best = np.nanmin(self.loss, axis=-1)
        with np.errstate(invalid="ignore"):
            return (at(self.loss, index) - best) / best


def resample(
    losses: Losses, sets: dict[str, np.ndarray], draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> Resamples:
    """Draw once for everything; `sets` are the experiments of each split, as indices."""
    rng = np.random.default_rng(seed)
    noise = seed_noise(losses)
    loss = noise.draw(losses.loss, losses.counts, draws, rng) if noise else None
    places = {name: rng.random((draws, len(rows))) for name, rows in sets.items()}
    return Resamples(level, noise, loss, places)


def gap_intervals(losses: Losses, resamples: Resamples) -> list[list[Interval | None]]:
    """An interval for every gap, n x m; None where the experiment has no seed spread, one beta, or no finite loss."""
    n, m = losses.loss.shape
    if resamples.loss is None:
        return [[None] * m for _ in range(n)]
    spread = np.ptp(resamples.loss[:2], axis=0) > 0
    lower, upper = basic_bounds(_to_others(losses.loss), _to_others(resamples.loss), resamples.level)
    known = np.isfinite(lower) & np.isfinite(upper) & spread.any(axis=1)[:, None]
    return [
        [Interval(float(lower[i, j]), float(upper[i, j]), resamples.level) if known[i, j] else None for j in range(m)]
        for i in range(n)
    ]


def basic_bounds(figure: np.ndarray, drawn: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """2 * figure - the quantiles of its draws (first axis), cut at 0: (lower, upper)."""
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.maximum(2 * figure - high, 0), np.maximum(2 * figure - low, 0)


def basic_interval(figure: float, drawn: np.ndarray | None, level: float, floor: float = 0.0) -> Interval | None:
    """The same for one figure, cut at `floor`; None without draws or where they are not finite.

    >>> basic_interval(0.5, np.array([0.4, 0.5, 0.6]), level=1.0)
    Interval(lower=0.4, upper=0.6, level=1.0)
    """
    if drawn is None or not (np.isfinite(figure) and np.isfinite(drawn).all()):
        return None
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(max(float(2 * figure - high), floor), max(float(2 * figure - low), floor), level)


def noise_floors(losses: Losses, resamples: Resamples) -> tuple[list[NoiseFloor | None], np.ndarray | None]:
    """Per experiment the gap that its best beta shows when its seeds are drawn anew; and those gaps, draws x n."""
    drawn = resamples.gaps_at(losses.oracle)
    if resamples.noise is None or drawn is None:
        return [None] * len(losses.loss), None
    spread = resamples.noise.spread
    high = np.quantile(drawn, resamples.level, axis=0)
    floors = [
        NoiseFloor(float(drawn[:, i].mean()), float(high[i]), resamples.level, float(spread[i])) if spread[i] else None
        for i in range(len(spread))
    ]
    return floors, drawn


def arm_interval(
    loss: float, count: int, losses: Losses, row: int, resamples: Resamples, rng: np.random.Generator
) -> Interval | None:
    """An interval for the gap of an untied arm to the best tied beta, by the sweep's spread; it may be negative."""
    noise = resamples.noise
    if noise is None or resamples.loss is None or not noise.df[row] or not np.isfinite(loss):
        return None
    cell = (slice(row, row + 1), slice(int(losses.oracle[row]), int(losses.oracle[row]) + 1))
    own = SeedNoise(noise.residuals[cell], noise.sizes[cell], noise.df[cell[0]])
    drawn = own.draw(np.array([[loss]]), np.array([[count]]), len(resamples.loss), rng)[:, 0, 0]
    tied = np.nanmin(resamples.loss[:, row], axis=-1)
    figure = loss / float(np.nanmin(losses.loss[row])) - 1
    return basic_interval(figure, drawn / tied - 1, resamples.level, floor=-1.0)


def _to_others(loss: np.ndarray) -> np.ndarray:
    """(L - the best of the other betas) / that best: below 0 for the best itself, and its positive part is the gap."""
    if loss.shape[-1] < 2:
        return np.full(loss.shape, np.nan)
    filled = np.where(np.isnan(loss), np.inf, loss)
    two = np.partition(filled, 1, axis=-1)[..., :2]
    first = np.argmin(filled, axis=-1)[..., None] == np.arange(loss.shape[-1])
    others = np.where(first, two[..., 1:], two[..., :1])
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(loss), np.nan, (loss - others) / others)


def _finite(values: np.ndarray) -> Sequence[float]:
    return values[np.isfinite(values)].tolist()
