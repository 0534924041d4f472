"""The joint study: beta and learning rate tuned together, at several horizons.

Three tasks of the twins' families with larger batches, contexts and validation sets: two of language (byte-level Llama
on the King James Bible, GPT-2 on Python's library) and one of vision (ViT on Fashion-MNIST). A horizon rescales the
schedule and the learning rate at which the search starts; the search moves both beta and learning rate. One more series
keeps the steps and varies the batch: does beta depend on steps, or on tokens?
"""

from __future__ import annotations

from dataclasses import replace

from oneclock.lab.experiments.laptop import TWINS
from oneclock.lab.experiments.spec import GPT2, Data, Experiment, Images, Llama, Model, Text, ViT

EVALUATIONS = 5
"""Evaluations of a run. The schedule ends low, so the last one is nearly always the best."""

RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Factors on the learning rate at which a search starts; 16 was added when two sweeps had their best pair at 8."""

_LENGTH, _BATCH = 64, 8
_BIBLE = Text("bible", tokenizer="bytes", length=_LENGTH, held_out_documents=2_000)
_PYTHON = Text("python-library", tokenizer="bytes", length=_LENGTH, held_out_documents=60)
_FASHION = Images("fashion-mnist", None, mean=(0.29,) * 3, std=(0.35,) * 3, train_per_class=5_000, shift=2)
_BYTES = TWINS[0].model.vocabulary  # type: ignore[union-attr]

_LLAMA = Llama(vocabulary=_BYTES, context=_LENGTH, layers=2, heads=2, width=48, intermediate=128)
_GPT2 = GPT2(vocabulary=_BYTES, context=_LENGTH, layers=2, heads=2, width=48, dropout=0.0)
_VIT = ViT(classes=10, image=28, patch=7, layers=2, heads=2, width=32, feed_forward=64)

BUDGETS = {"llama": (250, 1_000, 4_000, 16_000, 64_000), "gpt2": (250, 1_000, 4_000), "vit": (250, 1_000, 4_000)}
BATCHES = (2, 32)
"""Batches beside the task's own 8, at 1,000 steps."""

_START = {
    "llama": {250: 4e-3, 1_000: 3e-3, 4_000: 2e-3, 16_000: 1.2e-3, 64_000: 8e-4},
    "gpt2": {250: 4e-3, 1_000: 3e-3, 4_000: 2e-3},
    "vit": {250: 3e-3, 1_000: 2e-3, 4_000: 1e-3},
}


_TASKS: dict[str, tuple[str, Model, Data, int, str]] = {
    "llama": ("llama-bible", _LLAMA, _BIBLE, _BATCH, "Llama on the King James Bible"),
    "gpt2": ("gpt2-python", _GPT2, _PYTHON, _BATCH, "GPT-2 on Python's library"),
    "vit": ("vit-mnist", _VIT, _FASHION, 32, "ViT on Fashion-MNIST"),
}
"""Family -> the twin that it is made from, model, data, batch, and its name."""


def _joint(family: str, budget: int, batch_size: int | None = None) -> Experiment:
    twin, model, data, batch, title = _TASKS[family]
    of = next(experiment for experiment in TWINS if experiment.name == twin)
    lr = _START[family][budget]
    floor = of.schedule.min_lr / of.optimizer.lr
    held_out = family == "gpt2" or budget > 4_000
    batches, evaluated = (50, 200) if family == "vit" else (96, 32)
    return replace(
        of,
        name=f"joint-{family}-{budget}" if batch_size is None else f"joint-{family}-b{batch_size}-{budget}",
        title=f"{title}, {budget:,} steps" + ("" if batch_size is None else f", batch {batch_size}"),
        split="heldout" if held_out or batch_size is not None else "development",
        model=model,
        data=data,
        optimizer=replace(of.optimizer, lr=lr),
        schedule=replace(of.schedule, min_lr=lr * floor),
        evaluation=replace(
            of.evaluation, every=budget // EVALUATIONS, at_start=False, batches=batches, batch_size=evaluated
        ),
        budget=budget,
        batch_size=batch_size or batch,
    )


JOINT: tuple[Experiment, ...] = (
    *(_joint(family, 250) for family in BUDGETS),
    *(_joint(family, 1_000) for family in ("llama", "vit")),
    *(_joint(family, 4_000) for family in ("llama", "vit")),
    *(_joint("gpt2", budget) for budget in (1_000, 4_000)),
    *(_joint("llama", 1_000, batch) for batch in BATCHES),
    *(_joint("llama", budget) for budget in (16_000, 64_000)),
)
"""Short horizons first, and tasks that choose the rule before tasks that test it: so a stopped study is still
useful.
"""
