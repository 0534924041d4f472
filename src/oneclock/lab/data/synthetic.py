"""Random batches of the real shape and format, for a rehearsal: no data needed.

Each has the largest size that the experiment's batches can have.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from oneclock.lab.data import spans
from oneclock.lab.data.order import Batch, Split
from oneclock.lab.experiments.spec import Experiment, Images, SpanCorruption, Text


class SyntheticTask:
    """A task of an experiment's shape: random ids or pixels; see `oneclock.lab.data.Task` for the contract."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    @property
    def unit(self) -> str:
        """What a step is counted in."""
        return "tokens" if isinstance(self.experiment.data, Text) else "images"

    @property
    def per_step(self) -> int:
        """Tokens, padding among them, or images of one optimizer step in one process."""
        spec = self.experiment
        length = spec.data.length if isinstance(spec.data, Text) else 1
        return spec.batch_size * spec.accumulate * length

    def batch(self, seed: int, step: int, micro: int) -> Batch:
        """Micro-batch `micro` of step `step`."""
        draw = torch.Generator().manual_seed(1_000_000 * seed + 1_000 * step + micro)
        spec = self.experiment
        if isinstance(spec.data, Images):
            return self._images(spec.data, draw)
        vocabulary: int = spec.model.vocabulary  # type: ignore[union-attr]
        if spec.objective == "span-corruption":
            apart, noise = spec.data.examples == "rows", spec.span_corruption or SpanCorruption()
            length = spec.data.length
            shape = spans.shape_of(length, noise) if apart else spans.longest_shape(length, noise)
            ids = torch.randint(vocabulary, (spec.batch_size, shape.input_length), generator=draw)
            labels = torch.randint(vocabulary, (spec.batch_size, shape.target_length), generator=draw)
        else:
            ids = labels = torch.randint(1, vocabulary, (spec.batch_size, spec.data.length), generator=draw)
        padded = spec.data.examples in ("documents", "rows")
        masked = {"attention_mask": torch.ones_like(ids)} if padded else {}
        return {"input_ids": ids, "labels": labels, **masked}

    def evaluation(self, split: Split, step: int | None = None) -> Sequence[Batch]:
        """One batch."""
        return [self.batch(0, 0, 0)]

    def loss(self, model: nn.Module, batch: Batch, training: bool) -> Tensor:
        """The mean loss of a batch."""
        if "labels" in batch and "input_ids" in batch:
            return model(**batch).loss
        smoothing = self.experiment.label_smoothing if training else 0.0
        return functional.cross_entropy(model(batch["images"]).float(), batch["labels"], label_smoothing=smoothing)

    def weight(self, batch: Batch) -> int:
        """The number of labels."""
        return batch["labels"].numel()

    def _images(self, data: Images, draw: torch.Generator) -> Batch:
        side = data.augmentation.crop if data.augmentation else getattr(self.experiment.model, "image", 32)
        shape, classes = (self.experiment.batch_size, 3, side, side), self.experiment.model.classes  # type: ignore[union-attr]
        labels = torch.randint(classes, shape[:1], generator=draw)
        return {"images": torch.randn(shape, generator=draw), "labels": labels}
