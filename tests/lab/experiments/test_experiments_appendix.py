"""The specs against the appendix "Experimental Details", typed again from the paper."""

import pytest

from oneclock.lab.experiments import AS_PRINTED, EXPERIMENTS, NOTES, check_experiment, settings_of
from oneclock.lab.experiments.published import PUBLISHED

# One entry per sentence of the appendix that gives a figure; what it does not mention is not here.
NANOGPT = {
    "model.vocabulary": 50304,
    "model.context": 256,
    "model.layers": 6,
    "model.heads": 6,
    "model.width": 384,
    "model.dropout": 0.2,
    "data.length": 256,
    "data.tokenizer": "gpt2",
    "batch_size": 8,
    "accumulate": 128,
    "budget": 10000,
    "optimizer.name": "adamw",
    "optimizer.weight_decay": 0.01,
    "optimizer.decay": "weights",
    "optimizer.lr": 6e-4,
    "schedule.min_lr": 6e-6,
    "schedule.warmup_steps": 2000,
    "schedule.warmup_share": 0.0,
    "optimizer.clip": 1.0,
    "data.examples": "blocks",
    "evaluation.every": 500,
    "evaluation.at_start": False,
    "evaluation.batches": 50,
    "evaluation.draw": "once",
    "evaluation.train_loss": "fixed",
    "objective": "next-token",
    "label_smoothing": 0.0,
    "split": "development",
    "seeds": (1, 2, 3),
}
LLAMA = {
    "model.width": 512,
    "model.layers": 8,
    "model.heads": 8,
    "model.intermediate": 1376,
    "data.tokenizer": "t5-base",
    "data.length": 256,
    "batch_size": 64,
    "accumulate": 8,
    "budget": 10000,
    "optimizer.name": "adam",
    "optimizer.weight_decay": 1e-5,
    "optimizer.lr": 1e-3,
    "schedule.min_lr": 1e-4,
    "schedule.warmup_steps": 1000,
    "schedule.warmup_share": 0.0,
    "optimizer.clip": None,
    "evaluation.every": 1000,
    "evaluation.at_start": True,
    "evaluation.tokens": 10**7,
    "objective": "next-token",
    "label_smoothing": 0.0,
    "split": "development",
    "seeds": (1, 2, 3),
}
VISION = {
    "data.augmentation.crop": 224,
    "data.augmentation.resize": 256,
    "data.augmentation.flip": True,
    "objective": "classification",
    "accumulate": 1,
    "seeds": (1, 2, 3),
}
RESNET = VISION | {
    "model.blocks": (3, 4, 6, 3),
    "model.head_dropout": 0.2,
    "batch_size": 128,
    "optimizer.name": "adamw",
    "optimizer.weight_decay": 0.01,
    "optimizer.decay": "weights",
    "optimizer.lr": 3e-4,
    "optimizer.clip": None,
    "schedule.min_lr": 3e-5,
    "schedule.warmup_steps": 0,
    "schedule.warmup_share": 0.05,
    "label_smoothing": 0.1,
    "data.augmentation.scale": (0.6, 1.0),
    "data.augmentation.color_jitter": (0.2, 0.2, 0.2, 0.1),
    "data.augmentation.rand_augment": None,
    "data.augmentation.random_erasing": 0.0,
    "split": "development",
}
VIT = VISION | {
    "model.image": 224,
    "model.patch": 16,
    "model.layers": 12,
    "model.width": 768,
    "batch_size": 128,
    "optimizer.name": "adamw",
    "optimizer.weight_decay": 0.1,
    "optimizer.decay": "weights",
    "optimizer.lr": 5e-4,
    "optimizer.clip": 1.0,
    "schedule.min_lr": 5e-6,
    "schedule.warmup_steps": 1000,
    "schedule.warmup_share": 0.0,
    "label_smoothing": 0.1,
    "data.augmentation.scale": (0.5, 1.0),
    "data.augmentation.color_jitter": None,
    "data.augmentation.rand_augment": (2, 12),
    "data.augmentation.random_erasing": 0.25,
    "split": "development",
}
APPENDIX = {
    "nanogpt-wikitext103": NANOGPT | {"data.source": "wikitext103", "t_es": 6000},
    "nanogpt-openwebtext": NANOGPT | {"data.source": "openwebtext", "t_es": 10000},
    "llama60m-c4": LLAMA | {"data.source": "c4", "data.streaming": True, "t_es": 10000},
    "llama60m-slimpajama": LLAMA | {"data.source": "slimpajama6b", "t_es": 10000},
    "vitb16-cifar100": VIT
    | {"data.source": "cifar100", "model.classes": 100, "evaluation.every": 390, "budget": 19500, "t_es": 20000},
    "vitb16-tinyimagenet": VIT
    | {"data.source": "tinyimagenet", "model.classes": 200, "evaluation.every": 781, "budget": 39050, "t_es": 30000},
    "resnet50-food101": RESNET
    | {"data.source": "food101", "model.classes": 101, "evaluation.every": 591, "budget": 29550, "t_es": 30000},
    "resnet50-imagenet100": RESNET
    | {"data.source": "imagenet100", "model.classes": 100, "evaluation.every": 1015, "budget": 81200, "t_es": 40000},
    "efficientnetb0-cars": VISION
    | {
        "data.source": "cars",
        "model.classes": 196,
        "model.width_multiplier": 1.0,
        "model.depth_multiplier": 1.0,
        "batch_size": 64,
        "evaluation.every": 128,
        "budget": 12800,
        "drop_last": False,
        "optimizer.name": "adam",
        "optimizer.weight_decay": 5e-5,
        "optimizer.lr": 8e-4,
        "optimizer.clip": 1.0,
        "schedule.min_lr": 1e-5,
        "schedule.warmup_steps": 100,
        "schedule.warmup_share": 0.05,
        "label_smoothing": 0.05,
        "data.augmentation.scale": (0.7, 1.0),
        "data.augmentation.ratio": (0.85, 1.15),
        "data.augmentation.rand_augment": (1, 7),
        "data.augmentation.random_erasing": 0.1,
        "split": "heldout",
        "t_es": 10000,
    },
    "t5small-bookcorpus": {
        "model.checkpoint": "t5-small",
        "data.source": "bookcorpus",
        "data.held_out_documents": 20000,
        "data.tokenizer": "t5-small",
        "data.length": 256,
        "objective": "span-corruption",
        "span_corruption.noise_density": 0.15,
        "span_corruption.mean_span_length": 3.0,
        "batch_size": 8,
        "accumulate": 8,
        "budget": 10000,
        "evaluation.batch_size": 8,
        "evaluation.every": 1000,
        "evaluation.batches": None,
        "evaluation.tokens": None,
        "optimizer.name": "adamw",
        "optimizer.weight_decay": 0.01,
        "optimizer.lr": 1e-4,
        "optimizer.clip": 1.0,
        "schedule.min_lr": 1e-5,
        "schedule.warmup_steps": 0,
        "schedule.warmup_share": 0.1,
        "label_smoothing": 0.0,
        "split": "heldout",
        "seeds": (1,),
        "t_es": 10000,
    },
    "swint-caltech256": VISION
    | {
        "data.source": "caltech256",
        "data.split_seed": 123,
        "data.train_per_class": 60,
        "model.width": 96,
        "model.depths": (2, 2, 6, 2),
        "batch_size": 64,
        "evaluation.every": 376,
        "budget": 22560,
        "optimizer.name": "adamw",
        "optimizer.weight_decay": 0.05,
        "optimizer.lr": 4e-4,
        "optimizer.clip": 1.0,
        "schedule.min_lr": 4e-6,
        "schedule.warmup_steps": 100,
        "schedule.warmup_share": 0.05,
        "label_smoothing": 0.1,
        "data.augmentation.scale": (0.5, 1.0),
        "data.augmentation.rand_augment": (2, 12),
        "data.augmentation.random_erasing": 0.25,
        "split": "heldout",
        "t_es": 20000,
    },
}
PRINTED = {one.name.removesuffix("-as-printed"): one for one in AS_PRINTED}
EPOCHS = {
    "resnet50-food101": 50,
    "resnet50-imagenet100": 80,
    "vitb16-cifar100": 50,
    "vitb16-tinyimagenet": 50,
    "efficientnetb0-cars": 100,
    "swint-caltech256": 60,
}
TOKENS_PER_STEP = {
    "llama60m-c4": 131072,
    "llama60m-slimpajama": 131072,
    "nanogpt-openwebtext": 262144,
    "nanogpt-wikitext103": 262144,
}
TRAINING_IMAGES = {
    "resnet50-food101": 75750,
    "resnet50-imagenet100": 130000,
    "vitb16-cifar100": 50000,
    "vitb16-tinyimagenet": 100000,
    "efficientnetb0-cars": 8144,
}


