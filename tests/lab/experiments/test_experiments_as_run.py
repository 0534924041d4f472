"""The specs against what the authors' public code runs, typed again from a reading of it, difference by difference.

What a batch, an evaluation, an update or a rate is then like is in tests/lab/training/test_training_as_run,
test_training_eleven and test_training_schedule, and in tests/lab/data.
"""

import math

import pytest

from oneclock.lab.experiments import EXPERIMENTS, settings_of
from oneclock.lab.paper.published import losses_study
from oneclock.rule import GRID
from oneclock.runs.protocols import Paper

NANOGPT = {
    "data.examples": "windows",
    "data.separate": False,
    "evaluation.draw": "anew",
    "evaluation.at_start": True,
    "evaluation.batches": 50,
    "evaluation.train_loss": "fixed",
    "schedule.phase": "open",
    "optimizer.decay": "weights",
    "drop_last": True,
}
LLAMA = {
    "data.examples": "documents",
    "data.order_seed": 42,
    "model.vocabulary": 32_100,
    "model.padding": 0,
    "schedule.phase": "late",
    "evaluation.at_start": True,
    "evaluation.tokens": 10_000_000,
    "evaluation.mean": "tokens",
    "evaluation.train_loss": "last",
    "optimizer.decay": "all",
}
VISION = {"schedule.phase": "open", "evaluation.mean": "batches", "evaluation.train_loss": "running"}
IMAGENET = {"data.mean": (0.485, 0.456, 0.406), "data.std": (0.229, 0.224, 0.225)}
ERASING = {
    "data.augmentation.random_erasing": 0.25,
    "data.augmentation.erasing_area": (0.02, 0.2),
    "data.augmentation.erasing_aspect": (0.3, 3.3),
    "data.augmentation.erasing_fill": "noise",
}
RESNET = VISION | IMAGENET | {"data.augmentation.random_erasing": 0.0, "optimizer.decay": "weights", "drop_last": True}
AS_RUN = {
    "nanogpt-wikitext103": NANOGPT,
    "nanogpt-openwebtext": NANOGPT
    | {"data.held_out_share": 0.001, "data.held_out_by": "permuted", "data.split_seed": 123_456},
    "llama60m-c4": LLAMA | {"data.streaming": True},
    "llama60m-slimpajama": LLAMA | {"data.streaming": False},
    "vitb16-cifar100": VISION
    | ERASING
    | {
        "data.mean": (0.5071, 0.4867, 0.4408),
        "data.std": (0.2675, 0.2565, 0.2761),
        "optimizer.decay": "weights",
        "drop_last": True,
    },
    "vitb16-tinyimagenet": VISION | ERASING | IMAGENET | {"optimizer.decay": "weights", "drop_last": True},
    "resnet50-food101": RESNET,
    "resnet50-imagenet100": RESNET,
    "efficientnetb0-cars": VISION
    | IMAGENET
    | {
        "data.augmentation.color_jitter": (0.2, 0.2, 0.15, 0.03),
        "data.augmentation.random_erasing": 0.1,
        "data.augmentation.erasing_area": (0.02, 0.12),
        "data.augmentation.erasing_aspect": (0.5, 2.0),
        "data.augmentation.erasing_fill": "noise",
        "optimizer.decay": "all",
        "drop_last": False,
    },
    "t5small-bookcorpus": {
        "data.examples": "rows",
        "data.shortest": 8,
        "data.held_out_by": "first",
        "data.held_out_documents": 20_000,
        "span_corruption.mask_by": "row",
        "optimizer.decay": "matrices",
        "schedule.phase": "open",
        "evaluation.mean": "targets",
        "evaluation.train_loss": "targets",
        "seeds": (1,),
    },
    "swint-caltech256": VISION
    | ERASING
    | IMAGENET
    | {
        "data.train_per_class": None,
        "data.leave_out": ("clutter",),
        "model.classes": 256,
        "optimizer.decay": "matrices",
        "drop_last": True,
    },
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_are_those_that_were_run(name):
    settings = settings_of(EXPERIMENTS[name])
    assert {key: settings[key] for key in AS_RUN[name]} == AS_RUN[name]


def test_the_betas_with_three_seeds_are_the_neighbours_whose_first_losses_have_the_smallest_sum():
    """In all ten; those around the best, or the strict five best, are others in five and in two."""
    kept = {"neighbours": 0, "window": 0, "top_k": 0}
    for sweep in losses_study().sweeps:
        first = {run.tied_beta: run.loss for run in sweep.tied if run.seed == 1}
        three = [beta for beta in GRID if sum(run.tied_beta == beta for run in sweep.tied) == 3]
        runs_of_five = [list(GRID[start : start + 5]) for start in range(len(GRID) - 4)]
        chosen = {second: sorted(Paper(second_stage=second).kept(first)) for second in ("window", "top_k")}
        chosen["neighbours"] = min(runs_of_five, key=lambda betas: sum(first.get(beta, math.inf) for beta in betas))
        for second, betas in chosen.items():
            kept[second] += bool(three) and betas == three
    assert kept == {"neighbours": 10, "window": 5, "top_k": 8}
