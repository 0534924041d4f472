"""Sweeps of known truth, for tests of what is found in them."""

import math

import numpy as np

from oneclock.runs.key import RunKey
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweep

BETAS = (0.43766, 0.68377, 0.82217, 0.9, 0.94377, 0.96838)
PAIRS = ((0.9, 0.95), (0.9, 0.999))


def sweep_of_truth(rng, bend=0.03, noise=0.004, effect=0.02, pair_noise=1.0, again=4, seeds=3):
    """(beta or pair, lr, seed, loss) of a sweep, and the true log loss of every beta and pair.

    The `again` best betas have all seeds, the others one. Seeds of the last pair spread `pair_noise` times as much.
    """
    u = np.log10(1 - np.array(BETAS))
    truth = dict(zip(BETAS, math.log(2) + bend * (u - rng.uniform(-1.2, -0.6)) ** 2, strict=True))
    truth |= {pair: math.log(2) + 0.01 * rng.standard_normal() for pair in PAIRS}
    often = {*sorted(BETAS, key=truth.get)[:again], *PAIRS}
    effects = effect * rng.standard_normal(seeds)
    spread = {beta: noise * (pair_noise if beta == PAIRS[-1] else 1.0) for beta in truth}
    runs = [
        (beta, None, seed + 1, math.exp(level + effects[seed] + spread[beta] * rng.standard_normal()))
        for beta, level in truth.items()
        for seed in range(seeds if beta in often else 1)
    ]
    return runs, truth


def tuned_sweep(rng, steps, best, best_lr=None, bend=0.06, noise=0.003, effect=0.02, lrs=()):
    """A sweep over seven betas (and these learning rates) with its lowest point at log10(1 - beta) = `best`."""
    effects, runs = effect * rng.standard_normal(3), []
    for beta in (*BETAS, 0.98222):
        for lr in lrs or (None,):
            u = math.log10(1 - beta) - best
            w = 0.0 if lr is None else math.log10(lr) - best_lr
            level = 0.7 + bend * u**2 + 0.15 * w**2
            for seed in range(3 if abs(u) < 0.5 and abs(w) < 0.35 else 1):
                loss = math.exp(level + effects[seed] + noise * rng.standard_normal())
                runs.append(RunRecord(RunKey("task", beta, seed + 1, steps, lr), "finished", steps, loss))
    return Sweep(f"task-{steps}", "development", steps, None, tuple(runs), ())


def share(hits):
    return float(np.mean(hits))
