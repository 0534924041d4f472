"""TensorBoard's Event message, as much of it as curves and arguments need, straight from the wire format.

Bytes of no message raise ValueError. Field numbers are those of TensorFlow's event.proto, summary.proto,
tensor.proto and of the hparams plugin.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DOUBLE, _FLOAT, _HALF = struct.Struct("<d"), struct.Struct("<f"), struct.Struct("<e")
_LONG = struct.Struct("<q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# tensor.proto: dtype -> (field of the values, their layout in tensor_content)
_TENSOR = {1: (5, _FLOAT), 2: (6, _DOUBLE), 3: (7, struct.Struct("<i")), 9: (10, _LONG), 19: (13, _HALF)}
_CONTENT = 4
_START = 1

# What nearly every record of a log of scalars is: wall time, step, and one tag with its simple_value.
_ONE_SCALAR = re.compile(
    rb"\x09.{8}(?:\x10([\x80-\xff]{0,8}[\x00-\x7f]))?\x2a([\x00-\x7f])\x0a([\x00-\x7f])\x0a([\x00-\x7f])(.+)\x15(.{4})",
    re.DOTALL,
)


@dataclass(frozen=True)
class Event:
    """`summary` is still encoded: `values` opens it. `restarts` says that steps from this one on are repeated."""

    step: int
    summary: bytes
    restarts: bool


def one_scalar(data: bytes) -> tuple[int, bytes, float] | None:
    """(step, tag, value) of the plainest event, several times faster than `parse`; None for all others."""
    match = _ONE_SCALAR.fullmatch(data)
    if match is None:
        return None
    step, summary, value, length, tag, number = match.groups()
    if not len(tag) == length[0] == value[0] - 7 == summary[0] - 9:
        return None
    return (0 if step is None else _varint(step, 0)[0]), tag, _FLOAT.unpack(number)[0]


def parse(data: bytes) -> Event:
    """One record's data as an event."""
    step, summary, restarts = 0, b"", False
    for number, kind, value in _fields(data):
        if number == 2 and kind == _VARINT:
            step = value - 2**64 if value >= 2**63 else value
        elif number == 5 and kind == _BYTES:
            summary = value
        elif number == 7 and kind == _BYTES:
            restarts = any(field == (1, _VARINT, _START) for field in _fields(value))
    return Event(step, summary, restarts)


def values(summary: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(tag, encoded value) of each summary in the event."""
    for number, kind, value in _fields(summary):
        if number == 1 and kind == _BYTES:
            yield next((tag for field, wire, tag in _fields(value) if field == 1 and wire == _BYTES), b""), value


def scalar(value: bytes) -> float | None:
    """The number in a summary's value: a simple_value, or a tensor of one number; None for anything else."""
    for number, kind, content in _fields(value):
        if number == 2 and kind == _FIXED32:
            return float(_FLOAT.unpack(content)[0])
        if number == 8 and kind == _BYTES:
            return _tensor(content)
    return None


def arguments(tag: bytes, value: bytes) -> dict[str, Any]:
    """The hyperparameters in a summary's value, as the hparams plugin or a text of JSON (transformers) writes them."""
    for number, kind, content in _fields(value):
        if number == 9 and kind == _BYTES and tag.startswith(b"_hparams_/"):
            return _hparams(content)
        if number == 8 and kind == _BYTES and tag.split(b"/")[0] in (b"args", b"config", b"hparams"):
            return _json_text(content)
    return {}


def _tensor(data: bytes) -> float | None:
    fields = list(_fields(data))
    dtype = next((value for number, kind, value in fields if number == 1 and kind == _VARINT), 0)
    if dtype not in _TENSOR:
        return None
    field, layout = _TENSOR[dtype]
    numbers = [(kind, value) for number, kind, value in fields if number in (field, _CONTENT)]
    if len(numbers) != 1:
        return None
    kind, value = numbers[0]
    if kind == _BYTES and len(value) != layout.size and layout not in (_FLOAT, _DOUBLE):  # packed as a varint
        value, end = _varint(value, 0)
        kind = _VARINT if end == len(numbers[0][1]) else _BYTES
    if kind == _VARINT:
        size = 2 if layout is _HALF else 8
        value, layout = (value % 2 ** (8 * size)).to_bytes(size, "little"), _HALF if size == 2 else _LONG
    return float(layout.unpack(value)[0]) if isinstance(value, bytes) and len(value) == layout.size else None


def _hparams(metadata: bytes) -> dict[str, Any]:
    found = {}
    for path_end in _descend(metadata, (1, 2, 3, 1)):
        entry = {number: value for number, _, value in _fields(path_end)}
        if isinstance(entry.get(1), bytes) and isinstance(entry.get(2), bytes):
            for number, kind, value in _fields(entry[2]):
                name = entry[1].decode(errors="replace")
                if number == 2 and kind == _FIXED64:
                    found[name] = _DOUBLE.unpack(value)[0]
                elif number == 3 and kind == _BYTES:
                    found[name] = value.decode(errors="replace")
    return found


def _json_text(tensor: bytes) -> dict[str, Any]:
    text = next((value for number, kind, value in _fields(tensor) if number == 8 and kind == _BYTES), b"")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _descend(data: bytes, numbers: tuple[int, ...]) -> Iterator[bytes]:
    for number, kind, value in _fields(data):
        if number == numbers[0] and kind == _BYTES:
            if len(numbers) == 1:
                yield value
            else:
                yield from _descend(value, numbers[1:])


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, value) of a message: an int for varints, bytes for all else."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 128:
            at += 1
        else:
            key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, kind, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind == _FIXED64:
            length = 8
        elif kind == _FIXED32:
            length = 4
        else:
            raise ValueError("a record is not an event")
        if at + length > end:
            raise ValueError("a record is not an event")
        yield key >> 3, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("a record is not an event")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise ValueError("a record is not an event")
