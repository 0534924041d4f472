"""The intervals of the paper's figures on simulated sweeps of known truth: how often they hold the truth."""

import numpy as np
import pytest
from simulated_protocol import protocol_of_truth

from oneclock.stats.rules import mean_max_cvar


@pytest.mark.parametrize(("repeats", "least"), [(60, 0.85), pytest.param(300, 0.87, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spread", [0.001, 0.01])
def test_figures_of_the_papers_protocol_over_seeds(spread, repeats, least):
    rng, hits = np.random.default_rng(8), np.zeros(3)
    for _ in range(repeats):
        data, truth = protocol_of_truth(rng, 8, spread)
        risk = data.risk(np.full(8, 5), "all")
        for place, (estimate, value) in enumerate(
            zip((risk.mean, risk.max, risk.cvar), mean_max_cvar(truth[:, 5]), strict=True)
        ):
            hits[place] += estimate.seeds.lower - 1e-12 <= value <= estimate.seeds.upper + 1e-12
    assert (hits / repeats >= least).all()


def test_figures_of_the_papers_protocol_over_experiments():
    rng = np.random.default_rng(9)
    _, population = protocol_of_truth(rng, 20_000, 0.0, seeds=1)
    hits = 0
    for _ in range(40):
        data, _ = protocol_of_truth(rng, 20, 0.002)
        hits += population[:, 5].mean() in data.risk(np.full(20, 5), "all").mean.experiments
    assert hits >= 34
