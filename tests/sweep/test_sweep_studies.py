"""The laptop study: eleven twins that keep the shape of their originals, one study, its cost told first."""

import os
import subprocess
import sys

import pytest

from oneclock.lab.experiments import EXPERIMENTS, FASHION, LAPTOP, SERIES, check_experiment
from oneclock.lab.experiments.laptop import EVALUATIONS, FEWER_EVALUATIONS
from oneclock.lab.study_plans import BASELINES, QUICK, costs, fashion_study, laptop_study, series_study

PAIRS = list(zip(EXPERIMENTS.values(), LAPTOP.values(), strict=True))


@pytest.mark.parametrize(("original", "twin"), PAIRS, ids=list(LAPTOP))
def test_a_twin_keeps_the_shape_of_its_original(original, twin):
    assert check_experiment(twin) is twin
    assert type(twin.model) is type(original.model)
    for same in ("split", "objective", "label_smoothing"):
        assert getattr(twin, same) == getattr(original, same)
    for same in ("noise_density", "mean_span_length"):
        assert getattr(twin.span_corruption, same, None) == getattr(original.span_corruption, same, None)
    for same in ("name", "weight_decay", "clip"):
        assert getattr(twin.optimizer, same) == getattr(original.optimizer, same)
    assert twin.schedule.min_lr / twin.optimizer.lr == pytest.approx(original.schedule.min_lr / original.optimizer.lr)
    share = max(original.schedule.warmup_steps / original.budget, original.schedule.warmup_share)
    assert twin.schedule.warmup_share == pytest.approx(share)
    limit = FEWER_EVALUATIONS if twin.name in {"gpt2-bible", "resnet-mnist", "swin-mnist"} else EVALUATIONS
    evaluations = min(original.budget / original.evaluation.every, limit)
    assert twin.budget / twin.evaluation.every == pytest.approx(evaluations, rel=0.02)
    # What else the originals do as the authors' code did, the twins do as their committed records have it.


def test_horizons_spread_over_an_order_of_magnitude():
    budgets = [twin.budget for twin in LAPTOP.values()]
    assert min(budgets) <= 2000
    assert max(budgets) >= 20_000


def test_the_study_is_the_papers_protocol_with_two_arms(tmp_path):
    study = laptop_study(tmp_path / "study")
    steps = [study.step(target) for target in study.targets]
    assert [step.at_most for step in steps] == [13 + 5 * 2 + len(BASELINES) * 3] * 11
    quick = laptop_study(tmp_path / "quick", quick=True)
    assert [target.budget for target in quick.targets] == [twin.budget // QUICK for twin in LAPTOP.values()]


def test_in_the_series_nothing_differs_but_the_horizon(tmp_path):
    for experiment in SERIES:
        twin = LAPTOP[experiment.name.rpartition("-")[0]]
        same = ("model", "data", "optimizer", "schedule", "batch_size", "accumulate", "objective", "seeds")
        assert [getattr(experiment, one) for one in same] == [getattr(twin, one) for one in same]
        assert twin.schedule.warmup_steps == 0  # its warm-up is a share of the budget, and so goes with it
    assert len(series_study(tmp_path).targets) == len(SERIES) == 8


def test_on_new_data_nothing_is_tuned_and_all_is_held_out(tmp_path):
    for experiment in FASHION:
        family, _, budget = experiment.name.split("-")
        twin = LAPTOP[f"{family}-mnist"]
        same = ("model", "optimizer", "schedule", "batch_size", "accumulate", "objective", "label_smoothing", "seeds")
        assert [getattr(experiment, one) for one in same] == [getattr(twin, one) for one in same]
        assert (experiment.data.source, experiment.split) == ("fashion-mnist", "heldout")
        assert experiment.budget == int(budget)
    assert len(fashion_study(tmp_path).targets) == len(FASHION) == 6


def test_its_cost_is_estimated_from_a_few_real_steps(tmp_path):
    study = laptop_study(tmp_path / "study")
    study.targets = study.targets[4:5]
    (cost,) = costs(study)
    assert (cost.name, cost.runs) == ("vit-digits", 29)
    assert cost.seconds > 0


ALL_AT_ONCE = """
import importlib, sys, tempfile
from pathlib import Path
from oneclock.lab.experiments import LAPTOP
from oneclock.runs.key import RunKey
from oneclock.lab.sweep_target import ExperimentTarget
names = ["gpt2-bible", "llama-bible", "t5-bible", "vit-digits", "swin-mnist"]
for module in dict.fromkeys(module for name in names for module in ExperimentTarget(name, 1).modules()):
    importlib.import_module(module)
before = {*sys.modules}
for name in names:
    with tempfile.TemporaryDirectory() as folder:
        ExperimentTarget(name, 1, ("evaluation.every=1",)).execute(Path(folder) / "run", RunKey(name, 0.9, 1, 1))
print(*({*sys.modules} - before))
"""


def test_what_runs_import_is_imported_before_they_are_forked_on_the_first_day_too(tmp_path):
    """In an empty home nothing is prepared yet: the first run makes the tokens, and imports what that takes."""
    places = {"HOME": "home", "XDG_CACHE_HOME": "cache", "HF_HOME": "hub"}
    environment = {name: value for name, value in os.environ.items() if name != "ONECLOCK_DATA"}
    environment |= {name: str(tmp_path / folder) for name, folder in places.items()}
    done = subprocess.run([sys.executable, "-c", ALL_AT_ONCE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    late = done.stdout.split()
    assert len(late) < 20, late  # a model of transformers, scikit-learn or datasets would be hundreds


def test_an_unknown_study_is_named():
    done = subprocess.run([sys.executable, "-m", "oneclock", "lab", "study", "desk"], capture_output=True, text=True)
    known = "laptop, series, fashion, joint, short, brief"
    assert (done.returncode, done.stderr) == (2, f"oneclock: there is no study 'desk'; there are: {known}\n")
