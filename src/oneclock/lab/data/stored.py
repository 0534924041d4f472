"""What data files tell without reading them in full: rows, columns, and whether they can be opened.

This covers local files of a split, and repositories that datasets has prepared and keeps in its cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneclock.lab.data.data_dirs import dataset_loader, shortened
from oneclock.lab.data.text_sources import builder_of


@dataclass(frozen=True)
class Stored:
    """A split: its rows (None: unknown), its columns, and the problem of the first bad file."""

    rows: int | None
    columns: tuple[str, ...] = ()
    problem: str | None = None


def stored_in(paths: Sequence[Path]) -> Stored | None:
    """A split in local files, all of one format; None if there are none."""
    parts: list[Stored] = []
    for path in paths:
        try:
            parts.append(_READERS.get(path.suffix, _first_row)(path))
        except Exception as error:  # whatever a damaged file makes of the libraries that read it
            return Stored(None, (), f"{path} cannot be read ({shortened(error.__cause__ or error)}): fetch it again")
        if parts[-1].rows is None:
            return parts[-1]
    return Stored(sum(one.rows or 0 for one in parts), parts[0].columns) if parts else None


def values_in(paths: Sequence[Path], column: str) -> set[Any]:
    """The different values of a column of Parquet or Arrow files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    values: set[Any] = set()
    for path in paths:
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=[column])
        else:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_stream(file).read_all()
        values |= set(table[column].unique().to_pylist())
    return values


def _parquet(path: Path) -> Stored:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return Stored(file.metadata.num_rows, tuple(file.schema_arrow.names))


def _arrow(path: Path) -> Stored:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return Stored(sum(batch.num_rows for batch in stream), tuple(stream.schema.names))


def _first_row(path: Path) -> Stored:
    """The columns of a file that does not say how many rows it has."""
    rows = dataset_loader()(str(builder_of(path)), data_files=[str(path)], split="train", streaming=True)
    return Stored(None, tuple(next(iter(rows), {})))


_READERS: Mapping[str, Callable[[Path], Stored]] = {".parquet": _parquet, ".arrow": _arrow}


def prepared(repository: str, config: str | None) -> tuple[Path, Mapping[str, Stored]] | None:
    """The newest prepared copy of a repository in the cache of datasets: its folder and its splits."""
    from datasets import DatasetInfo
    from datasets import config as settings
    from datasets.naming import camelcase_to_snakecase

    owner, _, name = repository.rpartition("/")
    folder = Path(os.fspath(settings.HF_DATASETS_CACHE)) / f"{owner}___{camelcase_to_snakecase(name)}"
    infos = sorted(folder.glob(f"{config or '*'}/*/*/dataset_info.json"), key=lambda path: path.stat().st_mtime)
    if not infos:
        return None
    info: Any = DatasetInfo.from_directory(str(infos[-1].parent))
    columns = tuple(info.features or ())
    return infos[-1].parent, {name: Stored(one.num_examples, columns) for name, one in (info.splits or {}).items()}
