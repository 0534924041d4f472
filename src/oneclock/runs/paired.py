"""The losses of one sweep, paired by seed: log loss(cell, seed) = level(cell) + effect(seed) + noise.

A cell is a beta (or an untied pair) at a learning rate. Every seed starts from the same weights and sees the same
batches in every cell, so it has one effect, and a cell with one seed can be compared with a cell that has three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oneclock.runs.key import Beta
from oneclock.runs.noise import Cell, CellSums, noise_groups, t_reach

LEVEL = 0.95
DRAWS = 2000
REACH = 4.0
"""A cell within this many standard errors of the lowest might be the lowest."""

SAME, ROUNDING = 1e-6, 1e-7
"""Two losses nearer than this share are the same; a spread of seeds below that share is rounding, as of float32."""

CellRun = tuple[Beta, float | None, int, float]
"""(beta or untied pair, learning rate, seed, loss) of a run. The loss is infinite if it diverged, NaN if unknown."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval at `level`."""

    lower: float
    upper: float
    level: float = LEVEL

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper


@dataclass(frozen=True)
class Difference:
    """How far one loss lies above another, as a share of it (0.01: 1 % above), with a 95 % CI if the noise is known."""

    value: float
    interval: Interval | None

    @property
    def significant(self) -> bool | None:
        """Whether the CI excludes zero; None if there is no CI."""
        return None if self.interval is None else 0 not in self.interval


