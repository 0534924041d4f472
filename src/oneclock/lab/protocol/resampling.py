"""Uncertainty of the paper's figures: seeds resampled within experiments, and experiments resampled; vectorised.

Three seeds are too few to resample one beta by itself (no interval of three values holds its mean more than three
times in four). So the relative residuals of all betas with several seeds are pooled, which also gives a beta with one
seed its spread; each draw of L scales them by sqrt(df / chi2(df)), because the spread is itself an estimate.

A gap is measured to the best of noisy losses, so seed noise inflates it, and every resampling inflates it again.
Intervals are therefore "basic", 2 * figure - quantiles, taken of the signed distance to the best of the other betas:
its positive part is the gap, and unlike the gap it is not stuck at 0 for the beta that happens to be best. An
interval may lie below its figure: then noise explains the figure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneclock.lab.protocol.losses import Losses
from oneclock.lab.protocol.risk import central, take_selected
from oneclock.runs.paired import LEVEL, SAME, Interval

DRAWS = 1000


@dataclass(frozen=True)
class NoiseFloor:
    """The gap that even the true best beta would show under this seed spread: its mean, and the level's quantile."""

    mean: float
    high: float
    level: float
    relative_spread: float


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """Relative residuals to draw from: n x k, the first `sizes` of each row valid (0: none); `df` of their spread."""

    residuals: np.ndarray
    sizes: np.ndarray
    df: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """n relative standard deviations of one seed."""
        return np.sqrt((self.residuals**2).sum(axis=1) / np.maximum(self.sizes, 1))

    def draw(self, loss: np.ndarray, counts: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
        """draws x n x m resampled L: each the mean of as many seeds as it had."""
        n, m = loss.shape
        flat, start = self.residuals.reshape(-1), np.arange(n)[:, None] * self.residuals.shape[1]
        total = np.zeros((draws, n, m))
        for seed in range(int(counts.max())):
            chosen = start + (rng.random((draws, n, m)) * self.sizes[:, None]).astype(np.intp)
            total += np.where(seed < counts, flat[chosen], 0.0)
        df = np.maximum(self.df, 1)
        scale = np.sqrt(df / rng.chisquare(df, size=(draws, n)))[..., None]
        return loss * np.exp(scale * total / np.maximum(counts, 1))


def seed_noise(losses: Losses) -> SeedNoise | None:
    """The residuals of every experiment; None if no beta anywhere has two seeds that differ."""
    several = losses.counts > 1
    if not several.any():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        inflate = np.sqrt(losses.counts / np.maximum(losses.counts - 1, 1))[..., None]
        relative = (losses.minima / losses.loss[..., None] - 1) * inflate
    valid = np.isfinite(losses.minima) & np.isfinite(relative) & several[..., None]
    pools = [row[kept] for row, kept in zip(relative, valid, strict=True)]
    residuals = np.zeros((len(pools), max(1, *(len(pool) for pool in pools))))
    for row, pool in zip(residuals, pools, strict=True):
        row[: len(pool)] = pool
    if not (np.abs(residuals) > SAME).any():
        return None
    df = np.where(several & np.isfinite(losses.loss), losses.counts - 1, 0).sum(axis=1)
    return SeedNoise(residuals, np.array([len(pool) for pool in pools]), df)


@dataclass(frozen=True, eq=False)
class Resamples:
    """Draws shared by all rules, so that rules are compared on the same draws.

    `noise` is the seed spread and `loss` draws x n x m resampled L with its `best` (all None without seeds); `uniforms`
    are, per set of k experiments, draws x k numbers in [0, 1) that choose its members.
    """

    level: float
    noise: SeedNoise | None
    loss: np.ndarray | None
    best: Lowest | None
    uniforms: dict[str, np.ndarray]

    def gaps_at(self, index: np.ndarray) -> np.ndarray | None:
        """draws x n resampled gaps of the betas at `index`."""
        if self.loss is None or self.best is None:
            return None
        with np.errstate(invalid="ignore"):
            return (take_selected(self.loss, index) - self.best.first) / self.best.first

    def likely_gaps_at(self, index: np.ndarray, losses: Losses) -> np.ndarray | None:
        """draws x n gaps that the truth may have at `index`: the positive part of 2 * distance - resampled distance."""
        if self.loss is None or self.best is None:
            return None
        seen = lowest_losses(losses.loss).distance(take_selected(losses.loss, index), index)
        drawn = self.best.distance(take_selected(self.loss, index), index)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(seen), np.maximum(2 * seen - drawn, 0), take_selected(losses.gaps, index))


@dataclass(frozen=True, eq=False)
class Lowest:
    """The smallest and second smallest L of each experiment, ... x n, and where the smallest is."""

    first: np.ndarray
    second: np.ndarray
    index: np.ndarray

    def distance(self, loss: np.ndarray, index: np.ndarray) -> np.ndarray:
        """(L - the best of the other betas) / that best, for the beta at `index`: below 0 for the best itself."""
        others = np.where(self.index == index, self.second, self.first)
        with np.errstate(invalid="ignore"):
            return (loss - others) / others


def lowest_losses(loss: np.ndarray) -> Lowest:
    """From ... x n x m losses; the second is infinite if an experiment has one beta."""
    filled = np.where(np.isnan(loss), np.inf, loss)
    index = np.argmin(filled, axis=-1)
    first = np.take_along_axis(filled, index[..., None], axis=-1)[..., 0]
    np.put_along_axis(filled, index[..., None], np.inf, axis=-1)
    return Lowest(first, filled.min(axis=-1), index)


def resample(
    losses: Losses, sets: dict[str, np.ndarray], draws: int = DRAWS, level: float = LEVEL, seed: int = 0
) -> Resamples:
    """Draw once for everything; `sets` are the experiments of each split, as indices."""
    rng = np.random.default_rng(seed)
    noise = seed_noise(losses)
    loss = noise.draw(losses.loss, losses.counts, draws, rng) if noise else None
    uniforms = {name: rng.random((draws, len(rows))) for name, rows in sets.items()}
    return Resamples(level, noise, loss, None if loss is None else lowest_losses(loss), uniforms)


def basic_interval(figure: float, drawn: np.ndarray | None, level: float, floor: float = 0.0) -> Interval | None:
    """2 * figure - the quantiles of its draws, cut at `floor`; None without draws or where they are not finite.

    >>> basic_interval(0.5, np.array([0.4, 0.5, 0.6]), level=1.0)
    Interval(lower=0.4, upper=0.6, level=1.0)
    """
    if drawn is None or not (np.isfinite(figure) and np.isfinite(drawn).all()):
        return None
    low, high = central(drawn, level)
    return Interval(max(float(2 * figure - high), floor), max(float(2 * figure - low), floor), level)


def widened(interval: Interval | None, likely: np.ndarray | None) -> Interval | None:
    """The interval, widened to the same quantiles of likely figures: a figure of 0 may still be above 0."""
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
