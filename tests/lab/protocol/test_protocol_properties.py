"""What must hold for any sweep by the paper's protocol: gaps, projection, calibration, horizons."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneclock.horizon import Curve, effective_horizon
from oneclock.lab.protocol.calibration import candidates_for, choose
from oneclock.lab.protocol.data import nearest, select_beta
from oneclock.lab.protocol.horizons import horizon_of
from oneclock.lab.protocol.losses import relative_gaps
from oneclock.rule import GRID, Fixed, Power, Refresh, nearest_beta
from oneclock.stats import read

LOSSES = st.lists(st.floats(0.01, 100), min_size=1, max_size=13)
BETAS = st.floats(0, 0.9999)


@given(LOSSES, st.floats(1e-3, 1e3))
def test_gaps_are_not_negative_and_do_not_depend_on_the_unit_of_loss(losses, unit):
    gaps = relative_gaps(np.array(losses))
    assert (gaps >= 0).all()
    assert gaps.min() == 0
    assert relative_gaps(np.array(losses) * unit) == pytest.approx(gaps, rel=1e-9, abs=1e-9)


@given(st.lists(BETAS, min_size=1, max_size=9, unique=True), st.lists(st.floats(-2, 1), min_size=1, max_size=30))
def test_projection_is_the_nearest_swept_beta(grid, wanted):
    grid = sorted(grid)
    padded = np.array([*grid, math.nan])
    brute = [min(range(len(grid)), key=lambda k: (abs(grid[k] - beta), grid[k])) for beta in wanted]
    assert nearest(np.array([wanted, wanted]), padded).tolist() == [brute, brute]


def test_projection_agrees_with_the_rule_at_every_midpoint_and_its_neighbours():
    middles = [(low + high) / 2 for low, high in itertools.pairwise(GRID)]
    wanted = [np.nextafter(m, side) if side is not None else m for m in middles for side in (None, 0.0, 1.0)]
    index = nearest(np.array(wanted), np.array(GRID))
    assert [GRID[k] for k in index] == [nearest_beta(beta) for beta in wanted]


@given(
    st.lists(st.integers(1, 60_000), min_size=1, max_size=8), st.sampled_from([Refresh(), Fixed(0.9), Power(0.1, 0.5)])
)
def test_a_rule_picks_what_the_rule_and_its_projection_say_or_nothing(horizons, rule):
    for horizon, pick in zip(horizons, select_beta(rule, horizons, np.tile(GRID, (len(horizons), 1))), strict=True):
        try:
            expected = GRID.index(nearest_beta(rule(horizon)))
        except ValueError:
            expected = -1
        assert pick == expected


def test_a_fixed_beta_that_was_not_swept_has_no_answer():
    assert select_beta(Fixed(0.5), [20_000], np.array([GRID])).tolist() == [-1]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, math.nan]), min_size=3, max_size=3), min_size=1, max_size=6))
def test_calibration_returns_the_first_of_the_plateau_and_all_of_it(gaps):
    best, plateau = choose(np.array(gaps))
    able = {row: max(values) for row, values in enumerate(gaps) if not any(map(math.isnan, values))}
    expected = tuple(row for row, worst in able.items() if worst == min(able.values()))
    assert plateau == expected
    assert best == (expected[0] if expected else None)


def test_short_horizons_get_smaller_candidates_and_the_papers_do_not_change():
    assert candidates_for([6_000, 40_000]) == tuple(range(300, 2001, 100))
    assert min(candidates_for([900])) < 900


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_the_horizon_of_a_sweep_is_the_core_s(seed):
    rng = np.random.default_rng(seed)
    steps = np.arange(100, 1100, 100)
    curves = {
        beta: [Curve(steps.tolist(), rng.uniform(1, 2, 10)) for _ in range(1 + k)] for k, beta in enumerate(GRID[:3])
    }
    rows = [
        ("e", 1000, beta, number, step, loss)
        for beta, seeds in curves.items()
        for number, curve in enumerate(seeds)
        for step, loss in zip(curve.steps, curve.losses, strict=True)
    ]
    names = ("experiment", "budget", "beta", "seed", "step", "val_loss")
    sweep = read(dict(zip(names, zip(*rows, strict=True), strict=True))).sweeps[0]
    for convention in ("stop", "best"):
        assert horizon_of(sweep, convention)[0] == effective_horizon(curves, 1000, convention)
