"""The framing of TensorBoard's event files: length, its checksum, data, its checksum. Bounded memory, any bytes.

A length is believed only if its checksum holds and the file is that long. A record too large for scalars (images,
histograms of many tensors) is passed over without being read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

LARGEST = 2**20
"""Bytes of the largest record that is read."""

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_BLOCK = 2**22
_SHORT = 2**12  # bytes; longer records are too few to be worth checking side by side


class Record(NamedTuple):
    """One record's bytes and the checksum that was written behind them; see `intact`."""

    data: bytes
    checksum: int


class Records:
    """The records of one file, in order. After the last, `damage` says what ended the reading early, if anything."""

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


def intact(records: Sequence[Record]) -> list[bool]:
    """Which of the records have the checksum they were written with: CRC-32C, the short ones all side by side.

    Without numpy, as in a browser, they are checked one after the other.
    """
    longest = _SHORT if find_spec("numpy") else -1
    results = iter(_side_by_side([record for record in records if len(record.data) <= longest]))
    return [
        next(results) if len(record.data) <= longest else _plain_checksum(record.data) == record.checksum
        for record in records
    ]


def _side_by_side(records: Sequence[Record]) -> list[bool]:
    if not records:
        return []
    import numpy as np

    table = np.array(_TABLE, dtype=np.uint32)
    lengths = np.array([len(record.data) for record in records], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    data = np.frombuffer(b"".join(records[index].data for index in order), dtype=np.uint8)
    lengths = lengths[order]
    starts = np.cumsum(lengths) - lengths
    crc = np.full(len(records), 0xFFFFFFFF, dtype=np.uint32)
    longer = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
    for column, count in enumerate(longer.tolist()):
        live = crc[:count]
        crc[:count] = table[(live ^ data[starts[:count] + column]) & 0xFF] ^ (live >> np.uint32(8))
    written = np.array([records[index].checksum for index in order], dtype=np.uint32)
    result = np.empty(len(records), dtype=bool)
    result[order] = _masked(crc.astype(np.uint64) ^ 0xFFFFFFFF) == written
    return result.tolist()


def _crc_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(entry >> 1) ^ (0x82F63B78 if entry & 1 else 0) for entry in table]
    return table


_TABLE = _crc_table()


def _masked(crc: Any) -> Any:
    """The form in which a checksum is written; of 32 bits held in more."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@lru_cache(4096)
def _checksum_of_length(length: int) -> int:
    return _plain_checksum(length.to_bytes(8, "little"))


def _plain_checksum(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return int(_masked(crc ^ 0xFFFFFFFF))
