"""Noise studies that agree with a loop, rules and times by hand."""

import itertools
import math

import numpy as np
import pytest
from simulated_protocol import protocol_of_truth

from oneclock.lab.protocol import analyse_protocol
from oneclock.lab.protocol.losses import losses_of
from oneclock.lab.protocol.robustness import noise_study
from oneclock.lab.protocol.tables import FIVE, horizons, rules
from oneclock.lab.protocol.train_and_time import times_to_target
from oneclock.rule import GRID, Fixed, Power, Refresh, nearest_beta
from oneclock.stats import read


def test_the_noise_floor_grows_with_the_seed_spread_and_holds_the_true_best(make_sweeps):
    floors = [
        analyse_protocol(read(make_sweeps(spread=s)), draws=200, repeats=5).calibration.noise_floor
        for s in (0.001, 0.01)
    ]
    assert floors[0].mean < floors[1].mean
    assert floors[0].high < floors[1].high
    assert floors[1].relative_spread == pytest.approx(0.01, rel=0.5)
    assert floors[1].mean < floors[1].high


def test_the_noise_study_agrees_with_a_plain_loop():
    data, _ = protocol_of_truth(np.random.default_rng(6), 5, 0.001)
    row = noise_study(data, Refresh(), sigmas=[0.2], draws=20, repeats=3, level=1.0, seed=9)[0]
    standard = np.random.default_rng(9).standard_normal((5, 3, 20))
    repeats = []
    for repeat in range(3):
        gaps = []
        for place, draw in itertools.product(range(5), range(20)):
            beta = 1 - 1000 / max(10_000 * (1 + 0.2 * standard[place, repeat, draw]), 1e-300)
            grid = min(GRID, key=lambda value, beta=beta: (abs(value - beta), value))
            gaps.append(data.losses.gaps[place, GRID.index(grid)])
        worst = sorted(gaps, reverse=True)
        repeats.append((np.mean(gaps), worst[0], np.mean(worst[:25]), np.mean(np.array(gaps) < 0.01)))
    for found, values in zip(
        (row.all.mean, row.all.max, row.all.cvar, row.all.within), zip(*repeats, strict=True), strict=True
    ):
        assert (found.expected, found.lower, found.upper) == pytest.approx((np.mean(values), min(values), max(values)))


def test_without_noise_the_noise_study_is_the_rule_itself(sweep_columns):
    analysis = analyse_protocol(read(sweep_columns), draws=20, repeats=5)
    risk, row = analysis.summary.refresh.all, analysis.robustness.noise[0]
    assert row.sigma == 0
    for figure in ("mean", "max", "cvar"):
        assert getattr(row.all, figure).expected == pytest.approx(getattr(risk, figure).value)


def test_a_sweep_of_known_truth_is_read_as_such(sweep_columns):
    analysis = analyse_protocol(read(sweep_columns), draws=100, repeats=20)
    for experiment, horizon in zip(analysis.experiments, (10_000, 20_000, 40_000), strict=True):
        assert experiment.horizons.stop == experiment.horizons.best == experiment.horizons.used == horizon
        assert experiment.selected_beta == nearest_beta(1 - 1000 / horizon)
        assert experiment.stable_from < horizon < experiment.stable_to
        assert experiment.gaps[GRID.index(experiment.oracle_beta)] == 0
    assert (analysis.experiments[2].split, analysis.calibration.heldout.experiments) == ("heldout", 1)
    assert 500 <= analysis.calibration.chosen <= 1800
    assert analysis.calibration.chosen == min(analysis.calibration.plateau)
    assert {row.name for row in analysis.rules} >= {"paper", "recommended"}
    assert analysis.calibration.verdict
    for table in (*(make(analysis) for make in FIVE), horizons(analysis), rules(analysis)):
        assert table.rows
        assert all(table.shown(row, 0) for row in range(len(table.rows)))


def test_time_to_target_by_hand_and_never_is_said():
    table = {
        "experiment": ["a"] * 6,
        "budget": [4000] * 6,
        "beta": [0.9, 0.9, 0.9, 0.99, 0.99, 0.99],
        "step": [1000, 2000, 4000] * 2,
        "val_loss": [1.005, 1.0, 1.1, 2.0, 1.5, 1.02],
    }
    assert times_to_target(read(table).sweeps[0]) == {0.9: 1000, 0.99: math.inf}


