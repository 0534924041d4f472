"""Runs that the plan asks for and that are not there are said, wherever a study is read."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oneclock import analyse, run_sweep
from oneclock.runs.planned import missing_runs
from oneclock.runs.protocols import protocol_from
from oneclock.runs.store import Study
from oneclock.runs.table import read_source
from oneclock.sweep import Execution, Plan
from oneclock.sweep.view import status

STUDIES = Path(__file__).parents[2] / "studies"
BETAS = [0.5, 0.9, 0.99, 0.999]


def train(beta, seed, run, lr=None):
    for step in (50, 100):
        run.log(step, val_loss=1 + (beta - 0.9) ** 2 + 1 / step + 0.001 * seed)


def swept(path, **more):
    settings = {"name": "x", "betas": BETAS, "seeds": [1, 2], "protocol": "paper"} | more
    return run_sweep(train, 100, path, where=Execution(in_process=True), quiet=True, **settings)


@pytest.mark.parametrize("study", ["brief", "fashion", "joint", "laptop", "series", "short"])
def test_no_run_of_a_committed_study_is_missing(study):
    assert Study(STUDIES / study).missing() == {}


def test_what_is_missing_of_one_experiment_is_its_part_of_all(tmp_path):
    study = swept(tmp_path / "a")
    header = dict(study.header)
    header["targets"] = [*header["targets"], {"name": "y", "budget": 100}]
    everything = missing_runs(header, [])
    assert [*everything] == ["x", "y"]
    for name in ("x", "y"):
        assert missing_runs(header, [], name) == {name: everything[name]}


@pytest.mark.parametrize("lost", ["run.json", "result.json", "."])
@pytest.mark.parametrize("protocol", ["paper", "grid", "adaptive"])
def test_a_lost_file_or_folder_is_said(tmp_path, lost, protocol):
    study = swept(tmp_path / "s", protocol=protocol)
    folder = tmp_path / "s" / "runs" / "x" / "beta-0.9-seed-1"
    assert study.missing() == {}
    assert not any("missing" in line for line in read_source(tmp_path / "s").missing)
    shutil.rmtree(folder) if lost == "." else (folder / lost).unlink()
    keys = Study(tmp_path / "s").missing()["x"]
    assert (0.9, 1) in [(key.beta, key.seed) for key in keys]
    begun = lost == "result.json"
    said = "beta 0.9, seed 1 is not finished" if begun else "beta 0.9 seed 1"
    analysis = analyse(tmp_path / "s")
    for missing in (read_source(tmp_path / "s").missing, analysis.missing):
        assert any(said in line for line in missing)
    notes = {Study(tmp_path / "s").best().note, analysis.experiments[0].best.note}
    assert len(notes) == 1
    assert ("beta 0.9 seed 1" in notes.pop()) is not begun


def test_a_study_without_its_plan_is_still_read(tmp_path):
    swept(tmp_path / "s")
    (tmp_path / "s" / "study.json").unlink()
    assert Study(tmp_path / "s").missing() == {}
    (tmp_path / "s" / "runs" / "x" / "beta-0.9-seed-1" / "run.json").unlink()
    assert any("beta-0.9-seed-1: its run.json is missing" in line for line in read_source(tmp_path / "s").missing)


def test_seeds_that_the_plan_does_not_say_are_those_that_ran():
    header = {"targets": [{"experiment": "a", "budget": 9}], "protocol": {"kind": "grid", "betas": [0.5, 0.9]}}
    assert missing_runs(header, []) == {}


def test_numbers_of_numpy_become_plain_numbers(tmp_path):
    lrs = np.logspace(-4, -2, 3)
    study = swept(tmp_path / "s", betas=np.array(BETAS[:2]), seeds=np.arange(1, 3), learning_rates=lrs, protocol="grid")
    plan = Plan.read(tmp_path / "s")
    assert sorted(path.name for path in (tmp_path / "s" / "runs" / "x").iterdir()) == sorted(
        f"beta-{beta}-rate-{lr}-seed-{seed}" for beta in (0.5, 0.9) for lr in (0.0001, 0.001, 0.01) for seed in (1, 2)
    )
    assert status(plan)["targets"]["x"]["ended"] == 12
    assert not plan.step(plan.targets[0]).runs
    assert len(study.runs("x")) == 12
    assert {type(number) for run in study.runs("x") for number in (run.beta, run.lr)} == {float}
    again: Any = protocol_from("grid", betas=np.float32([0.5]), seeds=np.array([3]), learning_rates=(np.float64(0.1),))
    assert [type(one[0]) for one in (again.betas, again.seeds, again.learning_rates)] == [float, int, float]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("betas", 0.9), ("seeds", 3), ("learning_rates", "0.1"), ("seeds", [1.5]), ("learning_rates", ["x"])],
)
def test_what_is_not_a_list_of_numbers_is_refused_in_one_line(name, wrong):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        protocol_from("grid", **{name: wrong})


def test_a_learning_rate_of_which_no_run_has_ended_is_missing_too(tmp_path):
    """A sweep that has run one learning rate so far: its best beta may be another one at the next."""
    swept(tmp_path / "s", learning_rates=[0.001, 0.01], protocol="grid")
    for folder in (tmp_path / "s" / "runs" / "x").glob("*-rate-0.01-*"):
        shutil.rmtree(folder)
    best = Study(tmp_path / "s").best()
    assert best == analyse(tmp_path / "s").experiments[0].best
    assert best.not_measured == tuple(BETAS)
    assert f"{2 * len(BETAS)} planned runs" in best.note
