"""Uncertainty: seeds resampled within experiments, and experiments resampled; seeded, and vectorised over all of it.

Three seeds are too few to resample one beta by itself (no interval of three values holds its mean more than three
times in four). So the relative residuals of an experiment's five best betas are pooled, which also gives a beta with
one seed its spread; each draw of L scales them by sqrt(df / chi2(df)), because the spread is itself an estimate.
A beta outside the five with seeds of its own keeps its own residuals.

A gap is measured to the best of noisy losses, so seed noise inflates it, and every resampling inflates it again.
Intervals are therefore "basic", 2 * figure - quantiles, taken of the signed distance to the best of the other betas:
its positive part is the gap, and unlike the gap it is not stuck at 0 for the beta that happens to be best. An
interval may lie below its figure: then noise explains the figure. `docs/analysis.md` gives the measured coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneclock.analysis.picks import at
from oneclock.analysis.risk import central
from oneclock.analysis.values import NoiseFloor
from oneclock.study.best import Interval
from oneclock.study.losses import Losses

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

    `noise` is the seed spread and `loss` draws x n x m resampled L with its `best` (all None without seeds); `places`
    are, per set of k experiments, draws x k numbers in [0, 1) that choose its members.
    """

    level: float
    noise: SeedNoise | None
    loss: np.ndarray | None
    best: Lowest | None
    places: dict[str, np.ndarray]

    def gaps_at(self, index: np.ndarray) -> np.ndarray | None:
        """draws x n resampled gaps of the betas at `index`."""
        if self.loss is None or self.best is None:
            return None
        with np.errstate(invalid="ignore"):
            return (at(self.loss, index) - self.best.first) / self.best.first

    def likely_gaps_at(self, index: np.ndarray, losses: Losses) -> np.ndarray | None:
        """draws x n gaps that the truth may have at `index`: the positive part of 2 * distance - resampled distance."""
        if self.loss is None or self.best is None:
            return None
        seen = best_of(losses.loss).distance(at(losses.loss, index), index)
        drawn = self.best.distance(at(self.loss, index), index)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(seen), np.maximum(2 * seen - drawn, 0), at(losses.gaps, index))


@dataclass(frozen=True, eq=False)
class Lowest:
    """The smallest and second smallest L of each experiment, ... x n, and where the smallest is."""

    first: np.ndarray
    second: np.ndarray
    place: np.ndarray

    def distance(self, loss: np.ndarray, index: np.ndarray) -> np.ndarray:
        """(L - the best of the other betas) / that best, for the beta at `index`: below 0 for the best itself."""
        others = np.where(self.place == index, self.second, self.first)
        with np.errstate(invalid="ignore"):
            return (loss - others) / others


def best_of(loss: np.ndarray) -> Lowest:
    """From ... x n x m losses; the second is infinite where an experiment has one beta."""
    filled = np.where(np.isnan(loss), np.inf, loss)
    place = np.argmin(filled, axis=-1)
    first = np.take_along_axis(filled, place[..., None], axis=-1)[..., 0]
    np.put_along_axis(filled, place[..., None], np.inf, axis=-1)
    return Lowest(first, filled.min(axis=-1), place)


def resample(
    losses: Losses, sets: dict[str, np.ndarray], draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> Resamples:
    """Draw once for everything; `sets` are the experiments of each split, as indices."""
    rng = np.random.default_rng(seed)
    noise = seed_noise(losses)
    loss = noise.draw(losses.loss, losses.counts, draws, rng) if noise else None
    places = {name: rng.random((draws, len(rows))) for name, rows in sets.items()}
    return Resamples(level, noise, loss, None if loss is None else best_of(loss), places)


def gap_intervals(losses: Losses, resamples: Resamples) -> list[list[Interval | None]]:
    """An interval for every gap, n x m; None where the experiment has no seed spread, one beta, or no finite loss."""
    n, m = losses.loss.shape
    if resamples.noise is None:
        return [[None] * m for _ in range(n)]
    columns = []
    for beta in range(m):
        drawn = resamples.likely_gaps_at(np.full(n, beta), losses)
        assert drawn is not None  # there are seeds
        known = np.flatnonzero(np.isfinite(drawn).all(axis=0) & (resamples.noise.df > 0))
        column: list[Interval | None] = [None] * n
        for row, low, high in zip(known, *central(drawn[:, known], resamples.level), strict=True):
            column[row] = Interval(float(low), float(high), resamples.level)
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def basic_interval(figure: float, drawn: np.ndarray | None, level: float, floor: float = 0.0) -> Interval | None:
    """2 * figure - the quantiles of its draws, cut at `floor`; None without draws or where they are not finite.

    >>> basic_interval(0.5, np.array([0.4, 0.5, 0.6]), level=1.0)
    Interval(lower=0.4, upper=0.6, level=1.0)
    """
    if drawn is None or not (np.isfinite(figure) and np.isfinite(drawn).all()):
        return None
    low, high = central(drawn, level)
    return Interval(max(float(2 * figure - high), floor), max(float(2 * figure - low), floor), level)


def joined(interval: Interval | None, likely: np.ndarray | None) -> Interval | None:
    """The interval, widened to hold the same quantiles of likely figures: a figure of 0 is not certain to be 0."""
    if interval is None or likely is None:
        return interval
    low, high = central(likely, interval.level)
    return Interval(min(interval.lower, float(low)), max(interval.upper, float(high)), interval.level)


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


def _finite(values: np.ndarray) -> Sequence[float]:
    return values[np.isfinite(values)].tolist()
