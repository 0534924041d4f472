"""Gaps of one rule over experiments -> mean, max, CVaR, how many under 1 %. The experiments are the last axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oneclock.runs.paired import Interval

NEAR = 0.01
"""A gap under this counts as near the oracle."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its uncertainty: `seeds` with these experiments held fixed, `experiments` with them resampled too.

    `seeds` is None if no beta has two seeds, `experiments` where there is only one.
    """

    value: float
    seeds: Interval | None
    experiments: Interval | None


@dataclass(frozen=True)
class Risk:
    """Gaps of one rule over a set of experiments: mean, max, CVaR (the worst quarter), and how many lie under 1 %.

    `answered` of `experiments` have a beta by this rule; the figures are over those.
    """

    experiments: int
    answered: int
    mean: Estimate
    max: Estimate
    cvar: Estimate
    within: int


@dataclass(frozen=True)
class RuleRow:
    """A rule on the same sweeps as every other: its betas, and its risk by split.

    `betas` and `gaps` follow the order of `Analysis.experiments`. A beta is None if the rule has none; a gap is None
    where it was not measured near that beta. `horizon` says whether the rule saw the planned steps or T_ES. `chosen_by`
    names how it was picked on the development experiments ("mean", "max"), if it was.
    """

    name: str
    horizon: Literal["planned", "t_es"]
    chosen_by: str | None
    betas: tuple[float | None, ...]
    gaps: tuple[float | None, ...]
    development: Risk | None
    heldout: Risk | None
    all: Risk | None


def cvar(gaps: np.ndarray, share: float = 0.25) -> np.ndarray:
    """The mean of the ceil(n * share) largest gaps, n along the last axis: how bad the worst quarter is.

    >>> float(cvar(np.array([1.0, 2.0, 3.0, 4.0, 6.0])))
    5.0
    """
    count = math.ceil(gaps.shape[-1] * share)
    return np.partition(gaps, -count, axis=-1)[..., -count:].mean(axis=-1)


def mean_max_cvar(gaps: np.ndarray) -> np.ndarray:
    """(mean, max, CVaR) along the last axis, stacked in front.

    >>> mean_max_cvar(np.array([1.0, 3.0]))
    array([2., 3., 3.])
    """
    return np.stack([gaps.mean(axis=-1), gaps.max(axis=-1), cvar(gaps)])


def central(drawn: np.ndarray, level: float, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The quantiles that leave (1 - level) / 2 of the draws on either side; infinite if infinite draws decide them.

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


def take_selected(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """values[..., i, index[i]]: what each experiment has at its pick, NaN if the pick is -1."""
    taken = np.take_along_axis(values, np.maximum(index, 0).reshape((1,) * (values.ndim - 2) + (-1, 1)), axis=-1)
    return np.where(index < 0, np.nan, taken[..., 0])
