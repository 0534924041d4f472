"""A rehearsal: two real steps at an experiment's shape, without its data."""

import json

import pytest
import torch
from small_data import SETTINGS

from oneclock.cli import main
from oneclock.lab.data.synthetic import SyntheticTask
from oneclock.lab.experiments import EXPERIMENTS, find, override
from oneclock.lab.training.rehearse import rehearse


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_makes_two_steps_without_data(name):
    spec = override(find(name), SETTINGS[name])
    found = rehearse(spec)
    assert len(found.losses) == 2
    assert all(0 < loss < 20 for loss in found.losses)
    assert found.losses[0] != found.losses[1]
    assert found.peak_bytes > 10 * found.parameters
    assert found.seconds > 0
    assert found.per_step == spec.batch_size * spec.accumulate * (spec.data.length if found.unit == "tokens" else 1)


FULL = {
    "nanogpt-wikitext103": (262_144, {"input_ids": (8, 256), "labels": (8, 256)}),
    "nanogpt-openwebtext": (262_144, {"input_ids": (8, 256), "labels": (8, 256)}),
    "llama60m-c4": (131_072, {"input_ids": (64, 256), "labels": (64, 256), "attention_mask": (64, 256)}),
    "llama60m-slimpajama": (131_072, {"input_ids": (64, 256), "labels": (64, 256), "attention_mask": (64, 256)}),
    "vitb16-cifar100": (128, {"images": (128, 3, 224, 224), "labels": (128,)}),
    "vitb16-tinyimagenet": (128, {"images": (128, 3, 224, 224), "labels": (128,)}),
    "resnet50-food101": (128, {"images": (128, 3, 224, 224), "labels": (128,)}),
    "resnet50-imagenet100": (128, {"images": (128, 3, 224, 224), "labels": (128,)}),
    "efficientnetb0-cars": (64, {"images": (64, 3, 224, 224), "labels": (64,)}),
    "t5small-bookcorpus": (16_384, {"input_ids": (8, 232), "labels": (8, 52), "attention_mask": (8, 232)}),
    "swint-caltech256": (64, {"images": (64, 3, 224, 224), "labels": (64,)}),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_full_shape_is_the_experiments(name):
    task = SyntheticTask(find(name))
    per_step, shapes = FULL[name]
    assert task.per_step == per_step
    assert {key: tuple(value.shape) for key, value in task.batch(1, 0, 0).items()} == shapes


def test_the_command_says_what_the_budget_would_need(capsys):
    settings = [word for setting in SETTINGS["t5small-bookcorpus"] for word in ("--set", setting)]
    for arguments in ([], ["--json"]):
        with pytest.raises(SystemExit) as stopped:
            main(["lab", "experiments", "t5small-bookcorpus", "--rehearse", *settings, *arguments])
        assert not stopped.value.code
    text, _, rest = capsys.readouterr().out.partition("{")
    assert "128 tokens in" in text
    assert "6 steps, 768 tokens" in text
    assert "GB at most" in text
    assert json.loads("{" + rest)["unit"] == "tokens"


@pytest.mark.parametrize(("name", "size", "advice"), [
    ("vitb16-cifar100", 10**15, f"--set batch_size={10**15 // 2} --set accumulate=2, as many examples an update"),
    ("nanogpt-wikitext103", 10**15 + 1, f"--set batch_size=1 --set accumulate={2 * (10**15 + 1)}"),
])  # fmt: skip
def test_what_does_not_fit_is_one_line_with_smaller_passes(name, size, advice, capsys):
    """More than any address space holds, so that every system refuses it."""
    settings = [word for setting in [*SETTINGS[name], f"batch_size={size}"] for word in ("--set", setting)]
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "experiments", name, "--rehearse", *settings])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err.count("\n")) == (2, "", 1)
    assert f"{name} does not fit into memory with {size} examples a forward pass" in err
    assert advice in err


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    spec = override(find("swint-caltech256"), [*SETTINGS["swint-caltech256"], "data.augmentation.crop=1"])
    with pytest.raises(RuntimeError, match="Kernel size"):
        rehearse(spec)


def test_it_repeats_itself():
    """The same rehearsal gives the same losses."""
    spec = override(find("vitb16-cifar100"), SETTINGS["vitb16-cifar100"])
    torch.manual_seed(5)
    assert rehearse(spec).losses == rehearse(spec).losses
