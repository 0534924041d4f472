"""The framing of TensorBoard's event files: length, its checksum, data, its checksum.

Any bytes are read in bounded memory.

A length counts only if its checksum is right and the file is that long. A record too large for scalars (images,
histograms of many tensors) is skipped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

LARGEST = 2**20
"""Bytes of the largest record that is read."""

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_BLOCK = 2**22


class Record:
    """One record's bytes and the checksum after them."""

    def __init__(self, data: bytes, checksum: int) -> None:
        self.data, self._checksum = data, checksum
        self._is_checked = False

    def check(self) -> None:
        """ValueError if the bytes do not have the checksum they were written with."""
        if not self._is_checked and _masked_crc(self.data) != self._checksum:
            raise ValueError("a record is damaged")
        self._is_checked = True


class Records:
    """The records of one file, in order. After the last, `damage` says why reading ended early, if it did."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damage: str | None = None

    def __iter__(self) -> Iterator[Record]:
        size = os.path.getsize(self._path)
        with open(self._path, "rb") as file:
            block, at, position = b"", 0, 0  # position is where in the file block[at] lies
            while position < size:
                if len(block) - at < _HEADER.size:
                    block, at = block[at:] + file.read(_BLOCK), 0
                if len(block) < _HEADER.size:
                    self.damage = "its last record is cut off"
                    return
                length, checksum = _HEADER.unpack_from(block, at)
                if checksum != _checksum_of_length(length):
                    self.damage = f"it is damaged at byte {position:,}, and what follows was left out"
                    return
                whole = _HEADER.size + length + _CHECKSUM.size
                if position + whole > size:
                    self.damage = "its last record is cut off"
                    return
                if length > LARGEST:
                    file.seek(position + whole)
                    block, at = b"", 0
                else:
                    if len(block) - at < whole:
                        block, at = block[at:] + file.read(max(_BLOCK, whole)), 0
                        if len(block) < whole:
                            self.damage = "it became shorter while it was read"
                            return
                    end = at + whole - _CHECKSUM.size
                    yield Record(block[at + _HEADER.size : end], _CHECKSUM.unpack_from(block, end)[0])
                    at += whole
                position += whole


def starts_with_record(path: Path) -> bool:
    """Whether the file begins with a record, by the checksum of its length."""
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return False
    length, checksum = _HEADER.unpack(header)
    return bool(checksum == _checksum_of_length(length))


def _crc_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(entry >> 1) ^ (0x82F63B78 if entry & 1 else 0) for entry in table]
    return table


_TABLE = _crc_table()


@lru_cache(4096)
def _checksum_of_length(length: int) -> int:
    return _masked_crc(length.to_bytes(8, "little"))


def _masked_crc(data: bytes) -> int:
    """CRC-32C in the form that the files use."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
