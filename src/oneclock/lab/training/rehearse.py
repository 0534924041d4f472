"""A rehearsal: two real optimizer steps of an experiment at its full shape, before a machine is paid for.

Model, optimizer, schedule, clipping, precision and accumulation are those of a run. The data are random with the real
shape, so no data are needed. It shows whether the run fits into memory, and how long the whole budget would take.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from accelerate.utils.memory import should_reduce_batch_size

from oneclock.lab import models
from oneclock.lab.data.synthetic import SyntheticTask
from oneclock.lab.experiments.spec import T5, Experiment
from oneclock.lab.training.fit import Fit
from oneclock.lab.training.loop import Updates
from oneclock.lab.training.optimizer import optimizer_for
from oneclock.lab.training.run import accelerator_for, identify, set_seed
from oneclock.runs.folder import RunFolder

STEPS = 2


@dataclass(frozen=True)
class Rehearsal:
    """The result of two steps: `peak_bytes` of the device, or of the process on a CPU; `seconds` of the second step.

    A step has `per_step` tokens or images (`unit`), the whole budget `budget` steps.
    """

    experiment: str
    parameters: int
    device: str
    precision: str
    peak_bytes: int
    seconds: float
    per_step: int
    unit: str
    budget: int
    losses: tuple[float, ...]

    @property
    def hours(self) -> float:
        """The hours of the whole budget at this speed, without evaluations."""
        return self.seconds * self.budget / 3600


def rehearse(experiment: Experiment, beta: float = 0.9) -> Rehearsal:
    """Two steps of an experiment on batches of its shape; a pretrained model is built new, in the same size.

    Raises:
        ValueError: If they do not fit into memory, and the device or the system reports it instead of killing the
        process.
    """
    try:
        return _two_steps(experiment, beta)
    except (RuntimeError, MemoryError) as error:
        if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
            raise
        raise ValueError(_too_large(experiment)) from error


def _two_steps(experiment: Experiment, beta: float) -> Rehearsal:
    if isinstance(experiment.model, T5):
        experiment = replace(experiment, model=replace(experiment.model, checkpoint=None))
    with tempfile.TemporaryDirectory() as folder:
        accelerator = accelerator_for(Path(folder), None)
        set_seed(1)
        task = SyntheticTask(experiment)
        module = accelerator.prepare_model(models.build(experiment.model))
        run = RunFolder(Path(folder), identify(experiment, beta, seed=1), {})
        fit = Fit(experiment, task, module, optimizer_for(module, experiment.optimizer, beta), accelerator, run)
        update, seconds, losses = Updates(fit), 0.0, []
        module.train()
        for step in range(STEPS):
            started = time.perf_counter()
            update(step)
            losses.append(sum(loss.item() for loss in update.losses) / len(update.losses))  # waits for the device
            seconds = time.perf_counter() - started
            update.losses.clear()
    return Rehearsal(
        experiment=experiment.name,
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        device=torch.cuda.get_device_name() if accelerator.device.type == "cuda" else accelerator.device.type,
        precision="fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision,
        peak_bytes=_peak(accelerator.device),
        seconds=seconds,
        per_step=task.per_step,
        unit=task.unit,
        budget=experiment.budget,
        losses=tuple(losses),
    )


def _too_large(experiment: Experiment) -> str:
    size, passes = experiment.batch_size, experiment.accumulate
    message = f"{experiment.name} does not fit into memory with {size} examples a forward pass"
    if size == 1:
        return f"{message}: it needs a larger machine"
    smaller = size // 2 if size % 2 == 0 else 1
    return (
        f"{message}: try --set batch_size={smaller} --set accumulate={passes * size // smaller}, as many examples an "
        "update, or a larger machine"
    )


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
