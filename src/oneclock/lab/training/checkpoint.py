"""Checkpoints of an unfinished run: one file, written to a temporary name and moved, so that only one complete
checkpoint exists.

    RUN/checkpoint/step-1200-5f0c1b9e.pt    plain values and tensors; the name holds the step and the file's CRC-32

It is read with `weights_only=True`: nothing is unpickled. The CRC detects flipped bits, which torch does not notice.
The learning rate is a function of the step and the batches are a function of (seed, step): neither is saved.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from oneclock.runs.lock import check_held

VERSION = 1
_NAME = re.compile(r"step-(\d+)-([0-9a-f]{8})\.pt")


class _Checked:
    """A binary file for writing that computes the CRC-32 of its content."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.crc = file, 0

    def write(self, data: bytes) -> int:
        self.crc = zlib.crc32(data, self.crc)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def save(run: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write `state` and the random state as the one checkpoint of the run's folder; OSError if there is no room."""
    folder = Path(run) / "checkpoint"
    folder.mkdir(exist_ok=True)
    for left in folder.glob("new*"):  # of a killed process, or of a frozen one that must not find it
        left.unlink(missing_ok=True)
    older = list(folder.glob("*.pt"))
    aside = folder / f"new-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        crc = _write(aside, {"version": VERSION, **state, "random": random_state()})
        check_held(Path(run))
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    newest = folder / f"step-{step}-{crc:08x}.pt"
    os.replace(aside, newest)
    _sync_folder(folder)
    for path in older:
        if path != newest:
            path.unlink(missing_ok=True)


def load(run: Path) -> dict[str, Any] | None:
    """The checkpoint of the run's folder, or None if there is none; a damaged one is a ValueError in one line."""
    steps = {int(match[1]): path for path in _files(run) if (match := _NAME.fullmatch(path.name))}
    if not steps:
        return None
    path = steps[max(steps)]  # a kill between move and removal leaves two
    if _crc(path) != path.stem[-8:]:
        raise damaged(run, "its checksum is wrong")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        version = state["version"]
    except Exception as error:  # a file that torch did not write can raise anything
        raise damaged(run, f"{type(error).__name__}: {error}") from None
    if version != VERSION:
        raise ValueError(
            f"{path} is of version {version}, and this oneclock reads {VERSION}; use the one that wrote it"
        )
    return state


def damaged(run: Path, cause: str) -> ValueError:
    """The error for a checkpoint that cannot be used, with what to do."""
    return ValueError(
        f"the checkpoint in {Path(run) / 'checkpoint'} is damaged ({cause[:100]}); "
        "delete that folder to train this run from its start; everything else is intact"
    )


def remove(run: Path) -> None:
    """Remove the checkpoint: the run is finished."""
    shutil.rmtree(Path(run) / "checkpoint", ignore_errors=True)


def random_state() -> dict[str, Any]:
    """The state of every global generator (Python, NumPy, torch, CUDA), as plain values and tensors."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global generator is what is being saved
    version, internal, gauss = random.getstate()
    return {
        "python": (version, torch.tensor(internal, dtype=torch.int64), gauss),
        "numpy": (kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Restore the state of every global generator from `random_state`."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count() > 0:
        torch.cuda.set_rng_state_all(state["cuda"])


def _write(path: Path, state: Mapping[str, Any]) -> int:
    with open(path, "wb") as file:
        checked = _Checked(file)
        try:
            torch.save(state, checked)  # type: ignore[arg-type]
        except RuntimeError as error:  # torch's own error hides the disk's
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        file.flush()
        os.fsync(file.fileno())
    return checked.crc


def _files(run: Path) -> list[Path]:
    folder = Path(run) / "checkpoint"
    return list(folder.iterdir()) if folder.is_dir() else []


def _crc(path: Path) -> str:
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            crc = zlib.crc32(chunk, crc)
    return f"{crc:08x}"


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # on other systems a folder cannot be opened, and the move alone must suffice
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
