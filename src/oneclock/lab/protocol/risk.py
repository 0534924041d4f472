"""Gaps of one rule over experiments -> mean, max, CVaR with their intervals. The experiments are the last axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneclock.runs.paired import Interval


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
class ProtocolRow:
    """A rule at T_ES on the nearest swept betas: its picks, their gaps to the oracle, and its risk by split.

    A beta and its gap are None if the rule has none.
    """

    name: str
    betas: tuple[float | None, ...]
    gaps: tuple[float | None, ...]
    development: Risk | None
    heldout: Risk | None
    all: Risk | None


def central(drawn: np.ndarray, level: float, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The quantiles that leave (1 - level) / 2 of the draws on either side; infinite if infinite draws decide them.

    >>> tuple(map(float, central(np.array([1.0, 2.0, 3.0]), level=1.0)))
    (1.0, 3.0)
    """
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=axis)
    return tuple(np.where(np.isnan(bound), np.inf, bound)[()] for bound in (low, high))  # type: ignore[return-value]


def take_selected(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """values[..., i, index[i]]: what each experiment has at its pick, NaN if the pick is -1."""
    taken = np.take_along_axis(values, np.maximum(index, 0).reshape((1,) * (values.ndim - 2) + (-1, 1)), axis=-1)
    return np.where(index < 0, np.nan, taken[..., 0])
