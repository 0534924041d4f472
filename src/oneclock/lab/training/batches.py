"""Moves batches to the device. Worker processes prepare them ahead if a GPU would otherwise wait."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from oneclock.lab.data import Batch, Task
from oneclock.lab.experiments.spec import Experiment, Images


class BatchSource(Protocol):
    """Batches by position, made on demand: the evaluation batches of a task by number, or `TrainingBatches`."""

    def __getitem__(self, place: Any) -> Batch: ...


class TrainingBatches:
    """A task's training batches of one seed, by (step, micro)."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed

    def __getitem__(self, place: tuple[int, int]) -> Batch:
        return self.task.batch(self.seed, *place)


def fetch(source: BatchSource, places: Iterable[Any], device: torch.device, workers: int = 0) -> Iterator[Batch]:
    """The batches of `places` in their order, on the device; `workers` changes when they are made, not their content.

    On the CPU and without workers they are returned unchanged.
    """
    batches: Iterable[Batch] = map(source.__getitem__, places)
    if workers:
        batches = DataLoader(
            source,  # type: ignore[arg-type]
            batch_size=None,
            sampler=places,
            num_workers=workers,
            pin_memory=device.type == "cuda",
            generator=torch.Generator(),  # otherwise it would use the global generator
            multiprocessing_context="fork",  # the data stays where it is
            worker_init_fn=_outlast,
        )
    if device.type == "cpu":
        return iter(batches)
    return ({name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()} for batch in batches)


def _outlast(_: int) -> None:
    """Ignore SIGTERM in workers: the training handles it, and may need one more batch before it has saved."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def default_workers(experiment: Experiment, device: torch.device, processes: int) -> int:
    """Up to 8 processes decode and augment images while a GPU computes; none for tokens, or if the CPU does both."""
    if device.type != "cuda" or sys.platform != "linux" or not isinstance(experiment.data, Images):
        return 0
    return min(8, max(1, (os.cpu_count() or 1) // processes - 1))
