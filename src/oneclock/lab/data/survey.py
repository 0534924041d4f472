"""Checks an experiment's data before training: what is here, what would be downloaded, and whether it fits.

Nothing is downloaded, tokenized or decoded. Rows are counted where the files say how many they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from oneclock.lab.data import image_sources
from oneclock.lab.data.data_dirs import data_root, in_gigabytes
from oneclock.lab.data.image_tables import HubImages
from oneclock.lab.data.stored import Stored, prepared, stored_in, values_in
from oneclock.lab.data.text_sources import BUNDLED, HUB, Documents
from oneclock.lab.data.tokens import hub_name, local_tokenizer
from oneclock.lab.experiments.spec import T5, Experiment, Images, Text

Count = tuple[str, int | None, int | None]
Rows = Mapping[str, int | None]


@dataclass(frozen=True)
class Part:
    """One thing that an experiment needs: where it is (None: not here), where it would come from, and what is wrong.

    `counts` are (split, found or None if the files do not say, expected or None); `columns` those that it has, or
    where it is not here, or does not say, those that are read.
    """

    what: str
    place: str | None
    origin: str
    counts: tuple[Count, ...] = ()
    columns: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def fits(self) -> bool:
        """Whether no problem is known."""
        return self.problem is None


def survey(experiment: Experiment, data_dir: Path | None = None) -> tuple[Part, ...]:
    """Everything that an experiment needs, checked without changing anything."""
    root = data_root(data_dir)
    if isinstance(experiment.data, Images):
        return (_images(experiment, experiment.data, root),)
    parts = [_text(experiment.data, root), _tokenizer(experiment.data.tokenizer, root)]
    if isinstance(experiment.model, T5) and experiment.model.checkpoint is not None:
        parts.append(_checkpoint(experiment.model.checkpoint))
    return tuple(parts)


def _text(spec: Text, root: Path) -> Part:
    if spec.source in BUNDLED:
        return Part(spec.source, "with the installed packages", BUNDLED[spec.source].repository)
    hub = HUB[spec.source]
    reach = ", read only as far as the budget needs" if spec.streaming else ""
    names = " or ".join((hub.repository, *hub.copies))
    origin = f"{names} of the Hugging Face hub{in_gigabytes(hub.gigabytes)}{reach}"
    try:
        splits = {split: Documents(spec, split, root) for split in ("train", "validation")}
    except ValueError as error:
        return Part(spec.source, str(root / spec.source), origin, problem=str(error))
    files: dict[str, list[Path]] = {documents.stored: documents.files for documents in splits.values()}
    expected = {split: hub.rows.get(split) for split in files}
    if not any(files.values()):
        return _of_the_hub(
            Part(spec.source, None, origin, columns=("text",)), (hub.repository, *hub.copies), hub.config, expected
        )
    stored = {split: stored_in(paths) for split, paths in files.items()}
    wanted = {} if spec.streaming else expected  # the budget may need only a part of a stream
    return _judged(Part(spec.source, str(root / spec.source), origin, columns=("text",)), stored, wanted)


def _of_the_hub(part: Part, repositories: Sequence[str], config: str | None, expected: Rows) -> Part:
    """The part from what datasets has prepared of a repository before, or what is expected where it has not."""
    for repository in repositories:
        if (kept := prepared(repository, config)) is not None:
            folder, splits = kept
            return _judged(replace(part, place=str(folder)), {split: splits.get(split) for split in expected}, expected)
    return replace(part, counts=tuple((split, None, rows) for split, rows in expected.items()))


def _faults(part: Part, splits: Mapping[str, Stored | None]) -> list[str]:
    """The splits that are missing, cannot be read, or lack a column."""
    faults: list[str | None] = [f"{part.place} has no {split} split" for split, one in splits.items() if one is None]
    for split, stored in ((split, stored) for split, stored in splits.items() if stored is not None):
        lacks = [name for name in part.columns if stored.columns and name not in stored.columns]
        has = f"has no column {lacks[0]!r}, only {', '.join(stored.columns)}" if lacks else None
        faults += [stored.problem, has and f"{part.place} ({split}) {has}"]
    return [fault for fault in faults if fault]


def _judged(part: Part, splits: Mapping[str, Stored | None], expected: Rows) -> Part:
    """The part with the rows that each split has (None: missing) beside the expected rows."""
    there = {split: stored for split, stored in splits.items() if stored is not None}
    fewer = [_fewer(part.what, split, stored.rows, expected.get(split)) for split, stored in there.items()]
    problems = [*_faults(part, splits), *fewer]
    columns = next((stored.columns for stored in there.values() if stored.columns), part.columns)
    counts = tuple((split, stored.rows if stored else None, expected.get(split)) for split, stored in splits.items())
    return replace(part, counts=counts, columns=columns, problem=next(filter(None, problems), None))


def _images(experiment: Experiment, spec: Images, root: Path) -> Part:
    if spec.source in image_sources.BUNDLED:
        return Part(spec.source, "with the installed packages", spec.source)
    hub, part = image_sources.hub_of(spec), Part(spec.source, None, image_sources.origin_of(spec))
    classes: int = experiment.model.classes  # type: ignore[union-attr]
    expected = _images_expected(spec, classes)
    try:
        here = image_sources.found_at(spec, root)
        if here is None:
            absent = replace(part, columns=hub.columns if hub else ())
            return _of_the_hub(absent, (hub.repository,) if hub else (), None, hub.rows if hub else expected)
        part = replace(part, place=str(here.place))
        if here.tables is not None:
            return _tables(replace(part, columns=here.tables.columns), here.tables, spec, classes)
        sets = image_sources.open_images(spec, root)
    except (ValueError, ImportError) as error:
        return replace(part, problem=str(error))
    splits = {split: Stored(len(pictures)) for split, pictures in zip(expected, sets, strict=True)}
    return _with_classes(_judged(part, splits, expected), len(np.unique(np.asarray(sets[0].labels))), classes)


def _images_expected(spec: Images, classes: int) -> dict[str, int | None]:
    if spec.train_per_class is not None:
        return {"train": spec.train_per_class * classes, "validation": None}
    return dict(zip(("train", "validation"), image_sources.SOURCES[spec.source].images, strict=True))


def _tables(part: Part, hub: HubImages, spec: Images, classes: int) -> Part:
    """Tables of images; only their row counts and the column of classes are read."""
    files = hub.local(Path(str(part.place)))
    splits = {split: stored_in(paths) for split, paths in files.items()}
    judged = _judged(part, splits, hub.rows)
    if _faults(part, splits):
        return judged
    training = [path for split in hub.train for path in files[split]]
    return _with_classes(judged, len(hub.classes(values_in(training, hub.name or hub.label), spec)), classes)


def _with_classes(part: Part, seen: int, classes: int) -> Part:
    """The part, after a check of the number of its classes."""
    wrong = (
        f"{part.place} has {seen} classes, and the experiment {classes}: fetch all of it" if seen != classes else None
    )
    return replace(part, problem=wrong or part.problem)


def _fewer(source: str, split: str, rows: int | None, expected: int | None) -> str | None:
    if rows is None or expected is None or rows >= 0.99 * expected:  # some expected numbers are inferred
        return None
    return f"{source} has {rows:,} of about {expected:,} rows in its {split} split: fetch all of it"


def _tokenizer(name: str, root: Path) -> Part:
    if name == "bytes":
        return Part("tokenizer bytes", "with oneclock", "oneclock")
    local = local_tokenizer(name, root)
    place = str(local) if local else _cached_file(hub_name(name), "tokenizer.json")
    return Part(
        f"tokenizer {name}", place, f"tokenizer.json of {hub_name(name)} of the Hugging Face hub (about 1.4 MB)"
    )


def _checkpoint(name: str) -> Part:
    from oneclock.lab.models.checkpoints import hub_checkpoint

    repository = hub_checkpoint(name)
    place = name if (Path(name) / "config.json").is_file() else _cached_file(repository, "config.json")
    return Part(f"checkpoint {name}", place, f"{repository} of the Hugging Face hub (about 0.25 GB)")


def _cached_file(repository: str, file: str) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repository, file)
    return path if isinstance(path, str) else None
