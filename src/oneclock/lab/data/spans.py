"""T5's span corruption on whole batches: sentinels replace spans of a block, and the target holds those spans.

All blocks of one length lose the same number of tokens in the same number of spans, so inputs and targets need no
padding. A block begins with kept text and ends with a lost span, as in T5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneclock.lab.experiments.spec import SpanCorruption


@dataclass(frozen=True)
class Shape:
    """What corruption does to a block of `block` tokens: lengths count sentinels and the end-of-text token."""

    block: int
    noise: int
    spans: int

    @property
    def input_length(self) -> int:
        return self.block - self.noise + self.spans + 1

    @property
    def target_length(self) -> int:
        return self.noise + self.spans + 1


def shape_of(block: int, spec: SpanCorruption) -> Shape:
    """The shape for blocks of `block` tokens: at least one token is lost, and one kept before each span.

    >>> shape_of(284, SpanCorruption())
    Shape(block=284, noise=43, spans=14)
    """
    noise = min(max(round(block * spec.noise_density), 1), block - 1)
    spans = min(max(round(noise / spec.mean_span_length), 1), noise, block - noise)
    return Shape(block, noise, spans)


def longest_shape(length: int, spec: SpanCorruption) -> Shape:
    """The longest block whose input and target both have at most `length` tokens.

    >>> longest_shape(256, SpanCorruption()).input_length
    256
    """
    fitting = [
        shape
        for shape in (shape_of(block, spec) for block in range(2, 2 * length))
        if max(shape.input_length, shape.target_length) <= length
    ]
    if not fitting:
        raise ValueError(f"span corruption leaves no room in {length} tokens; raise data.length")
    return fitting[-1]


def corrupt(
    blocks: np.ndarray, shape: Shape, sentinels: np.ndarray, end: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks (rows, shape.block) -> inputs (rows, input_length) and targets (rows, target_length).

    `sentinels[k]` replaces the k-th span in the input; in the target that sentinel precedes the span's tokens.
    """
    rows = len(blocks)
    lost = _lost(rows, shape, rng)
    first_lost = lost & ~np.roll(lost, 1, axis=1)
    first_kept = ~lost & np.roll(lost, 1, axis=1)
    first_kept[:, 0] = True  # what precedes it is the end of the block, which np.roll brings round
    number = np.cumsum(first_lost, axis=1)
    # In the target a sentinel takes the place of each run of kept tokens: the one of the span that follows.
    inputs = np.where(first_lost, sentinels[number - 1], blocks)[~lost | first_lost]
    targets = np.where(first_kept, sentinels[np.minimum(number, shape.spans - 1)], blocks)[lost | first_kept]
    ends = np.full((rows, 1), end, dtype=np.int64)
    return (
        np.concatenate([inputs.reshape(rows, -1), ends], axis=1),
        np.concatenate([targets.reshape(rows, -1), ends], axis=1),
    )


def _lost(rows: int, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """(rows, block) booleans: runs of kept and of lost tokens in turn, every division as likely as any other."""
    runs = np.empty((rows, 2 * shape.spans), dtype=np.int64)
    runs[:, 0::2] = _parts(rows, shape.block - shape.noise, shape.spans, rng)
    runs[:, 1::2] = _parts(rows, shape.noise, shape.spans, rng)
    starts = np.zeros((rows, shape.block), dtype=np.int64)
    np.put_along_axis(starts, np.cumsum(runs, axis=1)[:, :-1], 1, axis=1)
    return np.cumsum(starts, axis=1) % 2 == 1


def _parts(rows: int, total: int, parts: int, rng: np.random.Generator) -> np.ndarray:
    """(rows, parts) lengths of at least 1 that sum to `total`."""
    cuts = np.argsort(rng.random((rows, total - 1)), axis=1)[:, : parts - 1] + 1
    edges = np.concatenate([np.zeros((rows, 1)), np.sort(cuts, axis=1), np.full((rows, 1), total)], axis=1)
    return np.diff(edges, axis=1).astype(np.int64)
