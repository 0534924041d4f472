"""Laptop-sized twins of the eleven experiments: the same families, objectives, schedules and decay groups, small.

A twin is a small version of an original. It keeps optimizer and weight decay, warm-up as a share of the budget, floor
as a share of the highest learning rate, clipping, label smoothing, seeds and split. What differs is the size of the
model, the data (which pip brings, no download), batch and budget; where the originals follow the authors' code (random
windows, padded documents, means over batches), the twins follow the paper's text. Budgets are 1,000 to 20,000 steps,
because the question is how the best beta moves with the horizon. Learning rates were set with pilot runs at beta 0.9
and seed 0, before any sweep; `scripts/pilot.py` shows them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from oneclock.lab.experiments.published import PUBLISHED
from oneclock.lab.experiments.spec import (
    GPT2,
    T5,
    Data,
    EfficientNet,
    Evaluation,
    Experiment,
    Images,
    Llama,
    Model,
    ResNet,
    Schedule,
    SpanCorruption,
    Swin,
    Text,
    ViT,
)

_BYTES = 289
"""256 bytes, one end of text, 32 sentinels for span corruption."""

EVALUATIONS = 16
"""The most evaluations of a run, and batches of each: more would cost a small model a tenth of its time."""

FEWER_EVALUATIONS = 10
"""For the three twins for which sixteen batches cost that much."""

EVALUATION_BATCHES = {"bible": 5, "python-library": 5, "digits": 2, "mnist-sample": 5}

_MNIST = Images("mnist-sample", None, mean=(0.13,) * 3, std=(0.31,) * 3, train_per_class=400, shift=2)
_DIGITS = Images("digits", None, mean=(0.3,) * 3, std=(0.38,) * 3, train_per_class=120, shift=1)
_BIBLE = Text("bible", tokenizer="bytes", length=32, held_out_documents=460)
_PYTHON = Text("python-library", tokenizer="bytes", length=32, held_out_documents=60)


def _twin(
    original: str,
    name: str,
    title: str,
    model: Model,
    data: Data,
    *,
    budget: int,
    batch_size: int,
    lr: float,
    evaluations: int = EVALUATIONS,
    decay: Literal["all", "weights"] = "weights",
    drop_last: bool = True,
) -> Experiment:
    of = next(experiment for experiment in PUBLISHED if experiment.name == original)
    evaluations = min(round(of.budget / of.evaluation.every), evaluations)
    language = isinstance(data, Text)
    return replace(
        of,
        name=name,
        title=title,
        model=model,
        data=data,
        optimizer=replace(of.optimizer, lr=lr, decay=decay),
        schedule=Schedule(
            min_lr=lr * of.schedule.min_lr / of.optimizer.lr,
            warmup_share=max(of.schedule.warmup_steps / of.budget, of.schedule.warmup_share),
        ),
        evaluation=Evaluation(
            every=budget // evaluations,
            at_start=isinstance(model, Llama),
            batches=EVALUATION_BATCHES[data.source],
            batch_size=32 if language else 200,
            train_loss="fixed" if isinstance(model, GPT2) else "running",
        ),
        budget=budget,
        batch_size=batch_size,
        accumulate=1,
        drop_last=drop_last,
        span_corruption=SpanCorruption() if isinstance(model, T5) else None,
        seeds=(1, 2, 3),
        t_es=None,
    )


TWINS: tuple[Experiment, ...] = (
    _twin(
        "nanogpt-wikitext103",
        "gpt2-bible",
        "GPT-2 on the King James Bible",
        GPT2(vocabulary=_BYTES, context=32, layers=2, heads=2, width=48),
        _BIBLE,
        budget=2_000,
        batch_size=4,
        lr=5e-3,
        evaluations=FEWER_EVALUATIONS,
    ),
    _twin(
        "nanogpt-openwebtext",
        "gpt2-python",
        "GPT-2 on Python's library",
        GPT2(vocabulary=_BYTES, context=32, layers=2, heads=2, width=48),
        _PYTHON,
        budget=4_000,
        batch_size=4,
        lr=5e-3,
    ),
    _twin(
        "llama60m-c4",
        "llama-bible",
        "Llama on the King James Bible",
        Llama(vocabulary=_BYTES, context=32, layers=2, heads=2, width=48, intermediate=128),
        _BIBLE,
        budget=2_500,
        batch_size=4,
        lr=5e-3,
        decay="all",
    ),
    _twin(
        "llama60m-slimpajama",
        "llama-python",
        "Llama on Python's library",
        Llama(vocabulary=_BYTES, context=32, layers=2, heads=2, width=48, intermediate=128),
        _PYTHON,
        budget=6_000,
        batch_size=4,
        lr=5e-3,
        decay="all",
    ),
    _twin(
        "vitb16-cifar100",
        "vit-digits",
        "ViT on digits",
        ViT(classes=10, image=8, patch=2, layers=2, heads=2, width=32, feed_forward=64),
        _DIGITS,
        budget=4_000,
        batch_size=16,
        lr=4e-3,
    ),
    _twin(
        "vitb16-tinyimagenet",
        "vit-mnist",
        "ViT on the MNIST sample",
        ViT(classes=10, image=28, patch=7, layers=2, heads=2, width=32, feed_forward=64),
        _MNIST,
        budget=20_000,
        batch_size=16,
        lr=3e-3,
    ),
    _twin(
        "resnet50-food101",
        "resnet-digits",
        "ResNet on digits",
        ResNet(classes=10, blocks=(1, 1, 1, 1), width=8, stem="small"),
        _DIGITS,
        budget=1_200,
        batch_size=16,
        lr=7e-3,
    ),
    _twin(
        "resnet50-imagenet100",
        "resnet-mnist",
        "ResNet on the MNIST sample",
        ResNet(classes=10, blocks=(1, 1, 1, 1), width=8),
        _MNIST,
        budget=1_500,
        batch_size=16,
        lr=7e-3,
        evaluations=FEWER_EVALUATIONS,
    ),
    _twin(
        "efficientnetb0-cars",
        "efficientnet-digits",
        "EfficientNet on digits",
        EfficientNet(classes=10, width_multiplier=0.25, depth_multiplier=0.25, stem="small"),
        _DIGITS,
        budget=1_000,
        batch_size=16,
        lr=4e-3,
        decay="all",
        drop_last=False,
    ),
    _twin(
        "t5small-bookcorpus",
        "t5-bible",
        "T5 on the King James Bible",
        T5(checkpoint=None, vocabulary=_BYTES, layers=1, heads=2, width=48, feed_forward=96, head_width=24),
        replace(_BIBLE, length=64),
        budget=1_800,
        batch_size=4,
        lr=3e-3,
        decay="all",
    ),
    _twin(
        "swint-caltech256",
        "swin-mnist",
        "Swin on the MNIST sample",
        Swin(classes=10, patch=4, width=24, depths=(2,), heads=(2,), window=4),
        _MNIST,
        budget=3_000,
        batch_size=16,
        lr=5e-3,
        evaluations=FEWER_EVALUATIONS,
        drop_last=False,
    ),
)


SERIES_BUDGETS = (250, 1_000, 4_000, 16_000)


def _at(twin: str, budget: int) -> Experiment:
    """A twin with another number of steps: same model, data, batch and learning rate, and the schedule rescaled."""
    of = next(experiment for experiment in TWINS if experiment.name == twin)
    return replace(
        of,
        name=f"{of.name}-{budget}",
        title=f"{of.title}, {budget:,} steps",
        evaluation=replace(of.evaluation, every=budget // EVALUATIONS),
        budget=budget,
    )


SERIES: tuple[Experiment, ...] = tuple(
    _at(twin, budget) for budget in SERIES_BUDGETS for twin in ("llama-bible", "vit-digits")
)
"""The controlled series: one language and one vision twin at several horizons; nothing else differs."""


FASHION_BUDGETS = {"vit": (2_000, 10_000), "swin": (2_000, 6_000), "resnet": (2_000, 6_000)}
_FASHION = Images("fashion-mnist", None, mean=(0.29,) * 3, std=(0.35,) * 3, train_per_class=2_000, shift=2)


def _on_fashion(family: str, budget: int) -> Experiment:
    """The MNIST twin of a family on Fashion-MNIST, with the same model, batch and learning rate."""
    of = _at(f"{family}-mnist", budget)
    return replace(
        of,
        name=f"{family}-fashion-{budget}",
        title=of.title.replace("the MNIST sample", "Fashion-MNIST"),
        split="heldout",
        data=_FASHION,
        evaluation=replace(of.evaluation, every=budget // FEWER_EVALUATIONS),
    )


FASHION: tuple[Experiment, ...] = tuple(
    _on_fashion(family, budget) for family, budgets in FASHION_BUDGETS.items() for budget in budgets
)
"""New data, to test the results of the other studies: all held out, and nothing tuned on them."""
