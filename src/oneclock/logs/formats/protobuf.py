"""The wire format of protocol buffers, as event files and W&B's run files have it. Invalid bytes raise ValueError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # the wire types
_LENGTHS = {FIXED64: 8, FIXED32: 4}


def descend(data: bytes, *numbers: int) -> Iterator[bytes]:
    """The nested messages under these field numbers."""
    if not numbers:
        yield data
        return
    for number, kind, value in fields(data):
        if number == numbers[0] and kind == BYTES:
            yield from descend(value, *numbers[1:])


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, value) of a message: an int for varints, bytes for all else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, kind, value
            continue
        length, at = _varint(data, at) if kind == BYTES else (_LENGTHS.get(kind, len(data)), at)
        if at + length > len(data):
            raise ValueError("a record is no message")
        yield key >> 3, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value & (2**64 - 1), at + index + 1
    raise ValueError("a record is no message")


def json_value(text: bytes) -> Any:
    """What a field of JSON text says, None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
