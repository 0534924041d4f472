"""From the data that a spec names to batches of text or images. Local copies come first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from oneclock.lab.data.data_dirs import data_root, require
from oneclock.lab.data.order import Batch, Split
from oneclock.lab.experiments.spec import Experiment, Text


class Task(Protocol):
    """What an experiment trains on: batches, each a pure function of (seed, step, micro), and their loss.

    No method uses torch's global generator or depends on beta. So every beta of a seed sees the same batches, and a
    resumed run sees the same batches as an uninterrupted one.
    """

    def batch(self, seed: int, step: int, micro: int) -> Batch:
        """Training micro-batch `micro`, 0 to accumulate - 1, of optimizer step `step`, counted from 0.

        With several processes `accumulate` counts the micro-batches of all: process p of P takes those with
        micro % P == p.
        """

    def evaluation(self, split: Split, step: int | None = None) -> Sequence[Batch]:
        """The evaluation batches of a split, made on demand. They are the same at every call and for every seed.

        `step`, the updates made so far, is given only if the spec draws new batches for each evaluation.
        """

    def loss(self, model: nn.Module, batch: Batch, training: bool) -> Tensor:
        """The mean loss of a batch; label smoothing counts only if `training`."""

    def weight(self, batch: Batch) -> int:
        """The number of targets in a batch: the weight of its loss in a mean over batches."""


class LoadedTask(Task, Protocol):
    """A task of an experiment's own data; `content` is a hash of it."""

    @property
    def content(self) -> str: ...


def load_task(experiment: Experiment, data_dir: Path | None = None) -> LoadedTask:
    """The task of an experiment, its data found below `data_dir`, ONECLOCK_DATA or the caches, else downloaded."""
    root = data_root(data_dir)
    if isinstance(experiment.data, Text):
        require("datasets", "tokenizers", extra="language")
        from oneclock.lab.data.text import TextTask

        return TextTask(experiment, experiment.data, root)
    from oneclock.lab.data.images import ImageTask

    return ImageTask(experiment, experiment.data, root)


__all__ = ["Batch", "Split", "Task", "load"]
