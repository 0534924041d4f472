"""Arrays that are made once and read by every run.

They are written to a temporary file, sealed, and checked at each read.

    ROOT/tokens/NAME-KEY.bin     the numbers, memory-mapped
    ROOT/tokens/NAME-KEY.json    the seal: bytes, SHA-256, notes of the writer, and a hash of these

Reading compares length and checksum, at more than a gigabyte a second. A file that differs from its seal, or has none,
is reported, renamed to `.damaged` and made again. The next writer removes the leftovers of a killed one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from oneclock.runs.key import hash_of, safe_name

_CHUNK = 1 << 24


@dataclass(frozen=True)
class Cached:
    """The numbers of a file, the digest of its bytes, and the notes of its writer."""

    values: np.ndarray
    digest: str
    notes: Mapping[str, Any]


def cached(
    root: Path, label: str, key: Any, dtype: Any, write: Callable[[BinaryIO], Mapping[str, Any] | None]
) -> Cached:
    """What `write` writes for `key`, from ROOT/tokens. The first caller makes it, and the others wait.

    What `write` returns is kept in the seal. A damaged file is made anew, with a line on stderr.
    """
    path = root / "tokens" / f"{safe_name(label)}-{hash_of(key)}.bin"
    array = _proven(path, dtype)
    if array is not None:
        return array
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(_lock(path)):
        array = _proven(path, dtype)  # another process may have made it meanwhile
        if array is None:
            _remove_leftovers(path.parent)
            _set_aside(path)
            _write(path, write)
            array = _proven(path, dtype)
    if array is None:
        raise OSError(f"{path} does not hold what was just written: check the disk")
    return array


def _proven(path: Path, dtype: Any) -> Cached | None:
    """The file, if it has the length and checksum of its seal; else None. Older seals have no hash."""
    try:
        seal = json.loads(_seal(path).read_text(encoding="utf-8"))
        proof, size, digest, notes = seal.pop("seal", None), seal["bytes"], seal["sha256"], seal["notes"]
        if proof not in (None, hash_of(seal)) or path.stat().st_size != size or _digest(path) != digest:
            return None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Cached(np.memmap(path, dtype=dtype, mode="r") if size else np.empty(0, dtype), digest, notes)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _set_aside(path: Path) -> None:
    if path.exists():
        aside = path.with_name(f"{path.name}.damaged")
        print(
            f"oneclock: {path} is damaged: it is not what its seal says; set aside as {aside.name} and made anew",
            file=sys.stderr,
        )
        os.replace(path, aside)
    _seal(path).unlink(missing_ok=True)


def _write(path: Path, write: Callable[[BinaryIO], Mapping[str, Any] | None]) -> None:
    """The file first and its seal second: a file without a seal does not count."""
    aside = _aside(path)
    try:
        with open(aside, "w+b") as file:
            notes = write(file)
            file.flush()
            os.fsync(file.fileno())
        seal = {"bytes": aside.stat().st_size, "sha256": _digest(aside), "notes": dict(notes or {})}
        os.replace(aside, path)
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(seal | {"seal": hash_of(seal)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, _seal(path))
    finally:
        aside.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed writers: those whose lock nobody holds."""
    from filelock import FileLock, Timeout

    for aside in folder.glob(".*.bin.new"):
        path = folder / aside.name[1 : -len(".new")]
        try:
            with FileLock(_lock(path), blocking=False):
                aside.unlink(missing_ok=True)
        except Timeout:
            continue


def _seal(path: Path) -> Path:
    return path.with_suffix(".json")


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _lock(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")