def test_a_horizon_too_short_for_a_candidate_makes_it_inadmissible_and_not_clamped():
    columns = {
        "experiment": "aabb",
        "t_es": [800, 800, 9000, 9000],
        "beta": [0.5, 0.9] * 2,
        "min_val_loss": [2, 1, 1, 2],
    }
    analysis = analyse_protocol(read(columns), draws=10, repeats=5)
    short = analysis.experiments[0]
    assert (short.selected_beta, short.rule_beta) == (None, None)
    assert "a: the paper's rule with R0 = 1000 has no beta for 800 steps" in analysis.missing
    assert analysis.summary.refresh.betas == (None, 0.9)
    assert (analysis.summary.refresh.all.answered, analysis.summary.refresh.all.experiments) == (1, 2)
    admissible = {row.refreshes: row.admissible for row in analysis.calibration.candidates}
    assert not admissible[800]
    assert admissible[700]
    assert analysis.calibration.chosen < 800
    assert any("cannot be chosen" in sentence for sentence in analysis.calibration.verdict)


def test_a_fixed_beta_that_some_experiments_were_not_swept_at_is_said_to_be_so():
    columns = {
        "experiment": "aabb",
        "split": ["development"] * 2 + ["heldout"] * 2,
        "t_es": [2000, 2000, 60_000, 60_000],
        "beta": [0.5, 0.9, 0.96, 0.98],
        "min_val_loss": [1, 2, 1, 2],
    }
    summary = analyse_protocol(read(columns), draws=10, repeats=5).summary
    assert summary.fixed.betas == (0.5, None)
    assert "Fixed beta=0.5 has no beta, or none that was swept, in 1 experiment." in summary.verdict


def test_no_admissible_candidate_is_said():
    columns = {"experiment": "aa", "t_es": [5, 5], "beta": [0.5, 0.9], "min_val_loss": [2, 1]}
    calibration = analyse_protocol(read(columns), draws=10, repeats=5).calibration
    assert (calibration.chosen, calibration.plateau) == (None, ())
    assert "too short" in calibration.verdict[0]


def test_each_experiment_is_projected_to_its_own_betas():
    columns = {"experiment": "aabb", "t_es": [10_000] * 4, "beta": [0.5, 0.99, 0.8, 0.95], "min_val_loss": [2, 1, 1, 2]}
    analysis = analyse_protocol(read(columns), draws=10, repeats=5)
    assert [experiment.selected_beta for experiment in analysis.experiments] == [0.99, 0.95]


def test_leave_one_out_uses_the_others(make_sweeps):
    columns = make_sweeps(horizons=(10_000, 10_000, 20_000, 30_000, 40_000), seeds=1, spread=0.01)
    analysis = analyse_protocol(read(columns), draws=10, repeats=5)
    rows = analysis.calibration.candidates
    for place, left in enumerate(analysis.calibration.left_out):
        others = [k for k in range(4) if k != place]
        worst = [max(row.rule.gaps[k] for k in others) for row in rows]
        chosen = rows[int(np.argmin(worst))]
        assert (left.refreshes, left.gap) == (chosen.refreshes, chosen.rule.gaps[place])


def test_the_power_family_holds_the_refresh_rule_and_fixed_betas():
    horizons_ = np.array([5_000, 10_000, 40_000])
    assert Power(0.1, 1.0, 10_000).one_minus_beta(horizons_) == pytest.approx(Refresh(1000).one_minus_beta(horizons_))
    assert Power(0.1, 0.0, 10_000).one_minus_beta(horizons_) == pytest.approx(Fixed(0.9).one_minus_beta(horizons_))


def test_losses_are_means_of_minima_and_one_seed_counts_with_one():
    columns = {
        "experiment": "aaa",
        "budget": [9] * 3,
        "beta": [0, 0.9, 0.9],
        "seed": [1, 1, 2],
        "min_val_loss": [4, 1, 2],
    }
    losses = losses_of(read(columns).sweeps)
    assert losses.loss.tolist() == [[4, 1.5]]
    assert losses.counts.tolist() == [[1, 2]]
    assert math.isclose(losses.gaps[0, 0], 2.5 / 1.5)
