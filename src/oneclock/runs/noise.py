"""The noise of a sweep: how far runs spread around their levels, pooled over all cells with two seeds or more.

A cell that spreads significantly differently from the others keeps a noise of its own, and so does an untied pair.
F and t are in plain Python, because SciPy is large for two functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oneclock.runs.key import Beta


def f_above(ratio: float, upper: float, lower: float) -> float:
    """The probability that F with these degrees of freedom lies above `ratio`.

    >>> round(f_above(4.9646, 1, 10), 4)
    0.05
    """
    if ratio <= 0:
        return 1.0
    return _incomplete_beta(lower / 2, upper / 2, lower / (lower + upper * ratio))


@lru_cache(maxsize=1024)
def f_quantile(share: float, upper: float, lower: float) -> float:
    """The value that F with these degrees of freedom stays below with probability `share`.

    >>> round(f_quantile(0.95, 2, 10), 3)
    4.103
    """
    low, high = 0.0, 1.0
    while f_above(high, upper, lower) > 1 - share and high < 1e12:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if f_above(middle, upper, lower) > 1 - share else (low, middle)
    return high


def t_reach(level: float, freedom: float) -> float:
    """How many standard errors a two-sided interval at `level` reaches to either side: a quantile of |t|.

    >>> round(t_reach(0.95, 10), 3)
    2.228
    """
    return math.sqrt(f_quantile(level, 1, freedom))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    fraction = 1.0
    for n in range(int(50 + 5 * math.sqrt(a + b)), 0, -1):  # from the innermost terms outwards
        fraction = 1 + n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n)) / fraction
        fraction = 1 - (a + n - 1) * (a + b + n - 1) * x / ((a + 2 * n - 2) * (a + 2 * n - 1)) / fraction
    return math.exp(log_front) / a / fraction


Cell = tuple[Beta, float | None]
"""A beta or an untied pair, and the learning rate that a sweep over learning rates set (None: there was one)."""


@dataclass(frozen=True)
class Noise:
    """The standard deviation of one run around its level and its seed's effect, and its degrees of freedom."""

    spread: float
    freedom: int


class CellSums:
    """Sums per cell from which any pool of cells is fitted; a spread below `resolution` is rounding."""

    def __init__(
        self, y: np.ndarray, cell: np.ndarray, seed: np.ndarray, cells: int, seeds: int, resolution: float
    ) -> None:
        self.resolution = resolution
        self.present = np.zeros((cells, seeds))
        np.add.at(self.present, (cell, seed), 1.0)
        self.count = self.present.sum(axis=1)
        total = np.bincount(cell, y, cells)
        centred = y - (total / np.maximum(self.count, 1))[cell] if cells else y
        self.right = np.zeros((cells, seeds))
        np.add.at(self.right, (cell, seed), centred)
        self.square = np.bincount(cell, centred**2, cells)
        share = self.present / np.maximum(self.count, 1)[:, None]
        self.left = self.present[:, :, None] * np.eye(seeds) - self.present[:, :, None] * share[:, None, :]

    def cross(self, pool: np.ndarray) -> np.ndarray:
        return self.left[pool].sum(axis=0)

    def linked(self, pool: np.ndarray) -> bool:
        """Whether cells with several seeds connect all seeds, so that each has an effect that can be estimated."""
        seeds = self.present.shape[1]
        return seeds > 1 and int(np.linalg.matrix_rank(self.cross(pool))) == seeds - 1

    def fit(self, pool: np.ndarray, paired: bool) -> tuple[float, int]:
        """The sum of squared residuals of a pool of cells, and its degrees of freedom."""
        square, freedom = float(self.square[pool].sum()), int((self.count[pool] - 1).clip(0).sum())
        if not paired:
            return square, freedom
        left, right = self.cross(pool), self.right[pool].sum(axis=0)
        rank = int(np.linalg.matrix_rank(left)) if freedom else 0
        return max(square - float(right @ np.linalg.pinv(left) @ right), 0.0), freedom - rank

    def noise(self, pool: np.ndarray) -> Noise:
        square, freedom = self.fit(pool, self.linked(pool))
        spread = math.sqrt(square / freedom) if freedom > 0 else 0.0
        return Noise(spread if spread > self.resolution else 0.0, max(freedom, 0))

    def extra(self, pool: np.ndarray, own: np.ndarray) -> tuple[float, int, float, int]:
        """The fit of a pool, and what cells outside it add to it, with the seeds' effects as the pool has them."""
        paired = self.linked(pool)
        (less, few), (more, many) = self.fit(pool, paired), self.fit(pool | own, paired)
        return less, few, max(more - less, 0.0), many - few

    def extra_noise(self, pool: np.ndarray, own: np.ndarray) -> Noise:
        _, _, square, freedom = self.extra(pool, own)
        return Noise(math.sqrt(square / freedom), freedom) if freedom else self.noise(pool)


