"""The wire format of protocol buffers: the parts that the readers of event files and W&B's run files need.

Invalid bytes raise ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types."""


def descend(data: bytes, numbers: tuple[int, ...]) -> Iterator[bytes]:
    """The nested messages under these field numbers.

    >>> list(descend(bytes([10, 4, 18, 2, 8, 1]), (1, 2)))
    [b'\\x08\\x01']
    """
    for number, kind, value in fields(data):
        if number == numbers[0] and kind == BYTES:
            if len(numbers) == 1:
                yield value
            else:
                yield from descend(value, numbers[1:])


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, value) of a message: an int for varints, bytes for all else.

    >>> list(fields(bytes([8, 150, 1, 18, 2, 104, 105])))
    [(1, 0, 150), (2, 2, b'hi')]
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 128:
            at += 1
        else:
            key, at = varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            length, at = varint(data, at)
        elif kind == FIXED64:
            length = 8
        elif kind == FIXED32:
            length = 4
        else:
            raise ValueError("a record is no message")
        if at + length > end:
            raise ValueError("a record is no message")
        yield key >> 3, kind, data[at : at + length]
        at += length


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends.

    >>> varint(bytes([150, 1]), 0)
    (150, 2)
    """
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("a record is no message")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise ValueError("a record is no message")
