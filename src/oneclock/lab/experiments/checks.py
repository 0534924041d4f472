"""Checks beyond the types of a spec: values in range, and parts that fit each other."""

from __future__ import annotations

from collections.abc import Iterator

from oneclock.lab.experiments.spec import GPT2, T5, Experiment, Images, Llama, SpanCorruption, Swin, Text, ViT

_Complaints = Iterator[tuple[bool, str]]


def check_experiment(experiment: Experiment) -> Experiment:
    """The experiment itself if its values are possible and fit each other, else a ValueError about the first problem.

    >>> from dataclasses import replace
    >>> from oneclock.lab.experiments import find
    >>> check_experiment(replace(find("vitb16-cifar100"), budget=0))
    Traceback (most recent call last):
    ValueError: vitb16-cifar100: budget must be at least 1, not 0
    """
    for rules in (_sizes, _optimization, _fit, _language, _vision):
        for good, complaint in rules(experiment):
            if not good:
                raise ValueError(f"{experiment.name}: {complaint}")
    return experiment


def _sizes(spec: Experiment) -> _Complaints:
    plan = spec.evaluation
    counts = {
        "budget": spec.budget,
        "batch_size": spec.batch_size,
        "accumulate": spec.accumulate,
        "evaluation.every": plan.every,
        "evaluation.batches": plan.batches,
        "evaluation.tokens": plan.tokens,
        "evaluation.batch_size": plan.batch_size,
    }
    for name, value in counts.items():
        yield value is None or value >= 1, f"{name} must be at least 1, not {value}"
    yield (
        bool(spec.seeds) and min(spec.seeds) >= 0,
        f"seeds must be one or more numbers of at least 0, not {spec.seeds}",
    )


def _optimization(spec: Experiment) -> _Complaints:
    optimizer, schedule = spec.optimizer, spec.schedule
    yield optimizer.lr > 0, f"optimizer.lr must be above 0, not {optimizer.lr}"
    yield (
        0 <= schedule.min_lr <= optimizer.lr,
        (f"schedule.min_lr must lie between 0 and optimizer.lr ({optimizer.lr}), not at {schedule.min_lr}"),
    )
    yield optimizer.weight_decay >= 0, f"optimizer.weight_decay must be at least 0, not {optimizer.weight_decay}"
    yield optimizer.clip is None or optimizer.clip > 0, f"optimizer.clip must be above 0 or none, not {optimizer.clip}"
    yield schedule.warmup_steps >= 0, f"schedule.warmup_steps must be at least 0, not {schedule.warmup_steps}"
    yield 0 <= schedule.warmup_share <= 1, f"schedule.warmup_share must lie in 0 to 1, not at {schedule.warmup_share}"
    yield 0 <= spec.label_smoothing < 1, f"label_smoothing must be at least 0 and below 1, not {spec.label_smoothing}"


def _fit(spec: Experiment) -> _Complaints:
    suits = {
        "classification": isinstance(spec.data, Images) and not isinstance(spec.model, GPT2 | Llama | T5),
        "next-token": isinstance(spec.data, Text) and isinstance(spec.model, GPT2 | Llama),
        "span-corruption": isinstance(spec.data, Text) and isinstance(spec.model, T5),
    }
    model, data = type(spec.model).__name__, type(spec.data).__name__.lower()
    yield suits[spec.objective], f"the objective {spec.objective!r} does not go with {model} on {data}"
    smoothed = spec.label_smoothing > 0
    yield spec.objective == "classification" or not smoothed, "label_smoothing is for classification: set it to 0"


def _language(spec: Experiment) -> _Complaints:
    if not isinstance(spec.data, Text):
        return
    yield spec.data.length >= 2, f"data.length must be at least 2, not {spec.data.length}"
    held_out = spec.data.held_out_documents
    yield held_out is None or held_out >= 1, f"data.held_out_documents must be at least 1 or none, not {held_out}"
    yield from _held_out(spec.data)
    yield from _examples(spec)
    if isinstance(spec.model, GPT2 | Llama):
        width, heads, context = spec.model.width, spec.model.heads, spec.model.context
        yield spec.data.length <= context, f"data.length {spec.data.length} exceeds model.context {context}"
        yield width % heads == 0, f"model.width {width} is not a multiple of model.heads {heads}"
    noise = spec.span_corruption or SpanCorruption()
    yield 0 < noise.noise_density < 1, f"span_corruption.noise_density must lie in 0 to 1, not at {noise.noise_density}"
    yield (
        noise.mean_span_length >= 1,
        f"span_corruption.mean_span_length must be 1 or more, not {noise.mean_span_length}",
    )