TIED_TEST, PAIR_TEST, PAIR_DOUBT = 0.01, 0.05, 0.25
"""Levels of the tests for a different spread: of all tied cells together, of each untied pair (one-sided) to leave the
pool, and of each pair to count with its own spread alone."""


def noise_groups(sums: CellSums, cells: Sequence[Cell]) -> tuple[np.ndarray, list[int], list[Noise]]:
    """Which cells share the pooled noise, the group of every cell, and the noise of every group (0 is the pool).

    F tests of one against all others, the most different first. Tied cells are many: their test is corrected for that.
    An untied pair (at all its learning rates) is tested for a larger spread: at 16,000 and 64,000 steps the seeds of
    (0.9, 0.999) spread 3 to 6 times as much as those of the tied betas. Three seeds show that only sometimes. So a
    pair of doubtful spread stays in the pool but has its own noise, and any pair has at least the spread of its seeds.
    """
    units: dict[Cell, np.ndarray] = {}
    for index, (beta, lr) in enumerate(cells):
        unit = (beta, None if isinstance(beta, tuple) else lr)
        units.setdefault(unit, np.zeros(len(cells), bool))[index] = True
    units = {unit: own for unit, own in units.items() if (sums.count[own] > 1).any()}
    pairs = {unit for unit in units if isinstance(unit[0], tuple)}
    tied, pool = len(units) - len(pairs), np.ones(len(cells), bool)
    outside: list[Cell] = []
    while len(outside) < len(units) - 1:  # the most different unit leaves the pool, one after the other
        scores = {u: _score(sums, pool, own, u in pairs, tied) for u, own in units.items() if u not in outside}
        worst = min(scores, key=scores.__getitem__)
        if scores[worst] >= 1:
            break
        outside.append(worst)
        pool &= ~units[worst]
    groups, noise = np.zeros(len(cells), int), [sums.noise(pool)]
    for unit in outside:
        groups[units[unit]] = len(noise)
        noise.append(sums.extra_noise(pool, units[unit]))
    for unit, own in units.items():
        if unit in pairs and unit not in outside:
            alone = sums.extra_noise(pool & ~own, own)
            if alone.spread > noise[0].spread:
                doubtful = _score(sums, pool, own, True, 0) * PAIR_TEST < PAIR_DOUBT
                groups[own] = len(noise)
                noise.append(alone if doubtful else Noise(alone.spread, noise[0].freedom))
    return pool, groups.tolist(), noise


def _score(sums: CellSums, pool: np.ndarray, own: np.ndarray, is_pair: bool, tied: int) -> float:
    """The p-value of the F test in units of its level: below 1 the spreads differ."""
    less, few, more, many = sums.extra(pool & ~own, own)
    if few < 2 or many <= 0 or less <= few * sums.resolution**2:  # rounding says nothing about a spread
        return math.inf
    above = f_above(more / many / (less / few), many, few)
    return above / PAIR_TEST if is_pair else 2 * min(above, 1 - above) * tied / TIED_TEST
