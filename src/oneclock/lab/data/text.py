"""Language modelling as a task: examples of tokens, next-token prediction or span corruption."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from oneclock.lab.data import spans
from oneclock.lab.data.cache import cached
from oneclock.lab.data.examples import Blocks, Examples, Pieces, Windows, stacked
from oneclock.lab.data.order import NOISE, Batch, Draws, EvaluationBatches, Order, Split, generator
from oneclock.lab.data.text_sources import Documents
from oneclock.lab.data.tokens import Layout, Limit, Tokens
from oneclock.lab.experiments.spec import Experiment, SpanCorruption, Text
from oneclock.runs.key import hash_of

IGNORED = -100
"""The label of positions without a target, as in transformers."""


class TextTask:
    """Batches of `input_ids` and `labels`, with an `attention_mask` where they are padded; see `lab.data.Task`."""

    def __init__(self, experiment: Experiment, text: Text, root: Path) -> None:
        self.experiment, self.text, self.root = experiment, text, root
        self.noise = experiment.span_corruption or SpanCorruption()
        self.tokens = Tokens.load(text.tokenizer, root)
        self.apart = text.examples in ("documents", "rows")
        self.shape = self._corruption()
        self.sentinels = self.tokens.sentinels[: self.shape.spans if self.shape else 0]
        self.block = self.shape.block if self.shape and not self.apart else text.length
        self._check_vocabulary()
        self.digests: dict[str, str] = {}
        self.validation = self._examples("validation", self._evaluated())  # first: small, and may be missing
        self.train = self._examples("train", self._needed() if text.streaming else Limit())
        windows = text.examples == "windows"
        size, batch_size = len(self.train), experiment.batch_size
        self.order = Draws(size, batch_size) if windows else Order(size, batch_size, experiment.drop_last)
        if not self.order.batches:
            raise ValueError(
                f"{text.source} gives {size} {text.examples} of {self.block} tokens, fewer than one batch of "
                f"{batch_size}: give more text or a smaller batch_size"
            )

    @property
    def content(self) -> str:
        """A hash of the tokens, independent of the source's name."""
        return hash_of(self.digests)

    def batch(self, seed: int, step: int, micro: int) -> Batch:
        """Training micro-batch `micro` of step `step`."""
        assert 0 <= micro < self.experiment.accumulate
        position = step * self.experiment.accumulate + micro
        order = seed if self.text.order_seed is None else self.text.order_seed
        return self._batch(self.train, self.order.indices(order, position), (NOISE, seed, position), (NOISE, seed))

    def evaluation(self, split: Split, step: int | None = None) -> EvaluationBatches:
        """The evaluation batches of a split; where they are drawn anew, those of the evaluation after `step` steps."""
        examples = self.train if split == "train" else self.validation
        plan = self.experiment.evaluation
        batch_size = plan.batch_size or self.experiment.batch_size
        if plan.tokens is not None:
            examples = examples.first(plan.tokens, batch_size)
        make = partial(self._evaluation_batch, examples)
        drawn_at = step if plan.draw == "anew" else None
        return EvaluationBatches(split, len(examples), batch_size, plan.batches, make, drawn_at)

    def loss(self, model: nn.Module, batch: Batch, training: bool) -> Tensor:
        """The mean loss of a batch, in nats per target token."""
        return model(**batch).loss

    def weight(self, batch: Batch) -> int:
        """The number of targets, or of tokens where the mean of an evaluation is to be over these.

        In next-token prediction, the first token of an example is not a target.
        """
        labels = batch["labels"] if self.shape else batch["labels"][:, 1:]
        if "attention_mask" not in batch:
            return labels.numel()
        tokens = self.experiment.evaluation.mean == "tokens"
        return int(batch["attention_mask"].sum() if tokens else (labels != IGNORED).sum())

    def _corruption(self) -> spans.Shape | None:
        """The shape of the longest example, which needs the most sentinels."""
        if self.experiment.objective != "span-corruption":
            return None
        length = self.text.length
        shape = spans.shape_of(length, self.noise) if self.apart else spans.longest_shape(length, self.noise)
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

    def _evaluation_batch(self, examples: Examples, samples: np.ndarray, key: tuple[int, ...]) -> Batch:
        return self._batch(examples, samples, key, key[:-1])

    def _batch(self, examples: Examples, chosen: np.ndarray, key: tuple[int, ...], stem: tuple[int, ...]) -> Batch:
        """The batch of the chosen examples; what is drawn depends on `key`, or on `stem` and the example's number."""
        rows = examples[chosen]
        if isinstance(rows, np.ndarray) and self.shape is None:
            ids = torch.from_numpy(rows.astype(np.int64))
            return {"input_ids": ids, "labels": ids}
        if self.shape is None:
            return self._documents(rows)
        if isinstance(rows, np.ndarray):
            rng = generator(*key)
            inputs, targets = spans.corrupt(rows.astype(np.int64), self.shape, self.sentinels, self.tokens.end, rng)
            return {"input_ids": torch.from_numpy(inputs), "labels": torch.from_numpy(targets)}
        by_row = self.noise.mask_by == "row"
        keys = [(*stem, int(number)) if by_row else (*key, place) for place, number in enumerate(chosen)]
        return self._corrupted(rows, [generator(*one) for one in keys])

    def _documents(self, rows: list[np.ndarray]) -> Batch:
        ids, mask = stacked(rows, self.padding, self.text.length)
        labels = np.where(mask, ids, IGNORED)
        return {name: torch.from_numpy(array) for name, array in _named(ids, mask, labels)}

    def _corrupted(self, rows: list[np.ndarray], draws: list[np.random.Generator]) -> Batch:
        pairs = []
        for row, rng in zip(rows, draws, strict=True):
            shape = spans.shape_of(len(row), self.noise)
            pairs.append(spans.corrupt(row[None].astype(np.int64), shape, self.sentinels, self.tokens.end, rng))
        ids, mask = stacked([inputs[0] for inputs, _ in pairs], self.padding)
        labels, scored = stacked([targets[0] for _, targets in pairs], 0)
        return {name: torch.from_numpy(array) for name, array in _named(ids, mask, np.where(scored, labels, IGNORED))}

    @property
    def padding(self) -> int:
        """The padding id of a batch. It is masked, so no embedding learns from it."""
        return getattr(self.experiment.model, "padding", None) or 0

    def _needed(self) -> Limit:
        count = self.experiment.budget * self.experiment.accumulate * self.experiment.batch_size
        return Limit(documents=count) if self.apart else Limit(tokens=count * self.block)

    def _evaluated(self) -> Limit:
        plan = self.experiment.evaluation
        if plan.tokens is None:
            return Limit()
        multiple = (plan.batch_size or self.experiment.batch_size) if self.apart else 1
        return Limit(tokens=plan.tokens, multiple=multiple)

    def _examples(self, split: Split, limit: Limit) -> Examples:
        documents = Documents(self.text, split, self.root)
        layout = Layout(ended=documents.separate)
        if self.apart:
            rows = self.text.examples == "rows"
            layout = Layout(not rows, self.text.length, rows, self.text.shortest, self.text.filler)
        array = cached(
            self.root,
            f"{self.text.source}-{split}",
            {"documents": documents.key, "tokenizer": self.tokens.key, "layout": vars(layout), "limit": vars(limit)},
            self.tokens.dtype,
            lambda file: self.tokens.write(documents.batches(), file, layout, limit),
        )
        self.digests[split] = array.digest
        ids = array.values[: array.notes["tokens"]]
        self._check_ids(ids, split)
        if self.apart:
            return Pieces(ids, array.values[array.notes["tokens"] :])
        if len(ids) < self.block:
            raise ValueError(
                f"the {split} split of {self.text.source} has {len(ids)} tokens, less than one block of {self.block}"
            )
        return Windows(ids, self.block) if self.text.examples == "windows" else Blocks(ids, self.block)

    def _check_ids(self, ids: np.ndarray, split: Split) -> None:
        if len(ids) and int(ids.max()) > self.tokens.highest:
            raise ValueError(
                f"the prepared tokens of {self.text.source} ({split}) have an id {int(ids.max())}, and the tokenizer "
                f"{self.text.tokenizer!r} ends at {self.tokens.highest}: delete {self.root / 'tokens'}"
            )


def _named(ids: np.ndarray, mask: np.ndarray, labels: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [("input_ids", ids), ("attention_mask", mask.astype(np.int64)), ("labels", labels)]
