"""Language modelling as a task: blocks of tokens, next-token prediction or span corruption."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from oneclock.data import spans
from oneclock.data.order import NOISE, Batch, EvaluationBatches, Order, Split, generator
from oneclock.data.text_sources import Documents
from oneclock.data.tokens import Tokens, cached
from oneclock.experiments.spec import Experiment, SpanCorruption, Text


class TextTask:
    """Batches of `input_ids` and `labels`; see `oneclock.data.Task` for the contract."""

    def __init__(self, experiment: Experiment, text: Text, root: Path) -> None:
        self.experiment, self.text, self.root = experiment, text, root
        self.tokens = Tokens.load(text.tokenizer, root)
        self.shape = self._corruption()
        self.sentinels = self.tokens.sentinels[: self.shape.spans if self.shape else 0]
        self.block = self.shape.block if self.shape else text.length
        self._check_vocabulary()
        self.train = self._blocks("train", self._needed() if text.streaming else None)
        self.validation = self._blocks("validation", experiment.evaluation.tokens)
        self.order = Order(len(self.train), experiment.batch_size, experiment.drop_last)
        if not self.order.batches:
            raise ValueError(
                f"{text.source} gives {len(self.train)} blocks of {self.block} tokens, fewer than one batch of "
                f"{experiment.batch_size}: give more text or a smaller batch_size"
            )

    def batch(self, seed: int, step: int, micro: int) -> Batch:
        """Training micro-batch `micro` of step `step`."""
        assert 0 <= micro < self.experiment.accumulate
        position = step * self.experiment.accumulate + micro
        rows = self.train[self.order.indices(seed, position)]
        return self._batch(rows, (NOISE, seed, position))

    def evaluation(self, split: Split) -> EvaluationBatches:
        """The fixed evaluation batches of a split."""
        blocks = self.train if split == "train" else self.validation
        plan = self.experiment.evaluation
        if plan.tokens is not None:
            blocks = blocks[: max(plan.tokens // self.block, 1)]
        return EvaluationBatches(
            split,
            len(blocks),
            plan.batch_size or self.experiment.batch_size,
            plan.batches,
            partial(self._evaluation_batch, blocks),
        )

    def loss(self, model: nn.Module, batch: Batch, training: bool) -> Tensor:
        """The mean loss of a batch, in nats per target token."""
        return model(input_ids=batch["input_ids"], labels=batch["labels"]).loss

    def weight(self, batch: Batch) -> int:
        """The number of targets: the first token of a block is predicted by none in next-token prediction."""
        rows, length = batch["labels"].shape
        return rows * (length if self.shape else length - 1)

    def _corruption(self) -> spans.Shape | None:
        if self.experiment.objective != "span-corruption":
            return None
        shape = spans.longest_shape(self.text.length, self.experiment.span_corruption or SpanCorruption())
        if shape.spans > len(self.tokens.sentinels):
            raise ValueError(
                f"blocks of {shape.block} tokens need {shape.spans} sentinels, and the tokenizer "
                f"{self.text.tokenizer!r} has {len(self.tokens.sentinels)}: lower data.length or use t5-small"
            )
        return shape

    def _check_vocabulary(self) -> None:
        size = getattr(self.experiment.model, "vocabulary", None)
        highest = max([self.tokens.highest, *self.sentinels.tolist()])
        if size is not None and highest >= size:
            raise ValueError(
                f"the tokenizer {self.text.tokenizer!r} gives ids up to {highest}, the model has {size}: "
                f"set model.vocabulary={highest + 1}"
            )

    def _evaluation_batch(self, blocks: np.ndarray, samples: np.ndarray, key: tuple[int, ...]) -> Batch:
        return self._batch(blocks[samples], key)

    def _batch(self, rows: np.ndarray, key: tuple[int, ...]) -> Batch:
        if self.shape is None:
            ids = torch.from_numpy(rows.astype(np.int64))
            return {"input_ids": ids, "labels": ids}
        rng = generator(*key)
        inputs, targets = spans.corrupt(rows.astype(np.int64), self.shape, self.sentinels, self.tokens.end, rng)
        return {"input_ids": torch.from_numpy(inputs), "labels": torch.from_numpy(targets)}

    def _needed(self) -> int:
        return self.experiment.budget * self.experiment.accumulate * self.experiment.batch_size * self.block

    def _blocks(self, split: Split, limit: int | None) -> np.ndarray:
        """(blocks, tokens of a block), memory-mapped."""
        documents = Documents(self.text, split, self.root)
        tokens = cached(
            self.root,
            f"{self.text.source}-{split}",
            {"documents": documents.key, "tokenizer": self.tokens.key, "limit": limit},
            self.tokens.dtype,
            lambda file: self.tokens.write(documents.batches(), file, documents.hub.separate, limit),
        )
        count = len(tokens) // self.block
        if not count:
            raise ValueError(
                f"the {split} split of {self.text.source} has {len(tokens)} tokens, less than one block of {self.block}"
            )
        return tokens[: count * self.block].reshape(count, self.block)
