"""What one example of a text is: a block, a window, or one document of its own length. Numbers in, ids out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Examples(Protocol):
    """Examples by number: an array (rows, length) if all have one length, else a list of arrays."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: np.ndarray) -> Any: ...

    def first(self, tokens: int, multiple: int) -> Examples:
        """The first examples with `tokens` tokens in all; pieces come in full batches of `multiple`."""


class Blocks:
    """All text cut into blocks of one length; the rest at the end is dropped."""

    def __init__(self, ids: np.ndarray, length: int) -> None:
        count = len(ids) // length
        self.rows = ids[: count * length].reshape(count, length)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: np.ndarray) -> np.ndarray:
        return self.rows[chosen]

    def first(self, tokens: int, multiple: int) -> Blocks:
        """At least one block, and no more tokens than asked for."""
        return Blocks(self.rows.ravel()[: max(tokens, self.rows.shape[1])], self.rows.shape[1])


@dataclass(frozen=True)
class Windows:
    """A window of one length at every place of the text, by the place where it starts."""

    ids: np.ndarray
    length: int

    def __len__(self) -> int:
        return len(self.ids) - self.length + 1

    def __getitem__(self, chosen: np.ndarray) -> np.ndarray:
        return self.ids[chosen[:, None] + np.arange(self.length)]

    def first(self, tokens: int, multiple: int) -> Windows:
        """Those within the first tokens."""
        return Windows(self.ids[: max(tokens, self.length)], self.length)


class Pieces:
    """Documents or rows, each of its own length; `lengths` says how the ids divide."""

    def __init__(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        self.ids, self.ends = ids, np.cumsum(lengths, dtype=np.int64)
        if len(ids) != (self.ends[-1] if len(self.ends) else 0):
            raise ValueError(f"{len(self.ends)} documents do not make up {len(ids)} tokens: delete the prepared tokens")

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, chosen: np.ndarray) -> list[np.ndarray]:
        starts = np.where(chosen > 0, self.ends[np.maximum(chosen, 1) - 1], 0)
        return [self.ids[start:end] for start, end in zip(starts, self.ends[chosen], strict=True)]

    def first(self, tokens: int, multiple: int) -> Pieces:
        """Full batches until that many tokens are reached, or all of them."""
        enough = int(np.searchsorted(self.ends, tokens)) + 1
        count = min(-(-enough // multiple) * multiple, len(self))
        ends = self.ends[:count]
        return Pieces(self.ids[: ends[-1] if count else 0], np.diff(ends, prepend=0))


def stacked(rows: Sequence[np.ndarray], filling: int, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unequal length as one array, padded on the right to `length` or the longest row, and the mask of the
    rows.

    >>> ids, mask = stacked([np.array([5, 6]), np.array([7])], filling=0)
    >>> ids.tolist(), mask.tolist()
    ([[5, 6], [7, 0]], [[True, True], [True, False]])
    """
    length = length or max(map(len, rows))
    mask = np.arange(length) < np.array([len(row) for row in rows])[:, None]
    ids = np.full(mask.shape, filling, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return ids, mask
