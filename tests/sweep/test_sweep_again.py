"""Seeds that come last: every beta at the rate that was its best with the others."""

import pytest

from oneclock import run_sweep
from oneclock.sweep import Plan
from oneclock.sweep.functions import Function
from oneclock.sweep.protocol import Cell, Grid, as_data, joined, next_step, protocol_from

PAIR = (0.9, 0.999)
GRID = Grid(betas=(0.5, 0.9), seeds=(1, 2), arms=(PAIR,), rates=(0.5, 1.0, 2.0), again=(3, 4))
BEST = {0.5: 2.0, 0.9: 1.0, PAIR: 0.5}


def losses_of(protocol, betas):
    return {
        Cell(beta, seed, rate): 1 + abs(rate - BEST[beta]) + 0.01 * seed
        for beta in betas
        for seed in protocol.seeds
        for rate in protocol.rates
    }


def test_they_wait_for_the_others_and_count_from_the_start():
    step = next_step(GRID, {}, budget=100)
    assert len(step.runs) == 18
    assert {cell.seed for cell in step.runs} == {1, 2}
    assert step.at_most == 18 + 6


def test_each_beta_and_pair_gets_them_at_its_own_best_rate():
    step = next_step(GRID, losses_of(GRID, (0.5, 0.9, PAIR)), budget=100)
    assert {*step.runs} == {Cell(beta, seed, rate) for beta, rate in BEST.items() for seed in (3, 4)}
    assert step.at_most == 6


def test_a_beta_whose_runs_have_ended_does_not_wait_for_another():
    step = next_step(GRID, losses_of(GRID, (0.9,)), budget=100)
    assert {cell.beta for cell in step.runs if cell.seed > 2} == {0.9}
    assert step.at_most == 12 + 6


def test_their_own_losses_move_no_rate():
    found = losses_of(GRID, (0.5, 0.9, PAIR)) | {Cell(beta, 3, rate): 99.0 for beta, rate in BEST.items()}
    step = next_step(GRID, found, budget=100)
    assert {*step.runs} == {Cell(beta, 4, rate) for beta, rate in BEST.items()}
    done = found | dict.fromkeys(step.runs, 1.0)
    assert next_step(GRID, done, budget=100).reason == "all 18 runs of the grid have ended"


def test_diverged_and_failed_rates_are_not_the_best():
    found = losses_of(GRID, (0.5, 0.9, PAIR)) | {Cell(0.5, 1, 2.0): float("inf")}
    found |= {Cell(0.9, seed, 1.0): float("nan") for seed in (1, 2)}
    last = {(cell.beta, cell.rate) for cell in next_step(GRID, found, budget=100).runs}
    assert last == {(0.5, 1.0), (0.9, 0.5), (PAIR, 0.5)}


def test_it_is_data_and_stays_unsaid_where_it_is_not_used():
    assert protocol_from(**as_data(GRID)) == GRID
    assert "again" not in as_data(Grid())
    assert joined(as_data(GRID), Grid(again=(5,))).again == (3, 4, 5)


def test_a_seed_comes_once():
    with pytest.raises(ValueError, match="seeds that come again must be others"):
        protocol_from("grid", seeds=(1, 2), again=(2, 3))
    with pytest.raises(ValueError, match=r"got \[3\] twice"):
        protocol_from("grid", again=(3, 4))  # 1, 2, 3 are the seeds of a target that does not say its own


def test_a_study_knows_every_run_that_may_be_asked_for(tmp_path):
    plan = Plan(tmp_path, [Function("mine", 100, "train.py:train")], GRID)
    (target,) = plan.targets
    last = next_step(GRID, losses_of(GRID, (0.5, 0.9, PAIR)), budget=100).runs
    assert {*last, *plan.step(target).runs} <= {*plan.cells(target)}


def train(beta, seed, run, lr):
    run.log(10, val_loss=1 + abs(beta - 0.5) + abs(lr - 0.1 * beta) + 0.01 * seed)


def test_a_sweep_ends_with_them(tmp_path):
    told = {"protocol": "grid", "betas": [0.5, 0.9], "seeds": [1, 2], "rates": [0.05, 0.09], "again": [3, 4]}
    study = run_sweep(train, 10, tmp_path / "study", **told, in_process=True, quiet=True)
    runs = {(row.beta, row.rate, row.seed) for row in study.rows()}
    assert len(runs) == 12
    assert {run for run in runs if run[2] > 2} == {(0.5, 0.05, 3), (0.5, 0.05, 4), (0.9, 0.09, 3), (0.9, 0.09, 4)}
    assert study.best().beta == 0.5


def test_only_a_grid_has_them(tmp_path):
    with pytest.raises(ValueError, match="protocol 'paper' has no again.*use --protocol grid"):
        run_sweep(train, 10, tmp_path / "study", again=[4], in_process=True, quiet=True)
