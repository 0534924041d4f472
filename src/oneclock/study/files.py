"""Plain JSON files that prove themselves whole: written aside and moved, and sealed with a checksum of what they say.

A file of schema 2 carries `seal`, the hash of all its other fields; one that was cut, emptied or changed is told apart
from one that oneclock wrote. Files of schema 1 have none and are read as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneclock.guards import small_file
from oneclock.study.claims import check_held
from oneclock.study.identity import hash_of

SCHEMA = 2
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
        text = small_file(Path(path)).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: this is not a record of oneclock") from None
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is not JSON: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, int):
        raise ValueError(f"{path} is not a record of oneclock: it has no schema")
    if schema > SCHEMA:
        raise ValueError(f"{path} has schema {schema}, newer than this oneclock knows ({SCHEMA}); upgrade oneclock")
    if schema > 1 and value.pop("seal", None) != _seal(value):
        raise Damaged(f"{path} is damaged: it does not say what was written (its seal does not fit)")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write the object, sealed, under this schema: a reader sees the whole file or none."""
    whole = json.loads(json.dumps({"schema": SCHEMA, **value}, allow_nan=False))
    write_aside(path, json.dumps(whole | {"seal": _seal(whole)}, indent=1) + "\n")


def write_aside(path: Path, text: str) -> None:
    """Write beside the file, then move: whatever dies, the old file or the new one is there, whole.

    `Held` where this process held the folder and another has taken it over meanwhile: the file is the other's then.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
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


def _seal(value: Mapping[str, Any]) -> str:
    return hash_of(value)