def _held_out(data: Text) -> _Complaints:
    count, share = data.held_out_documents, data.held_out_share
    yield count is None or share is None, "data.held_out_documents and data.held_out_share: give one of them"
    yield share is None or 0 < share < 1, f"data.held_out_share must lie in 0 to 1 or be none, not {share}"
    endless = data.streaming and (count or share) is not None
    yield not endless, "data.held_out_documents are drawn from the whole source: set data.streaming=false"


def _examples(spec: Experiment) -> _Complaints:
    assert isinstance(spec.data, Text)
    data, kind = spec.data, spec.data.examples
    suits = {"documents": spec.objective == "next-token", "rows": spec.objective == "span-corruption"}
    yield suits.get(kind, True), f"data.examples {kind!r} does not go with the objective {spec.objective!r}"
    windows = kind == "windows" and spec.objective == "next-token"
    yield kind != "windows" or windows, "data.examples 'windows' is for next-token prediction: set it to blocks"
    yield not windows or spec.evaluation.batches is not None, "windows have no end: set evaluation.batches"
    short = kind != "rows" or (data.shortest >= 2 and data.filler)
    yield bool(short), "data.examples 'rows' needs data.shortest of at least 2 and a data.filler for shorter rows"
    apart = kind in ("documents", "rows")
    yield apart or not data.shortest, "data.shortest is for rows: set it to 0"
    by_row = spec.span_corruption is not None and spec.span_corruption.mask_by == "row"
    yield not by_row or kind == "rows", "span_corruption.mask_by 'row' goes with data.examples 'rows'"
    fixed = spec.evaluation.draw == "anew" and spec.evaluation.batches is None
    yield not fixed, "evaluation.draw 'anew' draws evaluation.batches of them: set these, or draw once"


def _vision(spec: Experiment) -> _Complaints:
    if not isinstance(spec.data, Images):
        return
    model, augmentation, shift = spec.model, spec.data.augmentation, spec.data.shift
    yield shift >= 0, f"data.shift must be at least 0, not {shift}"
    yield augmentation is None or not shift, "data.shift is for images without augmentation: set one of them to none"
    if augmentation is not None:
        crop, erasing = augmentation.crop, augmentation.random_erasing
        yield 1 <= crop <= augmentation.resize, f"data.augmentation.crop {crop} exceeds resize {augmentation.resize}"
        yield 0 <= erasing <= 1, f"data.augmentation.random_erasing must lie in 0 to 1, not at {erasing}"
        low, high = augmentation.erasing_area
        yield 0 <= low <= high <= 1, f"data.augmentation.erasing_area must rise within 0 to 1, not {low}, {high}"
        low, high = augmentation.erasing_aspect
        yield 0 < low <= high, f"data.augmentation.erasing_aspect must rise above 0, not {low}, {high}"
        if isinstance(model, ViT):
            yield model.image == crop, f"model.image {model.image} and data.augmentation.crop {crop} must be the same"
    if isinstance(model, ViT):
        yield (
            model.image % model.patch == 0,
            f"model.image {model.image} is not a multiple of model.patch {model.patch}",
        )
        yield (
            model.width % model.heads == 0,
            f"model.width {model.width} is not a multiple of model.heads {model.heads}",
        )
    if isinstance(model, Swin):
        stages = len(model.depths) == len(model.heads)
        yield stages, f"model.depths {model.depths} and model.heads {model.heads} must have one number per stage"
        widths = all(model.width * 2**stage % heads == 0 for stage, heads in enumerate(model.heads))
        yield (
            widths,
            f"model.width {model.width}, doubled at each stage, is not a multiple of model.heads {model.heads}",
        )
