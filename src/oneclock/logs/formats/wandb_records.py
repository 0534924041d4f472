"""The framing of W&B's run files: blocks of 32 kB with records in them, a long record in several pieces.

It is the log format of LevelDB with another checksum (zlib's CRC-32 over a piece's type and data) and a header of seven
bytes. Any bytes are read in bounded memory. After a damaged piece the rest of its block is skipped and counted.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from oneclock import guards

LARGEST = 2**22
"""Bytes of the largest record that is kept; longer ones (tables, media) have no curves."""

_MAGIC = b":W&B\xe1\xbe"
_PIECE = struct.Struct("<IHB")
_BLOCK = 2**15
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class Records:
    """The records of one file, in order. `damaged` counts blocks with a damaged piece; `torn` says the end is cut."""

    def __init__(self, path: Path) -> None:
        self._path = guards.plain_file(path)
        self.damaged = 0
        self.torn = False

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] | None = None
        for kind, data in self._pieces():
            if kind == _FULL:
                begun = None
                yield data
            elif kind == _FIRST:
                begun = [data]
            elif begun is not None and kind in (_MIDDLE, _LAST):
                begun.append(data)
                if sum(map(len, begun)) > LARGEST:
                    begun = None
                elif kind == _LAST:
                    yield b"".join(begun)
                    begun = None

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        left = os.path.getsize(self._path) - _PIECE.size
        with open(self._path, "rb") as file:
            at = len(file.read(_PIECE.size))  # the file's own header, as long as a piece's
            while left > 0 and (block := file.read(min(_BLOCK - at, left))):
                left -= len(block)
                yield from self._of_block(block, last=left <= 0)
                at = 0

    def _of_block(self, block: bytes, last: bool) -> Iterator[tuple[int, bytes]]:
        at = 0
        while at + _PIECE.size <= len(block):
            checksum, length, kind = _PIECE.unpack_from(block, at)
            data = block[at + _PIECE.size : at + _PIECE.size + length]
            if len(data) < length and last:
                self.torn = True
                return
            if not _FULL <= kind <= _LAST or zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
                self.damaged += 1
                return
            yield kind, data
            at += _PIECE.size + length
        self.torn = last and any(block[at:])


def is_run_file(path: Path) -> bool:
    """Whether the file begins as W&B's run files do."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
