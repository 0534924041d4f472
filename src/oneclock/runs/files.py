"""Plain JSON files that prove themselves whole: written aside and moved, and sealed with a checksum of what they say.

A file ends with `seal`, the hash of all its text before that. So a file that was cut, emptied or changed is noticed.
Files of schema 2 have the hash of all other fields, which takes longer to compare; those of schema 1 have none and are
read as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneclock.guards import small_bytes
from oneclock.runs.key import hash_of
from oneclock.runs.lock import check_held

SCHEMA = 3
"""The version of the layout that is written."""


class Damaged(ValueError):
    """A file that oneclock wrote and that no longer says what was written."""


def read_json(path: Path) -> dict[str, Any]:
    """A sealed JSON object; anything else is a ValueError in one line, `Damaged` where its seal does not fit.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> write_json(path, {"steps": 100})
    >>> read_json(path)["steps"]
    100
    """
    try:
        return unsealed(small_bytes(path), path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: this is not a record of oneclock") from None


def unsealed(data: bytes, source: object) -> dict[str, Any]:
    """The JSON object in these bytes, as `read_json` of a file; `source` names them in an error."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{source} is not JSON: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, int):
        raise ValueError(f"{source} is not a record of oneclock: it has no schema")
    if schema > SCHEMA:
        raise ValueError(f"{source} has schema {schema}, newer than this oneclock knows ({SCHEMA}); upgrade oneclock")
    seal = value.pop("seal", None)
    if schema > 1 and not (_ends_with(data, seal) if schema > 2 else seal == hash_of(value)):
        raise Damaged(f"{source} is damaged: it does not say what was written (its seal does not fit)")
    return value


def sealed(value: Mapping[str, Any], indent: int | None = None) -> str:
    """The object as JSON text under this schema, with its seal; `unsealed` reads it."""
    text = json.dumps({"schema": SCHEMA, **value, "seal": ""}, indent=indent, allow_nan=False)
    before, _, end = text.rpartition('""')
    return f'{before}"{_seal(before.encode())}"{end}'


def _ends_with(data: bytes, seal: object) -> bool:
    """Whether this is the seal of all that stands before it, and nothing but the object's end behind it."""
    before, mark, end = data.rpartition(f'"{seal}"'.encode())
    return bool(mark) and _seal(before) == seal and end.split() == [b"}"]


def _seal(before: bytes) -> str:
    return hashlib.sha256(before).hexdigest()[:16]


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write the object, sealed, under this schema: a reader sees the whole file or none."""
    write_aside(path, sealed(value, indent=1) + "\n")


def write_aside(path: Path, text: str) -> None:
    """Write beside the file, then move: whatever dies, the old file or the new one is there, whole.

    `Held` where this process held the folder and another has taken it over meanwhile: the file is the other's then.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")  # pids repeat from host to host
    try:
        with open(aside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        check_held(path.parent)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def sweep_asides(folder: Path) -> None:
    """Remove what killed writers left beside the files of a folder that this process alone works on."""
    for left in folder.glob(".*.json*.[0-9]*"):
        left.unlink(missing_ok=True)