def test_there_are_the_eleven_in_the_order_of_the_tables():
    assert [one.name for one in PUBLISHED] == list(APPENDIX)
    assert [EXPERIMENTS[one.name] for one in PUBLISHED] == list(PUBLISHED)
    assert [one.split for one in PUBLISHED] == ["development"] * 8 + ["heldout"] * 3


@pytest.mark.parametrize("name", APPENDIX)
def test_settings_are_those_of_the_appendix(name):
    settings = settings_of(PRINTED.get(name, EXPERIMENTS[name]))
    assert {key: settings[key] for key in APPENDIX[name]} == APPENDIX[name]


CONTRADICTED = {
    "nanogpt-wikitext103": {"data.examples", "evaluation.at_start", "evaluation.draw"},
    "nanogpt-openwebtext": {"data.examples", "evaluation.at_start", "evaluation.draw"},
    "swint-caltech256": {"data.train_per_class"},
}


def test_where_text_and_code_contradict_each_other_both_exist():
    assert PRINTED.keys() == CONTRADICTED.keys()


@pytest.mark.parametrize("name", CONTRADICTED)
def test_what_is_printed_differs_from_what_was_run_in_nothing_else(name):
    run, printed = settings_of(EXPERIMENTS[name]), settings_of(PRINTED[name])
    assert {key for key in run if run[key] != printed[key]} == {"name", "title", *CONTRADICTED[name]}
    assert check_experiment(PRINTED[name]) is PRINTED[name]
    assert NOTES[f"{name}-as-printed"]


