"""Text -> tokens, once: a flat file of token ids, memory-mapped and shared by every run that needs it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from oneclock.data.places import ABSENT, missing, prepare_hub
from oneclock.study.identity import hash_of, safe_name

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
        tokenizer.encode_special_tokens = True  # "</s>" in a web page is text, not the end of it
        tokenizer.no_padding()
        tokenizer.no_truncation()
        end = next((found for token in _END if (found := tokenizer.token_to_id(token)) is not None), None)
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
        found: list[int] = []
        while (token := self.tokenizer.token_to_id(f"<extra_id_{len(found)}>")) is not None:
            found.append(token)
        return np.array(found, dtype=np.int64)

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids that text must not give: sentinels, padding and ends of text."""
        marks = [self.tokenizer.token_to_id(token) for token in ("<pad>", *_END)]
        return frozenset([*self.sentinels.tolist(), *(mark for mark in marks if mark is not None)])

    def _plain(self, ids: list[int]) -> list[int]:
        # T5's tokenizer files list sentinels and marks among the ordinary pieces, so a web page can spell one.
        return ids if self.special.isdisjoint(ids) else [number for number in ids if number not in self.special]

    def write(self, documents: Iterable[list[str]], file: BinaryIO, separate: bool, limit: int | None) -> None:
        """Append the ids of batches of documents, each ended with `end` if `separate`, up to `limit` tokens.

        What takes minutes says so: a line on stderr every hundred million tokens.
        """
        written, told = 0, 0
        for batch in documents:
            ids: list[int] = []
            for encoding in self.tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                ids += self._plain(encoding.ids)
                if separate:
                    ids.append(self.end)
            kept = ids if limit is None else ids[: limit - written]
            file.write(np.array(kept, dtype=self.dtype).tobytes())
            written += len(kept)
            if written >= told + TELL_EVERY:
                told = written
                print(f"oneclock: {written:,} tokens prepared, once for all runs", file=sys.stderr)
            if limit is not None and written >= limit:
                return


def cached(root: Path, label: str, key: Any, dtype: Any, write: Callable[[BinaryIO], None]) -> np.ndarray:
    """The array that `write` writes, from ROOT/tokens; made by the first who asks, while others wait for it."""
    folder = root / "tokens"
    path = folder / f"{safe_name(label)}-{hash_of(key)}.bin"
    if not path.exists():
        from filelock import FileLock

        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{path.name}.lock"):
            if not path.exists():
                _write_aside(path, write)
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def _write_aside(path: Path, write: Callable[[BinaryIO], None]) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


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


def _tokenizer_file(name: str, root: Path) -> Path:
    local = root / "tokenizers" / name / "tokenizer.json"
    for path in (Path(name), local):
        if path.is_file():
            return path
    from huggingface_hub import hf_hub_download

    prepare_hub()
    problem: BaseException | None = None
    for repository in dict.fromkeys([name, _HUB.get(name, name)]):
        try:
            return Path(hf_hub_download(repository, "tokenizer.json"))
        except ABSENT as error:  # noqa: PERF203
            problem = error
    fetch = f"tokenizer.json of {_HUB.get(name, name)} from the Hugging Face hub"
    raise missing(f"the tokenizer {name!r}", fetch, str(local.parent), problem)
