"""TensorBoard's Event message: the parts that curves and arguments need, read from the wire format.

Invalid bytes raise ValueError. Field numbers are those of TensorFlow's event.proto, summary.proto,
tensor.proto and of the hparams plugin.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oneclock.logs.formats import protobuf
from oneclock.logs.formats.protobuf import BYTES, FIXED32, FIXED64, VARINT

_DOUBLE, _FLOAT, _HALF = struct.Struct("<d"), struct.Struct("<f"), struct.Struct("<e")
_LONG = struct.Struct("<q")

# tensor.proto: dtype -> (field of the values, their layout in tensor_content)
_TENSOR = {1: (5, _FLOAT), 2: (6, _DOUBLE), 3: (7, struct.Struct("<i")), 9: (10, _LONG), 19: (13, _HALF)}
_CONTENT = 4
_START = 1


@dataclass(frozen=True)
class Event:
    """`summary` is still encoded: `values` opens it. `restarts` says that steps from this one on are repeated."""

    step: int
    summary: bytes
    restarts: bool


def parse(data: bytes) -> Event:
    """One record's data as an event."""
    step, summary, restarts = 0, b"", False
    for number, kind, value in protobuf.fields(data):
        if number == 2 and kind == VARINT:
            step = value - 2**64 if value >= 2**63 else value
        elif number == 5 and kind == BYTES:
            summary = value
        elif number == 7 and kind == BYTES:
            restarts = any(field == (1, VARINT, _START) for field in protobuf.fields(value))
    return Event(step, summary, restarts)


def values(summary: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(tag, encoded value) of each summary in the event."""
    for number, kind, value in protobuf.fields(summary):
        if number == 1 and kind == BYTES:
            yield next((tag for field, wire, tag in protobuf.fields(value) if field == 1 and wire == BYTES), b""), value


def number_in(value: bytes) -> float | None:
    """The number in a summary's value: a simple_value, or a tensor of one number; None for anything else."""
    for number, kind, content in protobuf.fields(value):
        if number == 2 and kind == FIXED32:
            return float(_FLOAT.unpack(content)[0])
        if number == 8 and kind == BYTES:
            return _tensor(content)
    return None


def arguments(tag: bytes, value: bytes) -> dict[str, Any]:
    """The hyperparameters in a summary's value, written by the hparams plugin or as JSON text (transformers)."""
    for number, kind, content in protobuf.fields(value):
        if number == 9 and kind == BYTES and tag.startswith(b"_hparams_/"):
            return _hparams(content)
        if number == 8 and kind == BYTES and tag.split(b"/")[0] in (b"args", b"config", b"hparams"):
            return _json_text(content)
    return {}


def _tensor(data: bytes) -> float | None:
    fields = list(protobuf.fields(data))
    dtype = next((value for number, kind, value in fields if number == 1 and kind == VARINT), 0)
    if dtype not in _TENSOR:
        return None
    field, layout = _TENSOR[dtype]
    numbers = [(kind, value) for number, kind, value in fields if number in (field, _CONTENT)]
    if len(numbers) != 1:
        return None
    kind, value = numbers[0]
    if kind == BYTES and len(value) != layout.size and layout not in (_FLOAT, _DOUBLE):  # packed as a varint
        value, end = protobuf.varint(value, 0)
        kind = VARINT if end == len(numbers[0][1]) else BYTES
    if kind == VARINT:
        size = 2 if layout is _HALF else 8
        value, layout = (value % 2 ** (8 * size)).to_bytes(size, "little"), _HALF if size == 2 else _LONG
    return float(layout.unpack(value)[0]) if isinstance(value, bytes) and len(value) == layout.size else None


def _hparams(metadata: bytes) -> dict[str, Any]:
    hparams = {}
    for path_end in protobuf.descend(metadata, (1, 2, 3, 1)):
        entry = {number: value for number, _, value in protobuf.fields(path_end)}
        if isinstance(entry.get(1), bytes) and isinstance(entry.get(2), bytes):
            for number, kind, value in protobuf.fields(entry[2]):
                name = entry[1].decode(errors="replace")
                if number == 2 and kind == FIXED64:
                    hparams[name] = _DOUBLE.unpack(value)[0]
                elif number == 3 and kind == BYTES:
                    hparams[name] = value.decode(errors="replace")
    return hparams


def _json_text(tensor: bytes) -> dict[str, Any]:
    text = next((value for number, kind, value in protobuf.fields(tensor) if number == 8 and kind == BYTES), b"")
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}