@pytest.mark.parametrize("name", EPOCHS)
def test_budget_is_epochs_times_batches_and_evaluation_comes_once_per_epoch(name):
    assert EXPERIMENTS[name].budget == EPOCHS[name] * EXPERIMENTS[name].evaluation.every


@pytest.mark.parametrize("name", TRAINING_IMAGES)
def test_the_number_of_batches_follows_from_the_size_of_the_data(name):
    spec = EXPERIMENTS[name]
    whole, rest = divmod(TRAINING_IMAGES[name], spec.batch_size)
    assert spec.evaluation.every == whole + (rest > 0 and not spec.drop_last)


@pytest.mark.parametrize("name", TOKENS_PER_STEP)
def test_tokens_per_step(name):
    spec = EXPERIMENTS[name]
    assert spec.batch_size * spec.accumulate * spec.data.length == TOKENS_PER_STEP[name]


def test_effective_batch_of_t5():
    assert EXPERIMENTS["t5small-bookcorpus"].batch_size * EXPERIMENTS["t5small-bookcorpus"].accumulate == 64


@pytest.mark.parametrize("name", APPENDIX)
def test_each_fits_together_and_has_notes(name):
    assert check_experiment(EXPERIMENTS[name]) is EXPERIMENTS[name]
    assert NOTES[name]
