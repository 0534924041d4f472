"""W&B's own run file, `run-ID.wandb`, of runs online and offline, read without wandb: every point, without sampling.

The file has blocks of 32 kB with records in them, a long record in several pieces. It is the log format of LevelDB with
another checksum (zlib's CRC-32 over a piece's type and data) and a header of seven bytes. After a damaged piece the
rest of its block is skipped. Field numbers are those of W&B's wandb_internal.proto.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs.arguments import ARGUMENTS
from oneclock.logs.formats import protobuf
from oneclock.logs.formats.protobuf import BYTES, FIXED64, VARINT
from oneclock.logs.names import counted
from oneclock.logs.rows import Row, read_rows
from oneclock.logs.source import MOST_RUNS, Contents, Wanted, together

FORMAT = "W&B run file"
_MAGIC = b":W&B\xe1\xbe"
_PATTERNS = ("*.wandb", "*run-*/run-*.wandb", "wandb/*run-*/run-*.wandb")
_PIECE = struct.Struct("<IHB")  # checksum, length, kind
_BLOCK = 2**15
_FULL, _FIRST, _LAST = 1, 2, 4  # kinds of pieces; 3 is one in the middle
_LARGEST = 2**22  # bytes of the largest record that is kept; longer ones (tables, media) have no curves
_HISTORY, _CONFIG, _RUN = 2, 5, 17  # fields of Record
_RUN_CONFIG, _RUN_NAME = 4, 8
_KEY, _NESTED = 1, 2  # fields of an item of a history or a config: its name, or the parts of it
_VALUES = {  # how each kind of value is read: field and wire type -> function of its content
    (16, BYTES): protobuf.json_value,
    (6, FIXED64): lambda content: struct.unpack("<d", content)[0],
    (5, VARINT): lambda content: (content >> 1) ^ -(content & 1),
}
_MOST_ITEMS = 2**14


def sniff(path: Path) -> bool:
    return next(_files(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """One run's file or folder, or W&B's own folder with several runs."""
    files = sorted({file.resolve() for file in islice(_files(path), 2 * MOST_RUNS)})
    if len(files) > MOST_RUNS:
        raise ValueError(f"{path} holds more than {MOST_RUNS} runs; name the folder of one")
    return together([_load_file(file, wanted) for file in files], path)


def _files(path: Path) -> Iterator[Path]:
    files = (file for pattern in _PATTERNS for file in path.glob(pattern)) if path.is_dir() else iter([path])
    for file in files:
        if file.is_file() and guards.head_bytes(file, len(_MAGIC)) == _MAGIC:
            yield file


def _load_file(file: Path, wanted: Wanted) -> Contents:
    run = _RunFile(file)
    source = read_rows(run, file, wanted, FORMAT)
    for one in source.runs:
        one.name = run.name
        one.arguments |= run.arguments
    if source.step == "_step":
        source.warnings.append("its steps are W&B's own: where the run gave no step, they count calls to log")
    if run.torn:
        source.warnings.append(f"{file.name}: its last record is cut off: the run may still go on")
    if run.damaged:
        source.warnings.append(f"{file.name}: left out: {counted(run.damaged, 'damaged part')}, with its records")
    return source


class _RunFile:
    """The history of a run file, one row per logging call, with the run's name and arguments."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.name, self.arguments = file.stem, dict[str, Any]()
        self.damaged = 0  # blocks and records that cannot be read
        self.torn = False  # whether the end is cut

    def __iter__(self) -> Iterator[Row]:
        for record in self._records():
            yield from self._rows_of(record)

    def _rows_of(self, record: bytes) -> Iterator[Row]:
        try:
            for number, kind, value in protobuf.fields(record):
                if kind == BYTES and number == _HISTORY:
                    # `_step` is W&B's count of calls unless the run gives one.
                    steps = [step for one in protobuf.descend(value, 2) for _, _, step in protobuf.fields(one)]
                    yield {"_step": steps[-1], **_items(value)} if steps else _items(value)
                elif kind == BYTES and number == _RUN:
                    names = [name.decode(errors="replace")[:200] for name in protobuf.descend(value, _RUN_NAME)]
                    self.name = names[-1] if names and names[-1] else self.name
                    for config in protobuf.descend(value, _RUN_CONFIG):
                        self._configure(config)
                elif kind == BYTES and number == _CONFIG:
                    self._configure(value)
        except ValueError:
            self.damaged += 1

    def _configure(self, config: bytes) -> None:
        self.arguments |= {key: value for key, value in _items(config).items() if key.lower() in ARGUMENTS}

    def _records(self) -> Iterator[bytes]:
        begun: list[bytes] | None = None
        for kind, data in self._pieces():
            begun = [data] if kind in (_FULL, _FIRST) else None if begun is None else [*begun, data]
            if begun is not None and sum(map(len, begun)) > _LARGEST:
                begun = None
            if begun is not None and kind in (_FULL, _LAST):
                yield b"".join(begun)
                begun = None

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        left = os.path.getsize(self._file) - _PIECE.size
        with open(self._file, "rb") as file:
            at = len(file.read(_PIECE.size))  # the file's own header, as long as a piece's
            while left > 0 and (block := file.read(min(_BLOCK - at, left))):
                left -= len(block)
                yield from self._pieces_of(block, is_last=left <= 0)
                at = 0

    def _pieces_of(self, block: bytes, is_last: bool) -> Iterator[tuple[int, bytes]]:
        at = 0
        while at + _PIECE.size <= len(block):
            checksum, length, kind = _PIECE.unpack_from(block, at)
            data = block[at + _PIECE.size : at + _PIECE.size + length]
            if len(data) < length and is_last:
                self.torn = True
                return
            if not _FULL <= kind <= _LAST or zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
                self.damaged += 1
                return
            yield kind, data
            at += _PIECE.size + length
        self.torn = is_last and any(block[at:])


def _items(message: bytes) -> dict[str, Any]:
    """The names and values of a history or a config."""
    items = {}
    for item in islice(protobuf.descend(message, 1), _MOST_ITEMS):
        name, value = "", None
        for number, kind, content in protobuf.fields(item):
            if number in (_KEY, _NESTED) and kind == BYTES:
                part = content.decode(errors="replace")
                name = f"{name}/{part}" if name else part
            elif (number, kind) in _VALUES:
                value = _VALUES[number, kind](content)
        if value is not None:
            items[name] = value
    return items
