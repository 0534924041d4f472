"""Sweeps of known truth after the paper's protocol."""

import numpy as np

from oneclock.lab.protocol.data import ProtocolData
from oneclock.lab.protocol.losses import Losses, relative_gaps
from oneclock.lab.protocol.resampling import resample
from oneclock.rule import GRID


def protocol_of_truth(rng, experiments, spread, seeds=3):
    """Sweeps after the paper's protocol (all seeds at the five betas that are best by seed 1), and their true gaps."""
    best = rng.uniform(4, 7, experiments)
    truth = 2 * (1 + 0.004 * (np.arange(13) - best[:, None]) ** 2)
    minima = truth[..., None] * (1 + spread * rng.standard_normal((experiments, 13, seeds)))
    for row, others in enumerate(np.argsort(minima[..., 0], axis=1)[:, 5:]):
        minima[row, others, 1:] = np.nan
    losses = Losses(
        np.tile(GRID, (experiments, 1)), minima, np.nanmean(minima, axis=2), np.isfinite(minima).sum(axis=2)
    )
    every = np.arange(experiments)
    sets = {"development": every, "heldout": every[:0], "all": every}
    draws = resample(losses, sets, draws=300, seed=int(rng.integers(1 << 30)))
    return ProtocolData(losses, (10_000,) * experiments, sets, draws), relative_gaps(truth)