class PairedSweep:
    """All runs of one sweep, fitted together, on a log scale (`is_log`) if all losses are above 0.

    Every level is a weighted sum of the measured losses, and so are levels between two betas and differences.

    >>> sweep = PairedSweep([(0.9, None, 1, 2.0), (0.9, None, 2, 4.0), (0.5, None, 1, 3.0)])
    >>> round(sweep.losses[0.5, None] / sweep.losses[0.9, None], 6)  # by the seed that both have
    1.5
    """

    def __init__(self, runs: Iterable[CellRun]) -> None:
        distinct, self.repeated = _without_repeats(list(runs))
        every = sorted(
            (((b, lr), seed, loss) for b, lr, seed, loss in distinct), key=lambda run: (_key(run[0]), run[1])
        )
        measured = [run for run in every if not math.isnan(run[2])]
        diverged = dict.fromkeys((cell for cell, _, loss in measured if math.isinf(loss)), math.inf)
        kept = [run for run in measured if run[0] not in diverged]
        seen = {cell for cell, _, _ in measured}
        self.unknown = [cell for cell in dict.fromkeys(cell for cell, _, _ in every) if cell not in seen]
        self.cells: list[Cell] = list(dict.fromkeys(cell for cell, _, _ in kept))
        self.seeds = sorted({seed for _, seed, _ in kept})
        self.is_log = all(loss > 0 for _, _, loss in kept)
        values = np.array([loss for _, _, loss in kept], dtype=float)
        self._y = np.log(values) if self.is_log else values
        self._index = {cell: index for index, cell in enumerate(self.cells)}
        self._cell = np.array([self._index[cell] for cell, _, _ in kept], dtype=int)
        self._seed = np.searchsorted(self.seeds, [seed for _, seed, _ in kept])
        self.seed_count = np.bincount(self._cell, minlength=len(self.cells))
        resolution = ROUNDING * (1.0 if self.is_log else float(np.abs(self._y).max(initial=0.0)))
        sums = CellSums(self._y, self._cell, self._seed, len(self.cells), len(self.seeds), resolution)
        pool, self._groups, self.noise = noise_groups(sums, self.cells)
        self.paired = sums.linked(pool)
        self.weights = self._weights(pool, sums)
        self._levels = self.weights @ self._y
        levels = np.exp(self._levels) if self.is_log else self._levels
        self.losses = dict(zip(self.cells, levels.tolist(), strict=True)) | diverged

    def _weights(self, pool: np.ndarray, sums: CellSums) -> np.ndarray:
        """cells x runs: the weight of every run in the level of every cell."""
        member = np.equal.outer(np.arange(len(self.cells)), self._cell)
        mean = member / np.maximum(self.seed_count, 1)[:, None]
        if not self.paired:
            return mean
        share = sums.present / np.maximum(self.seed_count, 1)[:, None]
        centred = np.equal.outer(np.arange(len(self.seeds)), self._seed) - share[self._cell].T
        effects = np.linalg.pinv(sums.cross(pool)) @ (centred * pool[self._cell])
        return mean - share @ effects

    @property
    def has_noise(self) -> bool:
        """Whether two seeds of one cell tell how far seeds differ."""
        return bool(self.noise) and self.noise[0].freedom > 0 and self.noise[0].spread > 0

    @property
    def seeds_repeat(self) -> bool:
        """Whether several seeds ran and all of them gave the same losses."""
        return bool(self.repeated) and len(self.seeds) == 1

    def best_lrs(self) -> dict[Beta, float | None]:
        """The learning rate at which each beta (and each untied pair) has its lowest loss; a tie goes to the first."""
        best: dict[Beta, float | None] = {}
        for beta, lr in sorted(self.losses, key=_key):
            if beta not in best or self.losses[beta, lr] < self.losses[beta, best[beta]]:
                best[beta] = lr
        return best

    def row(self, mixture: Mapping[Cell, float]) -> np.ndarray:
        """The weight of every run in a mixture of levels: `{cell: 1.0}` is a cell's own level."""
        return sum((share * self.weights[self._index[cell]] for cell, share in mixture.items()), np.zeros(len(self._y)))

    def seeds_at(self, cell: Cell) -> int:
        """How many runs of a cell have a finite loss."""
        return int(self.seed_count[self._index[cell]])

    def standard_error(self, one: Cell, two: Cell) -> float:
        """Of the difference of two levels; 0 if the noise is not known."""
        return float(np.sqrt(self._variances(self.row({one: 1.0}) - self.row({two: 1.0})).sum()))

    def estimate(self, one: Mapping[Cell, float], two: Mapping[Cell, float]) -> tuple[float, float, float]:
        """The difference of two levels, its standard error and its degrees of freedom (0: the noise is not known)."""
        row = self.row(one) - self.row(two)
        parts = self._variances(row)
        error, freedom = (float(np.sqrt(parts.sum())), self._freedom(parts)) if self.has_noise else (math.nan, 0.0)
        return float(row @ self._y), error, freedom

    def _freedom(self, parts: np.ndarray) -> float:
        """Degrees of freedom of a sum of estimated variances, after Welch and Satterthwaite."""
        below = sum(part**2 / one.freedom for part, one in zip(parts.tolist(), self.noise, strict=True) if part > 0)
        return max(float(parts.sum()) ** 2 / below, 1.0) if below > 0 else float(self.noise[0].freedom)

    def compare(
        self,
        differences: Sequence[tuple[Mapping[Cell, float], Mapping[Cell, float]]],
        chosen_from: Sequence[Cell] = (),
    ) -> list[Difference]:
        """Each first level (a mixture of cells) against its second, with CIs that hold simultaneously for all of them.

        If the second one was picked as the lowest of the cells in `chosen_from`, the CIs are widened for that choice.
        """
        if not differences:
            return []
        rows = np.stack([self.row(one) - self.row(two) for one, two in differences])
        values = rows @ self._y
        if not self.has_noise:
            return [Difference(self._share(value), None) for value in values]
        parts = self._variances(rows)
        half = self._critical(rows, parts, chosen_from) * np.sqrt(parts.sum(axis=0))
        values, lower, upper = (map(self._share, ends.tolist()) for ends in (values, values - half, values + half))
        return [Difference(value, Interval(*ends)) for value, *ends in zip(values, lower, upper, strict=True)]

    def _share(self, difference: float) -> float:
        return math.expm1(min(difference, 700.0)) if self.is_log else difference

    def _variances(self, rows: np.ndarray) -> np.ndarray:
        """groups x rows: what each noise adds to the variance of each weighted sum of runs."""
        group = np.array(self._groups)[self._cell]
        return np.stack(
            [(rows[..., group == index] ** 2).sum(axis=-1) * one.spread**2 for index, one in enumerate(self.noise)]
        )

    def _critical(self, rows: np.ndarray, parts: np.ndarray, chosen_from: Sequence[Cell]) -> float:
        """How many standard errors the CIs reach to either side, so that all hold together.

        By simulation of the largest |t| (max-t). Where the second level was picked as the lowest of several, the
        largest is taken over all that might have been picked.
        """
        if len(rows) == 1 and not chosen_from:
            return t_reach(LEVEL, self._freedom(parts[:, 0]))
        normal, scales = _draws(len(self._y), tuple(one.freedom for one in self.noise))
        spread = np.array([one.spread for one in self.noise])[np.array(self._groups)[self._cell]]
        noise = normal * spread
        if chosen_from:
            largest = self._any_lowest(noise, scales, [self._index[cell] for cell in chosen_from])
        else:
            error = np.sqrt(np.tensordot(scales, parts, axes=(0, 0)))
            largest = (np.abs(noise @ rows.T) / error).max(axis=1)
        return float(np.quantile(largest, LEVEL))

    def _any_lowest(self, noise: np.ndarray, scales: np.ndarray, indices: Sequence[int]) -> np.ndarray:
        """The largest |t| of each draw, over all cells against all cells that may be the lowest."""
        weights, level = self.weights[indices], self._levels[indices]
        parts = self._variances(weights[:, None] - weights[None])
        drawn, lowest = noise @ weights.T, int(np.argmin(level))
        largest = np.zeros(len(drawn))
        for index in np.flatnonzero(level - level[lowest] <= REACH * np.sqrt(parts.sum(axis=0)[lowest])):
            error = np.tensordot(scales, parts[:, index], axes=(0, 0))
            away = np.abs(drawn - drawn[:, [index]]) / np.sqrt(np.where(error > 0, error, np.inf))
            largest = np.maximum(largest, away.max(axis=1))
        return largest


