"""Differences of betas in the short studies, by the seeds that came last: they chose neither rate nor beta."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from oneclock.experiments import short
from oneclock.study.best import Interval
from oneclock.study.sweeps import Sweep

STUDIES = Path(__file__).resolve().parents[1] / "studies"
SHORT_STUDY, BRIEF_STUDY = STUDIES / "short", STUDIES / "brief"

Betas = tuple[float, float | None]

JOINED_AT: Betas = (0.68377, None)
FLAT_AT: Betas = (0.82217, None)
USUAL: Betas = (0.9, 0.999)
"""The betas at which the study measures the two candidates; and torch's own."""


class Pooled(NamedTuple):
    """A mean over twins, and its interval."""

    mean: float
    interval: Interval


def difference(sweep: Sweep, one: Betas, two: Betas, seeds: Collection[int] = short.FRESH) -> tuple[float, float]:
    """By how many per cent the first loss lies above the second, and the standard error, from seeds in pairs.

    Each beta must have these seeds at one rate.
    """
    first, second = (
        {
            run.seed: run.loss
            for run in (*sweep.tied, *sweep.untied)
            if (run.beta, run.beta2) == betas and run.seed in seeds
        }
        for betas in (one, two)
    )
    middle = statistics.fmean(second.values())
    pairs = [100 * (first[seed] - second[seed]) / middle for seed in sorted(first.keys() & second.keys())]
    return statistics.fmean(pairs), statistics.stdev(pairs) / math.sqrt(len(pairs))


def pooled(effects: Sequence[tuple[float, float]], level: float = 0.95) -> Pooled:
    """The mean of a random-effects model (DerSimonian and Laird), its interval after Hartung and Knapp.

    >>> pooled([(-1.0, 0.1), (-1.0, 0.1), (-1.0, 0.1)]).mean
    -1.0
    """
    values, errors = (np.array(column) for column in zip(*effects, strict=True))
    weights, df = 1 / errors**2, len(values) - 1
    spread = float((weights * (values - np.average(values, weights=weights)) ** 2).sum())
    between = max((spread - df) / (weights.sum() - (weights**2).sum() / weights.sum()), 0.0)
    weights = 1 / (errors**2 + between)
    mean = float(np.average(values, weights=weights))
    error = math.sqrt(float((weights * (values - mean) ** 2).sum() / (df * weights.sum())))
    half = float(stats.t.ppf((1 + level) / 2, df)) * error
    return Pooled(mean, Interval(mean - half, mean + half, level))


def in_brief(sweeps: Sequence[Sweep]) -> list[tuple[float, float]]:
    """By how many per cent `joined` ends above `flat` at 150 steps, and the standard error, by fresh seeds alone."""
    joined, flat = short.BRIEF_BETAS
    tuned = (at_chosen_rates(sweep, short.BRIEF_SEEDS) for sweep in sweeps)
    return [difference(sweep, (joined, None), (flat, None), short.BRIEF_FRESH) for sweep in tuned]


def at_chosen_rates(sweep: Sweep, seeds: Collection[int]) -> Sweep:
    """The sweep with each tied beta at the rate of its lowest mean over these seeds alone, as the protocol chose it."""
    chosen = []
    for beta in sweep.betas:
        own = [trial for trial in sweep.tied if trial.beta == beta]
        rates = {trial.rate for trial in own}
        means = {rate: statistics.fmean(t.loss for t in own if t.rate == rate and t.seed in seeds) for rate in rates}
        best = min(means, key=lambda rate: means[rate])
        chosen += [trial for trial in own if trial.rate == best]
    return replace(sweep, tied=tuple(chosen))
