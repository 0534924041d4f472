"""Seeds that come last: every beta at the rate that was its best with the others."""

import pytest

from oneclock import Execution, run_sweep
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import Grid, extended, next_step, protocol_from
from oneclock.sweep import Plan
from oneclock.sweep.targets import Function

BASE = RunKey("mine", 0.9, 1, budget=100)
PAIR = (0.9, 0.999)
GRID = Grid(betas=(0.5, 0.9), seeds=(1, 2), baselines=(PAIR,), learning_rates=(0.5, 1.0, 2.0), held_out_seeds=(3, 4))
BEST = {0.5: 2.0, 0.9: 1.0, PAIR: 0.5}


def losses_of(protocol, betas):
    return {
        BASE.at(beta, seed, rate): 1 + abs(rate - BEST[beta]) + 0.01 * seed
        for beta in betas
        for seed in protocol.seeds
        for rate in protocol.learning_rates
    }


def test_they_wait_for_the_others_and_count_from_the_start():
    step = next_step(GRID, {}, BASE)
    assert len(step.runs) == 18
    assert {key.seed for key in step.runs} == {1, 2}
    assert step.at_most == 18 + 6


def test_each_beta_and_pair_gets_them_at_its_own_best_rate():
    step = next_step(GRID, losses_of(GRID, (0.5, 0.9, PAIR)), BASE)
    assert {*step.runs} == {BASE.at(beta, seed, rate) for beta, rate in BEST.items() for seed in (3, 4)}
    assert step.at_most == 6


def test_a_beta_whose_runs_have_ended_does_not_wait_for_another():
    step = next_step(GRID, losses_of(GRID, (0.9,)), BASE)
    assert {key.beta for key in step.runs if key.seed > 2} == {0.9}
    assert step.at_most == 12 + 6


def test_their_own_losses_move_no_rate():
    found = losses_of(GRID, (0.5, 0.9, PAIR)) | {BASE.at(beta, 3, rate): 99.0 for beta, rate in BEST.items()}
    step = next_step(GRID, found, BASE)
    assert {*step.runs} == {BASE.at(beta, 4, rate) for beta, rate in BEST.items()}
    done = found | dict.fromkeys(step.runs, 1.0)
    assert next_step(GRID, done, BASE).reason == "all 18 runs of the grid have ended"


def test_diverged_and_failed_rates_are_not_the_best():
    found = losses_of(GRID, (0.5, 0.9, PAIR)) | {BASE.at(0.5, 1, 2.0): float("inf")}
    found |= {BASE.at(0.9, seed, 1.0): float("nan") for seed in (1, 2)}
    last = {(key.beta, key.lr) for key in next_step(GRID, found, BASE).runs}
    assert last == {(0.5, 1.0), (0.9, 0.5), (PAIR, 0.5)}


def test_it_is_data_and_stays_unsaid_where_it_is_not_used():
    assert protocol_from(**GRID.as_data()) == GRID
    assert "held_out_seeds" not in Grid().as_data()
    assert extended(GRID.as_data(), Grid(held_out_seeds=(5,))).held_out_seeds == (3, 4, 5)


def test_a_seed_comes_once():
    with pytest.raises(ValueError, match="held_out_seeds must differ"):
        protocol_from("grid", seeds=(1, 2), held_out_seeds=(2, 3))
    with pytest.raises(ValueError, match=r"got \[3\] in both"):
        protocol_from("grid", held_out_seeds=(3, 4))  # 1, 2, 3 are the seeds of a target without seeds of its own


def test_a_study_knows_every_run_that_may_be_asked_for(tmp_path):
    plan = Plan(tmp_path, [Function("mine", 100, "train.py:train")], GRID)
    (target,) = plan.targets
    last = next_step(GRID, losses_of(GRID, (0.5, 0.9, PAIR)), BASE).runs
    assert {*last, *plan.step(target).runs} <= {*plan.keys(target)}


def train(beta, seed, run, lr):
    run.log(10, val_loss=1 + abs(beta - 0.5) + abs(lr - 0.1 * beta) + 0.01 * seed)


def test_a_sweep_ends_with_them(tmp_path):
    protocol = Grid((0.5, 0.9), (1, 2), learning_rates=(0.05, 0.09), held_out_seeds=(3, 4))
    study = run_sweep(train, 10, tmp_path / "study", protocol=protocol, where=Execution(in_process=True), quiet=True)
    runs = {(row.beta, row.lr, row.seed) for row in study.rows()}
    assert len(runs) == 12
    assert {run for run in runs if run[2] > 2} == {(0.5, 0.05, 3), (0.5, 0.05, 4), (0.9, 0.09, 3), (0.9, 0.09, 4)}
    assert study.best().beta == 0.5


def test_only_a_grid_has_them(tmp_path):
    with pytest.raises(ValueError, match="protocol 'paper' has no held_out_seeds.*protocol grid has"):
        protocol_from("paper", held_out_seeds=[4])
