"""Image data sets as tables: repositories of the Hugging Face hub, and local copies of their files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneclock.lab.data.data_dirs import ABSENT, dataset_loader, prepare_hub, require, shortened
from oneclock.lab.data.pictures import Sets, TableImages
from oneclock.lab.data.text_sources import local_files
from oneclock.lab.experiments.spec import Images


@dataclass(frozen=True)
class HubImages:
    """A repository: which of its splits train and which validate, and its columns.

    `name` is a column with the class's name, where there is one: classes are then numbered in the order of the names.
    `rows` are those of each split, as the repository's page says: a copy with fewer is refused. `strangers` finds the
    classes that do not belong to it, if these are known.
    """

    repository: str
    train: tuple[str, ...] = ("train",)
    validation: tuple[str, ...] = ("validation",)
    image: str = "image"
    label: str = "label"
    name: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    strangers: Callable[[Collection[str]], list[str]] = lambda found: []

    def classes(self, values: Iterable[Any], spec: Images) -> list[Any]:
        """The used classes among the values of the training splits; ValueError for an unknown one."""
        used = sorted({_plain(value) for value in values} - set(spec.leave_out))
        if odd := self.strangers(used):
            raise ValueError(
                f"{spec.source} has {len(odd)} classes that do not belong to it, first {odd[0]!r}: "
                f"it is not a copy of {self.repository}"
            )
        return used

    def read(self, spec: Images) -> Sets:
        """Both sets from the hub or its cache; OSError if neither has them."""
        require("datasets", extra="vision")
        prepare_hub()
        load_dataset = dataset_loader()

        def load(split: str) -> Any:
            try:
                rows = load_dataset(self.repository, split=split)
            except ABSENT as error:
                raise OSError(error) from None
            if len(rows) < self.rows.get(split, 0):
                raise ValueError(
                    f"{self.repository} gives {len(rows):,} of the {self.rows[split]:,} rows of its {split} split: "
                    f"put a whole copy of {spec.source} into the data folder"
                )
            return rows

        return self._sets({split: load(split) for split in (*self.train, *self.validation)}, spec)

    def is_local(self, folder: Path) -> bool:
        """Whether the files of the repository lie in a folder."""
        return folder.is_dir() and bool(table_files(folder, self.train[0]))

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are read."""
        return tuple(name for name in (self.image, self.label, self.name) if name)

    def local(self, folder: Path) -> dict[str, list[Path]]:
        """The files of each split below a folder."""
        return {split: table_files(folder, split) for split in (*self.train, *self.validation)}

    def read_local(self, folder: Path, spec: Images) -> Sets:
        """Both sets from the files of the repository (Parquet, or Arrow as datasets saves it) below a folder."""
        require("datasets", extra="vision")
        load_dataset = dataset_loader()

        paths = self.local(folder)
        if absent := [split for split, files in paths.items() if not files]:
            raise ValueError(f"{folder} has no files of the {absent[0]} split of {self.repository}: fetch them too")

        def load(files: Sequence[Path]) -> Any:
            try:
                options: dict[str, Any] = {"data_files": [str(path) for path in files]}
                return load_dataset(
                    files[0].suffix[1:], split="train", cache_dir=str(folder.parent / "arrow"), **options
                )
            except Exception as error:  # a damaged file can make the libraries raise anything
                cause = shortened(error.__cause__ or error)
                raise ValueError(f"{files[0]} cannot be read to its end ({cause}): fetch it again") from None

        return self._sets({split: load(files) for split, files in paths.items()}, spec)

    def _sets(self, parts: Mapping[str, Any], spec: Images) -> Sets:
        from datasets import Image

        for split, rows in parts.items():
            self._check(split, rows, spec)
        parts = {
            split: rows.cast_column(self.image, Image()) for split, rows in parts.items()
        }  # a table may not say so
        column = self.name or self.label
        values = {split: [_plain(value) for value in rows[column]] for split, rows in parts.items()}
        used = self.classes((value for split in self.train for value in values[split]), spec)
        classes = {value: number for number, value in enumerate(used)} if self.name else None
        return self._joined(parts, values, self.train, classes), self._joined(parts, values, self.validation, classes)

    def _joined(
        self,
        parts: Mapping[str, Any],
        values: Mapping[str, Sequence[Any]],
        splits: tuple[str, ...],
        classes: Mapping[Any, int] | None,
    ) -> TableImages:
        """The rows of some splits as one set, without unused classes."""
        from datasets import concatenate_datasets

        rows = concatenate_datasets([parts[split] for split in splits])
        labels = [value for split in splits for value in values[split]]
        if classes is None:
            return TableImages(rows, self.image, labels)
        kept = [place for place, value in enumerate(labels) if value in classes]
        return TableImages(rows.select(kept), self.image, [classes[labels[place]] for place in kept])

    def _check(self, split: str, rows: Any, spec: Images) -> None:
        if absent := [name for name in self.columns if name not in rows.column_names]:
            raise ValueError(
                f"{spec.source} ({split}) has no column {absent[0]!r}, only {', '.join(rows.column_names)}: "
                f"it is not a copy of {self.repository}"
            )


def table_files(folder: Path, split: str) -> list[Path]:
    """The tables of a split; a folder of images may hold other text files too."""
    return [path for path in local_files(folder, None, split) if path.suffix in (".parquet", ".arrow")]


def _plain(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
