"""From text to tokens: tokenizers, and how their ids are stored in a file."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from oneclock.lab.data.data_dirs import ABSENT, missing, prepare_hub

_HUB = {
    "gpt2": "openai-community/gpt2",
    "t5-small": "google-t5/t5-small",
    "t5-base": "google-t5/t5-base",
}
TELL_EVERY = 100_000_000
_END = ("<|endoftext|>", "</s>")


@dataclass(frozen=True)
class Tokens:
    """A tokenizer: text -> ids, without special tokens; `end` is its end-of-text token."""

    tokenizer: Any
    key: str
    end: int

    @classmethod
    def load(cls, name: str, root: Path) -> Tokens:
        """The tokenizer of that name (`gpt2`, `t5-base`, `bytes`, ..), or that of the `tokenizer.json` at that path."""
        if name == "bytes":
            return cls(_byte_tokenizer(), "bytes", 256)
        path = _tokenizer_file(name, root)
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise ValueError(f"{path} is not a tokenizer: {error}") from None
        tokenizer.encode_special_tokens = True  # "</s>" in a web page is text, not the end of the text
        tokenizer.no_padding()
        tokenizer.no_truncation()
        end = next((number for token in _END if (number := tokenizer.token_to_id(token)) is not None), None)
        if end is None:
            raise ValueError(f"{path} has no end-of-text token: it needs {' or '.join(_END)}")
        return cls(tokenizer, hashlib.sha256(path.read_bytes()).hexdigest()[:16], end)

    @property
    def dtype(self) -> Any:
        """Two bytes a token where the vocabulary allows it."""
        return np.uint16 if self.tokenizer.get_vocab_size() <= 2**16 else np.uint32

    @property
    def highest(self) -> int:
        """The highest id in a block of text: sentinels are in the vocabulary, but never in text."""
        return max(
            [self.end, *(number for number in self.tokenizer.get_vocab().values() if number not in self.special)]
        )

    @cached_property
    def sentinels(self) -> np.ndarray:
        """The ids of T5's `<extra_id_0>`, `<extra_id_1>`, .., as many as there are."""
        ids: list[int] = []
        while (token := self.tokenizer.token_to_id(f"<extra_id_{len(ids)}>")) is not None:
            ids.append(token)
        return np.array(ids, dtype=np.int64)

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids that must not come from text: sentinels, padding and ends of text."""
        marks = [self.tokenizer.token_to_id(token) for token in ("<pad>", *_END)]
        return frozenset([*self.sentinels.tolist(), *(mark for mark in marks if mark is not None)])

    def _plain(self, ids: list[int]) -> list[int]:
        # T5's tokenizer files list sentinels among the ordinary pieces, so a web page can contain one.
        return ids if self.special.isdisjoint(ids) else [number for number in ids if number not in self.special]

    def write(self, documents: Iterable[list[str]], file: BinaryIO, layout: Layout, limit: Limit) -> dict[str, int]:
        """Append the ids of batches of documents up to a limit; returns the numbers of tokens and documents.

        If the layout keeps documents apart, their lengths follow the ids, as numbers of the same type. Long work prints
        a line on stderr every hundred million tokens.
        """
        lengths, tokens, reported = array("I"), 0, 0
        filler = self.encode([layout.filler or ""])[0][: layout.cut]
        for batch in documents:
            ids: list[int] = []
            for text in self.encode([text.strip() for text in batch] if layout.stripped else batch):
                laid = layout.laid(text, self.end, filler)
                ids += laid
                lengths.append(len(laid))
                if limit.reached(tokens + len(ids), len(lengths)):
                    break
            kept = ids if layout.cut or limit.tokens is None else ids[: limit.tokens - tokens]
            file.write(np.array(kept, dtype=self.dtype).tobytes())
            tokens += len(kept)
            if tokens >= reported + TELL_EVERY:
                reported = tokens
                print(f"oneclock: {tokens:,} tokens prepared, once for all runs", file=sys.stderr)
            if limit.reached(tokens, len(lengths)):
                break
        if layout.cut:
            file.write(np.array(lengths, dtype=self.dtype).tobytes())
        return {"tokens": tokens, "documents": len(lengths)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, without special tokens."""
        return [
            self._plain(encoding.ids) for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ]


@dataclass(frozen=True)
class Layout:
    """How documents become ids: joined, or, with a `cut`, kept apart and each cut to that many.

    `ended` puts the end-of-text token after each, within the cut; `stripped` takes off the space around it first. The
    text `filler` replaces a document of fewer than `shortest` tokens.
    """

    ended: bool
    cut: int | None = None
    stripped: bool = False
    shortest: int = 0
    filler: str | None = None

    def laid(self, ids: list[int], end: int, filler: list[int]) -> list[int]:
        """One document's ids as the file stores them.

        >>> Layout(ended=True, cut=3).laid([7, 8, 9, 10], end=1, filler=[])
        [7, 8, 1]
        """
        if self.shortest and len(ids) < self.shortest:
            ids = filler
        if self.cut is not None:
            ids = ids[: self.cut - self.ended]
        return [*ids, end] if self.ended else ids


@dataclass(frozen=True)
class Limit:
    """Where to stop: after `tokens` tokens, or `documents` documents, rounded to a multiple of `multiple`."""

    tokens: int | None = None
    documents: int | None = None
    multiple: int = 1

    def reached(self, tokens: int, documents: int) -> bool:
        """Whether the limit is reached.

        >>> Limit(tokens=10, multiple=4).reached(tokens=12, documents=3)
        False
        """
        enough = (self.tokens is not None and tokens >= self.tokens) or documents == self.documents
        return enough and documents % self.multiple == 0


def _byte_tokenizer() -> Any:
    """A token for each byte, then the end of text at 256, then 32 sentinels."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", *(f"<extra_id_{number}>" for number in range(32))]
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    tokenizer.encode_special_tokens = True
    return tokenizer


def hub_name(name: str) -> str:
    """The hub repository of a tokenizer that papers call by a short name; other names are returned unchanged.

    >>> hub_name("gpt2")
    'openai-community/gpt2'
    """
    return _HUB.get(name, name)


def local_tokenizer(name: str, root: Path) -> Path | None:
    """The tokenizer file of that name below the root, or at that path; None if there is none."""
    places = (Path(name), root / "tokenizers" / name / "tokenizer.json")
    return next((path for path in places if path.is_file()), None)


def _tokenizer_file(name: str, root: Path) -> Path:
    local = local_tokenizer(name, root)
    if local is not None:
        return local
    from huggingface_hub import hf_hub_download

    prepare_hub()
    problem: BaseException | None = None
    for repository in dict.fromkeys([name, hub_name(name)]):
        try:
            return Path(hf_hub_download(repository, "tokenizer.json"))
        except ABSENT as error:  # noqa: PERF203
            problem = error
    fetch = f"tokenizer.json of {hub_name(name)} from the Hugging Face hub"
    raise missing(f"the tokenizer {name!r}", fetch, str(root / "tokenizers" / name), problem)
