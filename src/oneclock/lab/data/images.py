"""Image classification as a task: decoded, augmented with torchvision's v2 transforms, normalized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from oneclock import torchvision_guard  # noqa: F401  before torchvision
from oneclock.lab.data.image_sources import open_images
from oneclock.lab.data.order import NOISE, Batch, EvaluationBatches, Order, Split, torch_seeded
from oneclock.lab.data.pictures import Pictures, TensorImages
from oneclock.lab.experiments.spec import Augmentation, Experiment, Images
from oneclock.runs.key import hash_of

from torchvision.transforms import v2  # isort: skip


class ImageTask:
    """Batches of `images` and `labels`; see `oneclock.lab.data.Task` for the contract."""

    def __init__(self, experiment: Experiment, images: Images, root: Path) -> None:
        self.experiment = experiment
        self.train, self.validation = open_images(images, root)
        self.train_transform, self.evaluation_transform = training_transform(images), evaluation_transform(images)
        self.ready: ReadyImages | None = None
        self.fixed: dict[tuple[int, ...], Batch] = {}
        if images.augmentation is None and isinstance(self.train, TensorImages):
            normalized = self.evaluation_transform(self.train.images)
            self.ready = ReadyImages(functional.pad(normalized, [images.shift] * 4), self.train.labels, images.shift)
        self._check_classes(images.source)
        self.order = Order(len(self.train), experiment.batch_size, experiment.drop_last)
        if not self.order.batches:
            raise ValueError(
                f"{images.source} has {len(self.train)} training images, fewer than one batch of "
                f"{experiment.batch_size}: give more images or a smaller batch_size"
            )

    @property
    def content(self) -> str:
        """A hash of the images that needs no decoding; see `Pictures.digest`."""
        return hash_of({"train": self.train.digest, "validation": self.validation.digest})

    def batch(self, seed: int, step: int, micro: int) -> Batch:
        """Training micro-batch `micro` of step `step`."""
        assert 0 <= micro < self.experiment.accumulate
        position = step * self.experiment.accumulate + micro
        indices = self.order.indices(seed, position)
        with torch_seeded(NOISE, seed, position):
            if self.ready is not None:
                return self.ready.batch(torch.from_numpy(indices.astype(np.int64)))
            return self._batch(self.train, indices, self.train_transform)

    def evaluation(self, split: Split, step: int | None = None) -> EvaluationBatches:
        """The evaluation batches of a split, without augmentation."""
        pictures = self.train if split == "train" else self.validation
        plan = self.experiment.evaluation
        return EvaluationBatches(
            split,
            len(pictures),
            plan.batch_size or self.experiment.batch_size,
            plan.batches,
            partial(self._evaluation_batch, pictures),
            step if plan.draw == "anew" else None,
        )

    def loss(self, model: nn.Module, batch: Batch, training: bool) -> Tensor:
        """The mean cross-entropy of a batch, in nats; smoothed only in training."""
        smoothing = self.experiment.label_smoothing if training else 0.0
        return functional.cross_entropy(model(batch["images"]).float(), batch["labels"], label_smoothing=smoothing)

    def weight(self, batch: Batch) -> int:
        """The number of images."""
        return len(batch["labels"])

    def _evaluation_batch(self, pictures: Pictures, samples: np.ndarray, key: tuple[int, ...]) -> Batch:
        if self.ready is None or self.experiment.evaluation.draw == "anew":
            return self._batch(pictures, samples, self.evaluation_transform)
        if key not in self.fixed:  # small images in memory: made once
            self.fixed[key] = self._batch(pictures, samples, self.evaluation_transform)
        return self.fixed[key]

    def _batch(self, pictures: Pictures, indices: np.ndarray, transform: v2.Transform) -> Batch:
        samples = [pictures[int(index)] for index in indices]
        images = torch.stack([transform(image) for image, _ in samples])
        labels = torch.tensor([label for _, label in samples])
        return {"images": images, "labels": labels}

    def _check_classes(self, source: str) -> None:
        """The data must have as many classes as the model: more would crash a GPU without a message, fewer means
        missing data.
        """
        labels, classes = np.unique(np.asarray(self.train.labels)), self.experiment.model.classes  # type: ignore[union-attr]
        if len(labels) != classes or labels[-1] != classes - 1:
            raise ValueError(
                f"{source} has {len(labels)} classes to train on, up to number {int(labels[-1])}, and the model "
                f"{classes}: fetch all of it, or set model.classes"
            )


@dataclass(frozen=True)
class ReadyImages:
    """Images in memory, normalized once. A batch is one look-up; with a margin each image is shifted too.

    `images` are (samples, 3, height + 2 * margin, width + 2 * margin), with zeros, the mean grey, around each.
    """

    images: Tensor
    labels: Tensor
    margin: int

    def batch(self, chosen: Tensor) -> Batch:
        """The images of these numbers, each moved by up to `margin` pixels each way by torch's generator."""
        if not self.margin:
            return {"images": self.images[chosen], "labels": self.labels[chosen]}
        down, right = torch.randint(2 * self.margin + 1, (2, len(chosen)))
        return {"images": self._windows[chosen, :, down, right], "labels": self.labels[chosen]}

    @cached_property
    def _windows(self) -> Tensor:
        """A view: every shift of every image."""
        height, width = (side - 2 * self.margin for side in self.images.shape[2:])
        return self.images.unfold(2, height, 1).unfold(3, width, 1)


def training_transform(spec: Images) -> v2.Transform:
    """The augmentation of a spec, then normalization, then random erasing."""
    plan = spec.augmentation
    steps: list[Any] = []
    if plan is not None:
        steps.append(v2.RandomResizedCrop(plan.crop, plan.scale, plan.ratio, antialias=True))
        if plan.flip:
            steps.append(v2.RandomHorizontalFlip())
        if plan.color_jitter is not None:
            steps.append(v2.ColorJitter(*plan.color_jitter))
        if plan.rand_augment is not None:
            operations, magnitude = plan.rand_augment
            steps.append(v2.RandAugment(operations, magnitude))
    erasing = [_erasing(plan)] if plan is not None and plan.random_erasing else []
    return _chain([*steps, *_normalized(spec), *erasing])


def _erasing(plan: Augmentation) -> v2.Transform:
    filling = "random" if plan.erasing_fill == "noise" else 0.0
    return v2.RandomErasing(plan.random_erasing, plan.erasing_area, plan.erasing_aspect, filling)


def evaluation_transform(spec: Images) -> v2.Transform:
    """Resize and centre crop where the spec augments, and normalization."""
    plan = spec.augmentation
    steps = [] if plan is None else [v2.Resize(plan.resize, antialias=True), v2.CenterCrop(plan.crop)]
    return _chain([*steps, *_normalized(spec)])


def _normalized(spec: Images) -> list[Any]:
    return [v2.ToDtype(torch.float32, scale=True), v2.Normalize(spec.mean, spec.std)]


def _chain(steps: Sequence[Any]) -> v2.Transform:
    return v2.Compose([v2.ToImage(), *steps, v2.ToPureTensor()])
