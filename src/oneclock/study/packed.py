"""A finished study with all its runs in one file, for a repository or an archive: `pack` and `unpack`.

    STUDY/runs.jsonl     {"schema": 3, "runs": 23, "seal": ..}
                         {"schema": 3, "run": "EXPERIMENT/RUN", "files": {"run.json": "..", ..}, "seal": ..}
                         .. a line per run, sorted by name

The files stand in it as they were, byte for byte, with their own seals; every line has one more, so that records of
schema 1 are proved whole too. Either form is there in full before the other is removed.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from oneclock.guards import LARGEST_CURVE
from oneclock.study.claims import check_held
from oneclock.study.files import sealed, write_aside
from oneclock.study.places import NAMES, PACKED, Folder, folders, is_packed, lines
from oneclock.study.records import Run
from oneclock.study.sharing import take_alone

_LEFT = ("claim-", ".")
"""What a run's folder may hold besides: leavings of processes that are dead."""


def pack(study: str | Path) -> Path:
    """Put the runs of a study into one file in the place of their folders.

    Args:
        study: The study's folder. Every run in it has ended.

    Returns:
        The path of the file, `runs.jsonl`.

    Raises:
        ValueError: Where a run has not ended, is damaged, or has files of its own beside its record.

    >>> import tempfile
    >>> from oneclock.study.identity import Identity
    >>> path, identity = Path(tempfile.mkdtemp()), Identity("digits", 0.9, seed=1, budget=10)
    >>> run = Run.start(path / "runs" / identity.folder, identity)
    >>> run.log(10, val_loss=1.0); _ = run.finish("finished", seconds=1.0)
    >>> pack(path).name, unpack(path).name
    ('runs.jsonl', 'runs')
    """
    path = Path(study)
    _refuse_without(path, "runs")
    with take_alone(path):
        _refuse_without(path, "runs")  # others may have packed it until now
        found = {folder: _files(path / "runs" / folder, folder) for folder in folders(path)}
        text = "".join(f"{sealed({'run': folder, 'files': files})}\n" for folder, files in sorted(found.items()))
        write_aside(path / PACKED, f"{sealed({'runs': len(found)})}\n{text}")
        _remove(path / "runs")
    return path / PACKED


def unpack(study: str | Path) -> Path:
    """Put the runs of a packed study back into folders, as they were.

    Args:
        study: The study's folder.

    Returns:
        The path of the folders, `runs`.

    Raises:
        ValueError: Where the study is not packed, its file is damaged, or a folder holds another run of that name.

    >>> unpack("no-such-folder")
    Traceback (most recent call last):
    ValueError: no-such-folder is not packed: it has no runs.jsonl
    """
    path = Path(study)
    _refuse_without(path, PACKED)
    with take_alone(path):
        _refuse_without(path, PACKED)
        return write_folders(path)


def write_folders(path: Path) -> Path:
    """`unpack`, for whoever has claimed the study. Cut short, it goes on with what is not there yet."""
    for folder, line in lines(path):
        place = path / "runs" / folder
        if not place.exists():
            for left in place.parent.glob(f".{glob.escape(place.name)}.*"):  # by one that was cut short
                shutil.rmtree(left)
            aside = place.with_name(f".{place.name}.{os.getpid()}")
            aside.mkdir(parents=True)
            for name, data in line.files.items():
                (aside / name).write_bytes(data)
            aside.rename(place)
        elif any(Folder(place).read(name, LARGEST_CURVE) != data for name, data in line.files.items()):
            raise ValueError(f"{place} is not the run in {path / PACKED}; move one of them away")
    os.sync()
    check_held(path)
    (path / PACKED).unlink()
    return path / "runs"


def _refuse_without(path: Path, form: str) -> None:
    """ValueError where the runs are not in this form."""
    if form == PACKED and not (path / PACKED).exists():
        raise ValueError(f"{path} is not packed: it has no {PACKED}")
    if form != PACKED and (is_packed(path) or not (path / form).is_dir()):
        raise ValueError(f"{path} has no folder {form}/ to pack")


def _files(place: Path, folder: str) -> Mapping[str, str]:
    """The files of a run that has ended, as text."""
    run = Run.read(place)
    if run.whole()[0] is None:
        raise ValueError(f"{place} has not ended; finish the sweep before you pack the study")
    if run.identity.folder != folder:
        raise ValueError(f"{place} holds the run {run.identity.folder}; give it that name before you pack the study")
    for other in {*os.listdir(place)} - {*NAMES}:
        if not other.startswith(_LEFT) and not _is_empty(place / other):
            raise ValueError(f"{place / other} is no part of a record; move it away before you pack the study")
    data = {name: Folder(place).read(name, LARGEST_CURVE) for name in NAMES}
    return {name: found.decode("utf-8", "surrogateescape") for name, found in data.items() if found is not None}


def _is_empty(place: Path) -> bool:
    return place.is_dir() and not os.listdir(place)


def _remove(runs: Path) -> None:
    """Move the folders aside, then remove them: killed between, no half of them is taken for the study's runs."""
    aside = runs.with_name(f".{runs.name}.{os.getpid()}")
    runs.rename(aside)
    shutil.rmtree(aside)
