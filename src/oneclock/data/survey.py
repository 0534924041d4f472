"""What an experiment's data are like before it is trained: what is here, what would be downloaded, and whether it fits.

Nothing is downloaded, tokenized or decoded. Rows are counted where the files say how many they hold.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oneclock.data import image_sources
from oneclock.data.places import data_root, shortened
from oneclock.data.text_sources import BUNDLED, HUB, Documents
from oneclock.data.tokens import hub_name, local_tokenizer
from oneclock.experiments.spec import T5, Experiment, Images, Text


@dataclass(frozen=True)
class Part:
    """One thing an experiment needs: where it is (None: not here), else where it would come from, and what is wrong.

    `counts` are (split, found or None where the files do not say, expected or None).
    """

    what: str
    place: str | None
    origin: str
    counts: tuple[tuple[str, int | None, int | None], ...] = ()
    problem: str | None = None

    @property
    def fits(self) -> bool:
        """Whether nothing is known to be wrong with it."""
        return self.problem is None


def survey(experiment: Experiment, data_dir: Path | None = None) -> tuple[Part, ...]:
    """Everything an experiment needs, looked at and left alone."""
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
    size = f" (about {hub.gigabytes:g} GB)" if hub.gigabytes else ""
    reach = ", read only as far as the budget needs" if spec.streaming else ""
    origin = f"{' or '.join((hub.repository, *hub.copies))} of the Hugging Face hub{size}{reach}"
    try:
        splits = {split: Documents(spec, split, root) for split in ("train", "validation")}
    except ValueError as error:
        return Part(spec.source, str(root / spec.source), origin, problem=str(error))
    files: dict[str, list[Path]] = {documents.stored: documents.files for documents in splits.values()}
    if not any(files.values()):
        return Part(spec.source, _hub_copy(hub.repository), origin)
    counts: list[tuple[str, int | None, int | None]] = []
    problems = [f"{root / spec.source} has no {split} split" for split, paths in files.items() if not paths]
    for split, paths in files.items():
        expected = hub.rows.get(split)
        found, problem = _rows(paths)
        counts.append((split, found, expected))
        problems += [problem or _fewer(spec.source, split, found, expected) or ""]
    return Part(spec.source, str(root / spec.source), origin, tuple(counts), next(filter(None, problems), None))


def _rows(paths: list[Path]) -> tuple[int | None, str | None]:
    """The rows of Parquet files, as these say, and what is wrong with the first that is wrong."""
    total = 0
    for path in paths:
        if path.suffix != ".parquet":
            return None, None
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(path)
        except (OSError, ValueError) as error:
            return None, f"{path} cannot be read ({shortened(error)}): fetch it again"
        if "text" not in file.schema_arrow.names:
            return None, f"{path} has no column 'text', only {', '.join(file.schema_arrow.names)}"
        total += file.metadata.num_rows
    return (total if paths else None), None


def _images(experiment: Experiment, spec: Images, root: Path) -> Part:
    if spec.source in image_sources.BUNDLED:
        return Part(spec.source, "with the installed packages", spec.source)
    source, origin = image_sources.SOURCES[spec.source], image_sources.origin_of(spec)
    if image_sources.is_here(spec, root) is None:
        return Part(spec.source, _hub_copy(source.hub.repository) if source.hub else None, origin)
    place = str(root / str(image_sources.is_here(spec, root)))
    try:
        sets = image_sources.open_images(spec, root)
    except (ValueError, ImportError) as error:
        return Part(spec.source, place, origin, problem=str(error))
    classes = experiment.model.classes  # type: ignore[union-attr]
    wanted = source.images if spec.train_per_class is None else (spec.train_per_class * classes, None)
    counts = tuple(
        (split, len(pictures), expected)
        for split, pictures, expected in zip(("train", "validation"), sets, wanted, strict=True)
    )
    seen = len(np.unique(np.asarray(sets[0].labels)))
    problem = f"{place} has {seen} classes, and the experiment {classes}: fetch all of it" if seen != classes else None
    fewer = (_fewer(spec.source, *count) for count in counts)
    return Part(spec.source, place, origin, counts, problem or next(filter(None, fewer), None))


def _fewer(source: str, split: str, found: int | None, expected: int | None) -> str | None:
    if found is None or expected is None or found >= 0.99 * expected:  # some expected figures are inferred
        return None
    return f"{source} has {found:,} of about {expected:,} rows in its {split} split: fetch all of it"


def _tokenizer(name: str, root: Path) -> Part:
    if name == "bytes":
        return Part("tokenizer bytes", "with oneclock", "oneclock")
    local = local_tokenizer(name, root)
    place = str(local) if local else _cached_file(hub_name(name), "tokenizer.json")
    return Part(f"tokenizer {name}", place, f"tokenizer.json of {hub_name(name)} of the Hugging Face hub")


def _checkpoint(name: str) -> Part:
    from oneclock.models.checkpoints import hub_checkpoint

    repository = hub_checkpoint(name)
    place = name if (Path(name) / "config.json").is_file() else _cached_file(repository, "config.json")
    return Part(f"checkpoint {name}", place, f"{repository} of the Hugging Face hub (about 0.25 GB)")


def _cached_file(repository: str, file: str) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, file)
    return found if isinstance(found, str) else None


def _hub_copy(repository: str) -> str | None:
    """The folder in which datasets keeps a repository that it has loaded before."""
    from datasets import config

    folder = Path(os.fspath(config.HF_DATASETS_CACHE)) / repository.replace("/", "___").lower()
    return str(folder) if folder.is_dir() else None