def _without_repeats(runs: Sequence[CellRun]) -> tuple[list[CellRun], list[int]]:
    """The runs with each seed that repeats an earlier one counted as that one, and the seeds that do.

    A seed repeats another if both have the same loss in most cells. It adds no evidence: usually the training ignores
    its seed, and losses that are equal by chance would make the noise too small.

    >>> _without_repeats([(0.5, None, 1, 2.0), (0.5, None, 2, 2.0), (0.9, None, 1, 3.0), (0.9, None, 2, 3.0)])
    ([(0.5, None, 1, 2.0), (0.9, None, 1, 3.0)], [2])
    """
    by_seed: dict[int, dict[Cell, float]] = {}
    for beta, lr, seed, loss in runs:
        if not math.isnan(loss):
            by_seed.setdefault(seed, {})[beta, lr] = loss
    first: dict[int, int] = {}  # of seeds that repeat each other
    for seed in sorted(by_seed):
        distinct = [one for one in first if first[one] == one]
        first[seed] = next((one for one in distinct if _repeats(by_seed[seed], by_seed[one])), seed)
    losses: dict[tuple[Beta, float | None, int], float] = {}
    for beta, lr, seed, loss in runs:
        run = (beta, lr, first.get(seed, seed))
        if math.isnan(losses.get(run, math.nan)) or math.isinf(loss):  # a run that diverged always counts
            losses[run] = loss
    return [(*run, loss) for run, loss in losses.items()], [seed for seed, one in first.items() if seed != one]


def _repeats(one: Mapping[Cell, float], other: Mapping[Cell, float]) -> bool:
    """Whether two seeds diverged in the same cells, and have the same loss in most of the others that both ran."""
    both = [(one[cell], other[cell]) for cell in one.keys() & other.keys()]
    finite = [pair for pair in both if all(map(math.isfinite, pair))]
    same = sum(math.isclose(*pair, rel_tol=SAME) for pair in finite)
    return all(math.isfinite(a) == math.isfinite(b) for a, b in both) and 2 * same > len(finite)


@lru_cache(maxsize=32)
def _draws(runs: int, freedoms: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal noise, draws x runs, and groups x draws factors on the estimated variances."""
    rng = np.random.default_rng(0)
    scales = [rng.chisquare(freedom, DRAWS) / freedom if freedom else np.ones(DRAWS) for freedom in freedoms]
    return rng.standard_normal((DRAWS, runs)), np.stack(scales)


def between(beta: float, swept: Sequence[float]) -> dict[float, float] | None:
    """A beta as a mixture of its two swept neighbours, linear in log(1 - beta); None if none are near enough.

    >>> between(0.9, [0.5, 0.9, 0.99])
    {0.9: 1.0}
    >>> {b: round(share, 2) for b, share in between(0.93, [0.9, 0.94377]).items()}
    {0.9: 0.38, 0.94377: 0.62}
    """
    u = math.log10(1 - beta)
    near = min(swept, key=lambda one: abs(math.log10(1 - one) - u), default=None)
    if near is None:
        return None
    alone = {near: 1.0} if abs(math.log10(1 - near) - u) <= CLOSE else None
    below, above = max((b for b in swept if b < beta), default=None), min((b for b in swept if b > beta), default=None)
    if beta in swept or below is None or above is None:
        return alone
    low, high = math.log10(1 - below), math.log10(1 - above)
    if low - high > WIDEST:
        return alone
    share = (low - u) / (low - high)
    return {below: 1 - share, above: share}


CLOSE, WIDEST = 0.05, 0.55
"""In log10(1 - beta), where a step of the paper's grid is 0.25: a swept beta this near stands for another one; two
that are farther apart say nothing about a beta between them."""


def _key(cell: Cell) -> tuple[bool, tuple[float, ...], float]:
    """For sorting: tied betas first, then by beta and learning rate."""
    beta, lr = cell
    return isinstance(beta, tuple), beta if isinstance(beta, tuple) else (beta,), -1.0 if lr is None else lr
