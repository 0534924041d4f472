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


def within(gaps: np.ndarray) -> np.ndarray:
    """How many gaps lie under 1 %, along the last axis.

    >>> int(within(np.array([0.0, 0.005, 0.01])))
    2
    """
    return (gaps < NEAR).sum(axis=-1)
