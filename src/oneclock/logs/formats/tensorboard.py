"""TensorBoard event files, or a folder of them, read without tensorboard: every point, without sampling.

A file is a list of records: length, its checksum, data, its checksum. Any bytes are read in bounded memory. Field
numbers are those of TensorFlow's event.proto, summary.proto, tensor.proto and of the hparams plugin.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.formats import protobuf
from oneclock.logs.formats.protobuf import BYTES, FIXED32, FIXED64, VARINT
from oneclock.logs.source import Contents, RawRun, Wanted

FORMAT = "TensorBoard events"
_MOST_FILES = 4096
_LARGEST = 2**20  # bytes of a record that is read; larger ones (images, histograms of many tensors) hold no scalars
_LENGTH, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_TENSOR = {1: (5, _FLOAT), 2: (6, _DOUBLE)}  # dtype -> (field of the values, their layout)
_CONTENT = 4  # the field of values that are packed


def sniff(path: Path) -> bool:
    return next(_event_files(path), None) is not None


def load(path: Path, wanted: Wanted) -> Contents:
    """Event files of one folder are one run, merged in the order they were begun; subfolders are further runs.

    Folders named after a part of the data (`validation`, `loss_val`) belong to the run above them.
    """
    files = sorted(islice(_event_files(path), _MOST_FILES + 1)) if path.is_dir() else [path]
    if len(files) > _MOST_FILES:
        raise ValueError(f"{path} holds more than {_MOST_FILES} event files; name the folder of one run")
    runs: dict[Path, RawRun] = {}
    warnings = []
    for file in files:
        folder, prefix = file.parent, ""
        if folder != path and path.is_dir() and names.is_part(folder.name):
            folder, prefix = folder.parent, f"{folder.name}/"
        label = folder.relative_to(path).as_posix() if path.is_dir() and folder != path else folder.name
        run, records = runs.setdefault(folder, RawRun(label)), _Records(file)
        damaged = sum(not _add(record, run, prefix, wanted) for record in records)
        warnings += [f"{file.name}: {records.damage}"] if records.damage else []
        warnings += [f"{file.name}: left out: {names.counted(damaged, 'damaged record')}"] if damaged else []
    seen = [metric for run in runs.values() for metric in run.metrics]
    if not seen:
        raise ValueError(f"{path} holds no scalars" + "".join(f"; {warning}" for warning in warnings))
    metric = names.choose_metric(seen, wanted.metric, path)
    # Hyperparameters that torch's SummaryWriter puts into a folder of their own belong to the run above it.
    for folder, run in runs.items():
        above = [runs[parent] for parent in folder.parents if parent in runs and metric in runs[parent].series]
        if run.arguments and metric not in run.series and above:
            above[0].arguments = run.arguments | above[0].arguments
    # Keras logs `epoch_loss` over epochs; everyone else logs over steps.
    step = "epoch" if metric.split("/")[-1].startswith("epoch_") else "step"
    return Contents(FORMAT, list(runs.values()), step, [step], warnings)


def _event_files(path: Path) -> Iterator[Path]:
    files = (file for file in guards.files(path) if "tfevents" in file.name) if path.is_dir() else iter([path])
    return (file for file in files if any(b"brain.Event:" in data[:64] for data, _ in islice(_Records(file), 1)))


class _Records:
    """(data, checksum) of the records of one file, in order. After the last, `damage` says why reading ended early."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damage: str | None = None

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        at, size = 0, os.path.getsize(self._path)
        self.damage = "its last record is cut off"
        with open(self._path, "rb", buffering=2**20) as file:
            while at < size:
                if len(header := file.read(_LENGTH.size)) < _LENGTH.size:
                    return
                length, checksum = _LENGTH.unpack(header)
                if checksum != _checksum_of_length(header[:8]):
                    self.damage = f"it is damaged at byte {at:,}, and what follows was left out"
                    return
                at += _LENGTH.size + length + _CHECKSUM.size
                if at > size:
                    return
                if length > _LARGEST:
                    file.seek(at)
                elif len(data := file.read(length + _CHECKSUM.size)) == length + _CHECKSUM.size:
                    yield data[:length], _CHECKSUM.unpack_from(data, length)[0]
        self.damage = None


def _add(record: tuple[bytes, int], run: RawRun, prefix: str, wanted: Wanted) -> bool:
    """Add the values of one record; False if it is damaged. Only records with something to keep are checked."""
    data, checksum = record
    is_checked = False
    try:
        for step, tag, value in values(data):
            scalar = number_in(value)
            arguments = _arguments(tag, value) if scalar is None else {}
            if arguments or (scalar is not None and run.holds(prefix + tag, wanted)):
                if not is_checked and masked_crc(data) != checksum:
                    return False
                is_checked = True
                run.arguments.update(arguments)
                if scalar is not None:
                    run.series[prefix + tag].add(step, scalar)
    except ValueError:
        return False
    return True


def values(data: bytes) -> Iterator[tuple[int, str, bytes]]:
    """(step, tag, encoded value) of each summary in a record's event; ValueError if it is none."""
    step, summary = 0, b""
    for number, kind, value in protobuf.fields(data):
        if number == 2 and kind == VARINT:
            step = value - 2**64 if value >= 2**63 else value
        elif number == 5 and kind == BYTES:
            summary = value
    for value in protobuf.descend(summary, 1):
        yield step, next(protobuf.descend(value, 1), b"").decode(errors="replace"), value


def number_in(value: bytes) -> float | None:
    """The number in a summary's value: a simple_value, or a tensor of one number; None for anything else."""
    for number, kind, content in protobuf.fields(value):
        if number == 2 and kind == FIXED32:
            return float(_FLOAT.unpack(content)[0])
        if number == 8 and kind == BYTES:
            fields = list(protobuf.fields(content))
            dtype = next((one for field, wire, one in fields if field == 1 and wire == VARINT), 0)
            field_of_values, layout = _TENSOR.get(dtype, (-1, _FLOAT))
            packed = [one for field, wire, one in fields if field in (field_of_values, _CONTENT) and wire != VARINT]
            is_one = dtype in _TENSOR and [*map(len, packed)] == [layout.size]
            return float(layout.unpack(packed[0])[0]) if is_one else None
    return None


def _arguments(tag: str, value: bytes) -> dict[str, Any]:
    """The hyperparameters in a summary's value, written by the hparams plugin or as JSON text (transformers)."""
    found: dict[str, Any] = {}
    for entry in protobuf.descend(value, 9, 1, 2, 3, 1) if tag.startswith("_hparams_/") else ():
        name = next(protobuf.descend(entry, 1), b"").decode(errors="replace")
        for content in protobuf.descend(entry, 2):
            for number, kind, one in protobuf.fields(content):
                if number == 2 and kind == FIXED64:
                    found[name] = _DOUBLE.unpack(one)[0]
                elif number == 3 and kind == BYTES:
                    found[name] = one.decode(errors="replace")
    if tag.split("/")[0] in ("args", "config", "hparams"):
        parsed = protobuf.json_value(next(protobuf.descend(value, 8, 8), b""))
        found |= parsed if isinstance(parsed, dict) else {}
    return found


_TABLE = list(range(256))
for _ in range(8):
    _TABLE = [(entry >> 1) ^ (0x82F63B78 if entry & 1 else 0) for entry in _TABLE]


def masked_crc(data: bytes) -> int:
    """The checksum of a record: CRC-32C in the form that the files use."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


_checksum_of_length = lru_cache(4096)(masked_crc)  # most records of a file have a few lengths
