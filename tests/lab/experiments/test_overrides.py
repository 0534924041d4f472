"""Overrides: typed, checked, with the nearest name where one is wrong."""

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneclock.lab.experiments import EXPERIMENTS, find, override, settings_of


def as_text(value):
    if isinstance(value, tuple):
        return ",".join(map(as_text, value))
    return str(value)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_setting_reads_its_own_text_back(name):
    spec = EXPERIMENTS[name]
    texts = [f"{key}={as_text(value)}" for key, value in settings_of(spec).items() if key != "span_corruption"]
    assert override(spec, texts) == spec


@given(st.floats(min_value=1e-4, max_value=1e3))
def test_a_float_arrives_exactly(value):
    assert override(find("llama60m-c4"), [f"optimizer.lr={value!r}"]).optimizer.lr == value


@given(st.integers(min_value=1, max_value=10**12))
def test_an_integer_arrives_exactly(value):
    changed = override(find("llama60m-c4"), [f"budget={value}"])
    assert changed.budget == value
    assert changed == dataclasses.replace(find("llama60m-c4"), budget=value)


def test_the_kinds_of_values():
    spec = override(
        find("swint-caltech256"),
        [
            "model.depths=1,2",
            "model.heads=(3, 6)",
            "optimizer.clip=none",
            "data.augmentation.flip=false",
            "data.augmentation.color_jitter=0.1, 0.1, 0.1, 0",
            "optimizer.name=adam",
            "seeds=4",
            "budget=1e4",
        ],
    )
    assert spec.model.depths == (1, 2)
    assert spec.model.heads == (3, 6)
    assert spec.optimizer.clip is None
    assert spec.data.augmentation.flip is False
    assert spec.data.augmentation.color_jitter == (0.1, 0.1, 0.1, 0.0)
    assert (spec.optimizer.name, spec.seeds, spec.budget) == ("adam", (4,), 10_000)
    assert override(spec, ["data.augmentation=none"]).data.augmentation is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("optimizer.lrr=1", "no setting 'optimizer.lrr'; did you mean 'optimizer.lr'?"),
        ("optimiser.lr=1", "did you mean 'optimizer.lr'?"),
        ("budgte=1", "did you mean 'budget'?"),
        ("budget.x=1", "no setting 'budget.x'"),
        ("optimizer=adam", "a group of settings; give one of optimizer.name, optimizer.lr"),
        ("optimizer.name=adamx", "must be 'adam' or 'adamw', got 'adamx'; did you mean 'adam'?"),
        ("optimizer.lr=fast", "optimizer.lr must be a number, got 'fast'"),
        ("optimizer.lr=nan", "must be a number"),
        ("optimizer.lr=inf", "must be a number"),
        ("optimizer.lr=none", "must be a number"),
        ("budget=2.5", "must be a whole number"),
        ("budget=0", "budget must be at least 1"),
        ("drop_last=yes", "must be true or false"),
        ("seeds=", "needs 1 value"),
        ("seeds=-1", "at least 0"),
        ("model.layers", "reads name=value"),
        ("span_corruption.noise_density=0.2", "no setting 'span_corruption.noise_density'"),
        ("span_corruption=0.2", "absent in this experiment"),
        ("schedule.min_lr=1", "between 0 and optimizer.lr"),
        ("data.length=512", "exceeds model.context"),
        ("model.heads=7", "not a multiple of model.heads"),
        ("label_smoothing=0.1", "is for classification"),
        ("objective=classification", "does not go with Llama on text"),
        ("data.held_out_documents=10", "set data.streaming=false"),
    ],
)
def test_a_wrong_setting_is_a_sentence(setting, message):
    with pytest.raises(ValueError, match=".") as caught:
        override(find("llama60m-c4"), [setting])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.image=32", "must be the same"),
        ("model.patch=15", "not a multiple of model.patch"),
        ("data.augmentation.scale=0.5", "needs 2 values"),
        ("data.augmentation.crop=300", "exceeds resize"),
        ("data.augmentation.random_erasing=2", "must lie in 0 to 1"),
        ("label_smoothing=1", "below 1"),
    ],
)
def test_a_wrong_vision_setting_is_a_sentence(setting, message):
    with pytest.raises(ValueError, match=message):
        override(find("vitb16-cifar100"), [setting])


def test_settings_that_fit_only_together_may_be_given_together():
    assert override(find("vitb16-cifar100"), ["model.image=32", "data.augmentation.crop=32"]).model.image == 32


def test_an_unknown_experiment_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'llama60m-c4'"):
        find("lama60m-c4")
    with pytest.raises(ValueError, match="`oneclock lab experiments` lists them"):
        find("xyz")


def test_experiments_do_not_import_torch():
    code = "import sys, oneclock.lab.experiments; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
