"""A sweep with curves and a known best beta, for every test of the analysis."""

import math

import numpy as np

from oneclock.rule import GRID


def make_sweeps(horizons=(10_000, 20_000, 40_000), seeds=3, spread=0.002, heldout=1, betas=GRID):
    """Columns of a long table: L is a parabola in log10(1 - beta) with its best at R0 = 1000, curves of ten points."""
    rng = np.random.default_rng(7)
    names = ("experiment", "split", "budget", "beta", "seed", "step", "val_loss", "train_loss")
    columns = {name: [] for name in names}
    for place, horizon in enumerate(horizons):
        split = "heldout" if place >= len(horizons) - heldout else "development"
        for beta in betas:
            for seed in range(1, seeds + 1):
                distance = -math.log10(1 - beta) - math.log10(horizon / 1000)
                best = (2 + 0.1 * distance**2) * (1 + spread * rng.standard_normal())
                for step in range(horizon // 10, horizon + 1, horizon // 10):
                    loss = best * (1 + math.exp(-6 * step / horizon) - math.exp(-6))
                    row = (f"e{place}", split, horizon, beta, seed, step, loss, 0.9 * loss)
                    for name, value in zip(names, row, strict=True):
                        columns[name].append(value)
    return columns
