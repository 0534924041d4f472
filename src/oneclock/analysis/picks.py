"""Which swept beta a rule picks in each experiment: its own beta, projected on what was swept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from oneclock.rule import GRID, Fixed, Rule


def project(betas: np.ndarray, grids: np.ndarray) -> np.ndarray:
    """For n betas, the index of the nearest value of each experiment's n x m grid; a tie goes to the smaller.

    Plain distance, as `rule.nearest_beta`. Grids ascend and are padded with NaN.

    >>> project(np.array([0.95, 0.5]), np.array([[0.0, 0.9, 0.99, np.nan], [0.0, 0.9, 0.99, 0.999]]))
    array([2, 1])
    """
    return np.argmin(np.abs(np.where(np.isnan(grids), np.inf, grids) - betas[:, None]), axis=1)


_APART = 1e-12
"""Between betas that are farther apart, no rounding hides which is nearer."""


def nearest(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """For very many values, what `project` is for one: the index of the nearest value of one experiment's grid.

    >>> nearest(np.array([[0.95, 0.5]]), np.array([0.0, 0.9, 0.99, np.nan]))
    array([[2, 1]])
    """
    grid = grid[np.isfinite(grid)]
    if len(grid) == 1:
        return np.zeros(values.shape, dtype=np.intp)
    index = np.clip(np.searchsorted(grid, values), 1, len(grid) - 1)  # from the first that is not below
    while True:
        down = (index > 0) & (np.abs(grid[index - 1] - values) <= np.abs(grid[index] - values))
        index -= down
        if not down.any() or np.diff(grid).min() > _APART:
            return index


def rule_betas(rule: Rule, horizons: Sequence[float]) -> np.ndarray:
    """The rule's beta for each horizon, before projection; NaN where it has none.

    >>> from oneclock.rule import Refresh
    >>> rule_betas(Refresh(), [20_000, 500])
    array([0.95,  nan])
    """
    known = {horizon: _beta_or_nan(rule, horizon) for horizon in set(horizons)}
    return np.array([known[horizon] for horizon in horizons])


def picks(rule: Rule, horizons: Sequence[float], grids: np.ndarray) -> np.ndarray:
    """The index of the swept beta that the rule picks in each experiment, -1 where the rule has no beta.

    A fixed beta is that very beta: it is not projected, and has no answer where it was not swept.

    >>> from oneclock.rule import Fixed, Refresh
    >>> grids = np.array([[0.0, 0.9, 0.99], [0.0, 0.95, 0.99]])
    >>> picks(Fixed(0.95), [20_000] * 2, grids), picks(Refresh(), [20_000] * 2, grids)
    (array([-1,  1]), array([2, 1]))
    """
    betas = rule_betas(rule, horizons)
    if isinstance(rule, Fixed):
        same = grids == betas[:, None]
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)
    return np.where(np.isnan(betas), -1, project(np.nan_to_num(betas), grids))


_STEP = max(math.log10((1 - low) / (1 - high)) for low, high in pairwise(GRID))
"""A step of the paper's grid in log10(1 - beta): a quarter, and its widest where betas are rounded."""


def is_near(beta: float, swept: float) -> bool:
    """Whether a swept beta says something of a rule's: it lies within a step of the paper's grid.

    >>> is_near(0.95, 0.94377), is_near(0.5, 0.82217)
    (True, False)
    """
    return abs(math.log10((1 - beta) / (1 - swept))) <= _STEP


def at(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """values[..., i, index[i]]: what each experiment has at its pick, NaN where the pick is -1."""
    taken = np.take_along_axis(values, np.maximum(index, 0).reshape((1,) * (values.ndim - 2) + (-1, 1)), axis=-1)
    return np.where(index < 0, np.nan, taken[..., 0])


def _beta_or_nan(rule: Rule, horizon: float) -> float:
    try:
        return rule(horizon)
    except ValueError:
        return math.nan
