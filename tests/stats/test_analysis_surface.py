"""Beta and rate together: a known bowl is found, with intervals that hold it, and its exponents over a series."""

import math

import numpy as np
import pytest

from oneclock.report.brief import in_words
from oneclock.stats import analyse, read
from oneclock.stats.exponents import profiles_of
from oneclock.stats.exponents import surface_of as surface
from oneclock.stats.tables import series as series_table

BETAS = (0.43766, 0.68377, 0.82217, 0.9, 0.94377, 0.96838, 0.98222)
W = math.log10(2e-3)
RATES = tuple(1e-3 * 2.0**k for k in range(-4, 5))


def table(budget=4000, u=-1.0, w=W, tilt=0.0, noise=0.002, seeds=(1, 2), name="task", draw=0):
    rng = np.random.default_rng(draw)
    columns = {key: [] for key in ("experiment", "budget", "beta", "lr", "seed", "min_val_loss")}
    for seed in seeds:
        lift = rng.normal(0, 0.05)
        for beta in BETAS:
            for rate in RATES:
                du, dw = math.log10(1 - beta) - u, math.log10(rate) - w
                du -= tilt * dw
                loss = 2 * math.exp(0.05 * du**2 + 0.075 * dw**2 + lift + rng.normal(0, noise))
                row = (f"{name}-{budget}", budget, beta, rate, seed, loss)
                for key, value in zip(columns, row, strict=True):
                    columns[key].append(value)
    return columns


def surface_of(sweep):
    return surface(sweep, profiles_of(sweep))


def joined(*tables):
    return {key: [value for one in tables for value in one[key]] for key in tables[0]}


def test_a_known_bowl_is_found():
    found = surface_of(read(table(tilt=0.4, noise=1e-5)).sweeps[0])
    assert found.beta == pytest.approx(0.9, abs=0.01)
    assert found.lr == pytest.approx(2e-3, rel=0.06)
    assert found.beta_inside
    assert found.lr_inside
    assert len(found.cells) == len(BETAS) * len(RATES)


def test_one_rate_has_no_surface_and_few_cells_have_no_bowl():
    one = {key: value[:4] for key, value in table(seeds=(1,)).items()} | {"lr": [1e-3] * 4, "beta": list(BETAS[:4])}
    assert surface_of(read(one).sweeps[0]) is None
    few = {key: value[:4] for key, value in table(seeds=(1,)).items()}
    found = surface_of(read(few).sweeps[0])
    assert found.beta is None
    assert len(found.cells) == 4


def test_the_series_has_an_exponent_for_beta_and_one_for_the_rate():
    budgets = (250, 1000, 4000, 16000)
    tables = [
        table(b, u=-0.5 * math.log10(b / 200) - 0.5, w=-0.25 * math.log10(b / 250) - 2.4, noise=5e-4) for b in budgets
    ]
    analysis = analyse(read(joined(*tables)))
    (series,) = analysis.series
    assert series.alpha == pytest.approx(0.5, abs=0.05)
    assert series.lr_alpha == pytest.approx(0.25, abs=0.05)
    assert series.alpha_interval.lower < series.alpha < series.alpha_interval.upper
    assert series.lr_alpha_interval.upper - series.lr_alpha_interval.lower < 0.2
    assert all(point.lr is not None and point.bracketed for point in series.points)
    assert all(result.surface is not None for result in analysis.experiments)
    (line,) = [line for line in in_words(analysis, width=200).splitlines() if "goes as steps" in line]
    assert f"1 - beta goes as steps ** -{series.alpha:.2f} (95 % CI -{series.alpha_interval.upper:.2f} to" in line
    assert f"the best learning rate as steps ** -{series.lr_alpha:.2f} (" in line
    assert f"lr ~ T ** -alpha with alpha {series.lr_alpha:.2f}" in series_table(analysis).notes[0]


def test_a_best_rate_at_an_end_of_those_swept_gives_no_exponent():
    tables = [table(b, u=-0.5 * math.log10(b / 200) - 0.5, w=-5.0, noise=5e-4) for b in (250, 1000, 4000)]
    (series,) = analyse(read(joined(*tables))).series
    assert series.lr_alpha is None
    assert series.alpha == pytest.approx(0.5, abs=0.1)
