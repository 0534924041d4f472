"""A finished study with all its runs in one file, for a repository or an archive: `pack` and `unpack`.

    STUDY/runs.jsonl     {"schema": 3, "runs": 23, "seal": ..}
                         {"schema": 3, "run": "EXPERIMENT/RUN", "files": {"run.json": "..", ..}, "seal": ..}
                         .. a line per run, sorted by name

The files are stored byte for byte, with their own seals; every line has a seal too, so that records of schema 1 are
also checked. One form is complete before the other is removed. The user's own files in `run.folder` are not records:
they move to STUDY/files/EXPERIMENT/RUN and back.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from oneclock.guards import LARGEST_CURVE
from oneclock.runs.files import (
    PACKED,
    RECORD_FILE,
    Files,
    folders,
    is_packed,
    packed_runs,
    sealed,
    write_aside,
)
from oneclock.runs.folder import RunFolder
from oneclock.runs.lock import aside_of, check_held, take_alone

_LEFT = ("claim-", ".")
"""Other files that may be in a run's folder: those that dead processes left."""

OWN_FILES = "files"
"""The folder for a run's own files, `run.folder`: checkpoints, for example."""


def pack(study: str | Path) -> Path:
    """Put the runs of a study into one file in the place of their folders.

    Args:
        study: The study's folder. Every run in it has ended.

    Returns:
        The path of the file, `runs.jsonl`.

    Raises:
        ValueError: If a run has not ended or is damaged, or unknown files lie beside its record.

    Files in `run.folder` are not packed: they move to `STUDY/files/EXPERIMENT/RUN/`, and `unpack` moves them back.

    >>> import tempfile
    >>> from oneclock.runs.key import RunKey
    >>> path, key = Path(tempfile.mkdtemp()), RunKey("digits", 0.9, seed=1, budget=10)
    >>> run = RunFolder.start(path / "runs" / key.folder, key)
    >>> run.log(10, val_loss=1.0); _ = run.finish("finished", seconds=1.0)
    >>> pack(path).name, unpack(path).name
    ('runs.jsonl', 'runs')
    """
    path = Path(study)
    _refuse_without(path, "runs")
    with take_alone(path):
        _refuse_without(path, "runs")  # another process may have packed it meanwhile
        _refuse_kept_files(path)
        files_by_run = {folder: _record_files(path / "runs" / folder, folder) for folder in folders(path)}
        text = "".join(f"{sealed({'run': folder, 'files': files})}\n" for folder, files in sorted(files_by_run.items()))
        write_aside(path / PACKED, f"{sealed({'runs': len(files_by_run)})}\n{text}")
        _keep_own_files(path)
        _remove(path / "runs")
    return path / PACKED


def unpack(study: str | Path) -> Path:
    """Put the runs of a packed study back into folders, as they were.

    Args:
        study: The study's folder.

    Returns:
        The path of the folders, `runs`.

    Raises:
        ValueError: If the study is not packed, its file is damaged, or a folder holds another run of that name.

    >>> unpack("no-such-folder")
    Traceback (most recent call last):
    ValueError: no-such-folder is not packed: it has no runs.jsonl
    """
    path = Path(study)
    _refuse_without(path, PACKED)
    with take_alone(path):
        _refuse_without(path, PACKED)
        return _write_folders(path)


def _write_folders(path: Path) -> Path:
    """After an interruption it continues with the missing runs."""
    for folder, files in packed_runs(path):
        contents = {name: files.read(name) or b"" for name in files.packed or ()}
        target = path / "runs" / folder
        if not target.exists():
            for left in target.parent.glob(f".{glob.escape(target.name)}.*"):  # by an interrupted call
                shutil.rmtree(left)
            aside = aside_of(target)
            aside.mkdir(parents=True)
            for name, data in contents.items():
                (aside / name).write_bytes(data)
            aside.rename(target)
        elif any(Files(target).read(name, LARGEST_CURVE) != data for name, data in contents.items()):
            raise ValueError(f"{target} is not the run in {path / PACKED}; move one of them away")
    _bring_own_files_back(path)
    os.sync()
    check_held(path)
    (path / PACKED).unlink()
    return path / "runs"


def _refuse_kept_files(path: Path) -> None:
    """ValueError if files of an earlier packing would be overwritten."""
    for kept in (path / OWN_FILES).glob("*/*"):
        if (path / "runs" / kept.relative_to(path / OWN_FILES) / OWN_FILES).exists():
            raise ValueError(f"{kept} would be overwritten by a run's own files; move it away")


def _refuse_without(path: Path, form: str) -> None:
    """ValueError if the runs are not in this form."""
    if form == PACKED and not (path / PACKED).exists():
        raise ValueError(f"{path} is not packed: it has no {PACKED}")
    if form != PACKED and (is_packed(path) or not (path / form).is_dir()):
        raise ValueError(f"{path} has no folder {form}/ to pack")


def _record_files(path: Path, folder: str) -> Mapping[str, str]:
    """The files of a run's record as text; ValueError if the run has not ended, or unknown files lie beside its
    record.
    """
    run = RunFolder.read(path)
    if run.whole()[0] is None:
        raise ValueError(f"{path} has not ended; finish the sweep before you pack the study")
    if run.key.folder != folder:
        raise ValueError(f"{path} holds the run {run.key.folder}; give it that name before you pack the study")
    names = os.listdir(path)
    for other in names:
        record = RECORD_FILE.fullmatch(other) is not None
        expected = record or other == OWN_FILES or other.startswith(_LEFT)
        if not expected and not _is_empty(path / other):
            raise ValueError(f"{path / other} is not part of a record; move it away before you pack the study")
    data = {name: Files(path).read(name, LARGEST_CURVE) for name in sorted(names) if RECORD_FILE.fullmatch(name)}
    return {name: content.decode("utf-8", "surrogateescape") for name, content in data.items() if content is not None}


def _keep_own_files(path: Path) -> None:
    """Move what runs keep in their `files/` (checkpoints, say) to STUDY/files/EXPERIMENT/RUN, out of the way."""
    for folder in folders(path):
        own = path / "runs" / folder / OWN_FILES
        if own.is_dir() and not _is_empty(own):
            kept = path / OWN_FILES / folder
            kept.parent.mkdir(parents=True, exist_ok=True)
            own.rename(kept)


def _bring_own_files_back(path: Path) -> None:
    for kept in sorted((path / OWN_FILES).glob("*/*")):
        target = path / "runs" / kept.relative_to(path / OWN_FILES)
        if target.is_dir():
            with suppress(FileNotFoundError):
                (target / OWN_FILES).rmdir()  # only if it is empty; otherwise it is an error
            kept.rename(target / OWN_FILES)
    for left in (*(path / OWN_FILES).glob("*"), path / OWN_FILES):
        with suppress(OSError):
            left.rmdir()


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not os.listdir(path)


def _remove(runs: Path) -> None:
    """Rename the folders, then remove them: after a kill in between, no incomplete set counts as the study's runs."""
    aside = aside_of(runs)
    runs.rename(aside)
    shutil.rmtree(aside)
