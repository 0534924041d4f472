"""Each of the eleven trains, is killed with SIGKILL and resumes to the identical curve; each decays what it should."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_data import small

from oneclock.lab import models
from oneclock.lab.experiments import EXPERIMENTS
from oneclock.lab.training import train
from oneclock.lab.training.optimizer import optimizer_for
from oneclock.runs.folder import RunFolder


class KilledAt:
    """Asked between steps whether to stop: at the `step`-th question it kills the process instead."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self) -> bool:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return False


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_trains_is_killed_and_resumes(
    name: str, tmp_path: Path, in_child: Callable[[Callable[[], object]], int]
) -> None:
    data = tmp_path / "data"
    experiment = small(name, data)
    result = train(experiment, 0.9, 1, tmp_path / "whole", data_dir=data)
    assert (result.status, result.steps) == ("finished", experiment.budget)
    points = RunFolder.read(tmp_path / "whole").points()
    assert [point.step for point in points] == ([1, 3, 6] if experiment.evaluation.at_start else [3, 6])
    assert experiment.evaluation.at_start == name.startswith(("nanogpt", "llama"))
    assert all(point.train_loss > 0 and point.val_loss > 0 for point in points)

    def killed() -> None:
        train(experiment, 0.9, 1, tmp_path / "killed", data_dir=data, checkpoint_every=2, stop=KilledAt(5))

    assert in_child(killed) == -signal.SIGKILL
    assert [path.name.split("-")[1] for path in (tmp_path / "killed/checkpoint").iterdir()] == ["4"]
    assert train(experiment, 0.9, 1, tmp_path / "killed", data_dir=data).status == "finished"
    assert (tmp_path / "killed/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()


# The parameters that decay, of the experiments where weights alone do; everything else must not.
DECAYING = {
    "nanogpt": r"transformer\.(wte|wpe|h\.\d+\.(attn|mlp)\.c_\w+)\.weight",
    "vitb16": r"class_token|encoder\.pos_embedding|conv_proj\.weight|heads\..*weight"
    r"|encoder\.layers\.\w+\.(self_attention\.(in_proj_weight|out_proj\.weight)|mlp\.\d\.weight)",
    "resnet50": r"(layer\d\.\d\.)?conv\d\.weight|layer\d\.0\.downsample\.0\.weight|fc\..*weight",
    "swint": r"features\.0\.0\.weight|features\.\d\.\d\.(attn\.(qkv|proj)|mlp\.\d)\.weight"
    r"|features\.\d\.reduction\.weight|head\.weight|features\.\d\.\d\.attn\.relative_position_bias_table",
    "t5small": r"shared\.weight|lm_head\.weight|\w+\.block\.\d\.layer\.\d\.\w+\.(q|k|v|o|wi|wo)\.weight"
    r"|\w+\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.weight",
}
ALL_DECAY = {"llama60m-c4", "llama60m-slimpajama", "efficientnetb0-cars"}
TABLES = {"t5small-bookcorpus": (2, 2 * 32 * 8), "swint-caltech256": (12, 23_322)}
"""Tables of positions, which decay as matrices do: how many, and their values."""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_decay_groups(name: str) -> None:
    experiment = EXPERIMENTS[name]
    if name == "t5small-bookcorpus":
        from dataclasses import replace

        experiment = replace(experiment, model=replace(experiment.model, checkpoint=None))
    with torch.device("meta"):
        model = models.build(experiment.model)
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    groups = optimizer_for(model, experiment.optimizer, 0.9).param_groups
    decay = experiment.optimizer.weight_decay
    got = {key: group["weight_decay"] for group in groups for key in (names[id(p)] for p in group["params"])}
    if name in ALL_DECAY:
        wanted = dict.fromkeys(names.values(), decay)
    else:
        pattern = re.compile(DECAYING[name.split("-")[0]])
        wanted = {key: decay if pattern.fullmatch(key) else 0.0 for key in names.values()}
    assert got == wanted
    if name in TABLES:
        tables = [value for key, value in model.named_parameters() if "bias_table" in key or "attention_bias" in key]
        assert (len(tables), sum(table.numel() for table in tables)) == TABLES[name]
    assert sum(len(group["params"]) for group in groups) == len(names)


def test_the_record_holds_the_whole_spec(tmp_path: Path) -> None:
    experiment = small("vitb16-cifar100", tmp_path / "data")
    train(experiment, (0.9, 0.999), 3, tmp_path / "run", data_dir=tmp_path / "data")
    header = json.loads((tmp_path / "run/run.json").read_text())
    assert (header["experiment"], header["beta"], header["seed"]) == ("vitb16-cifar100", [0.9, 0.999], 3)
    assert header["spec"]["data"]["augmentation"]["crop"] == 32
    assert header["spec"]["budget"] == header["budget"] == 6
