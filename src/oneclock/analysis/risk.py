"""Gaps of one rule over experiments -> mean, max, CVaR, how many under 1 %. The experiments are the last axis."""

from __future__ import annotations

import math

import numpy as np

NEAR = 0.01
"""A gap under this counts as near the oracle."""


def cvar(gaps: np.ndarray, share: float = 0.25) -> np.ndarray:
    """The mean of the ceil(n * share) largest gaps, n along the last axis: how bad the worst quarter is.

    >>> float(cvar(np.array([1.0, 2.0, 3.0, 4.0, 6.0])))
    5.0
    """
    count = math.ceil(gaps.shape[-1] * share)
    return np.partition(gaps, -count, axis=-1)[..., -count:].mean(axis=-1)


def figures(gaps: np.ndarray) -> np.ndarray:
    """(mean, max, CVaR) along the last axis, stacked in front.

    >>> figures(np.array([1.0, 3.0]))
    array([2., 3., 3.])
    """
    return np.stack([gaps.mean(axis=-1), gaps.max(axis=-1), cvar(gaps)])


def central(drawn: np.ndarray, level: float, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The quantiles that leave (1 - level) / 2 of the draws on either side; infinite where infinite draws decide.

    >>> tuple(map(float, central(np.array([1.0, 2.0, 3.0]), level=1.0)))
    (1.0, 3.0)
    """
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=axis)
    return tuple(np.where(np.isnan(bound), np.inf, bound)[()] for bound in (low, high))  # type: ignore[return-value]


def within(gaps: np.ndarray) -> np.ndarray:
    """How many gaps lie under 1 %, along the last axis.

    >>> int(within(np.array([0.0, 0.005, 0.01])))
    2
    """
    return (gaps < NEAR).sum(axis=-1)
