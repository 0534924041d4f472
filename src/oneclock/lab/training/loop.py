"""The training loop: one function from the first step to the last, for every experiment.

The result of a run is a function of its experiment, beta and seed. The first weights and the batches come from the
seed; the dropout of each forward pass comes from (seed, step, micro). So every beta of a seed starts from the same
model and sees the same batches, a resumed run equals an uninterrupted one, and two processes draw the same numbers as
one.
"""

from __future__ import annotations

import math
import struct
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from oneclock.lab.data import Split
from oneclock.lab.experiments.spec import Evaluation
from oneclock.lab.training.batches import TrainingBatches, fetch
from oneclock.lab.training.due import Due
from oneclock.lab.training.fit import Fit, save
from oneclock.lab.training.schedule import learning_rate


@dataclass(frozen=True)
class Ending:
    """How the loop ended: at its budget, at a loss that was not finite (`reason`), or on request."""

    kind: Literal["finished", "diverged", "stopped"]
    reason: str | None = None


def loop(fit: Fit) -> Ending:
    """Train from `fit.position` to the budget, to a loss that is not finite, or until a stop is requested."""
    experiment, position, budget = fit.experiment, fit.position, fit.experiment.budget
    update, due, val_loss = Updates(fit), Due(fit), None
    fit.model.train()
    for step in range(position.step, budget):
        update(step)
        position.step = step + 1
        evaluating = evaluation_due(experiment.evaluation, position.step, budget)
        if not evaluating and not due.looks:
            continue

        train_loss = due.look(update.losses, update.weights)
        if not math.isfinite(train_loss):
            record(fit, train_loss, None)
            return Ending("diverged", f"the training loss was not finite at step {position.step}")
        if evaluating:
            train_loss, val_loss = due.train_loss(), evaluate(fit, "validation")
            if experiment.evaluation.train_loss == "fixed":
                train_loss = evaluate(fit, "train")
            record(fit, train_loss, val_loss)
            due.note_time()
            if not math.isfinite(val_loss):
                return Ending("diverged", f"the validation loss was not finite at step {position.step}")
        due.tell(train_loss, val_loss, evaluating)
        if position.step < budget and (due.saving or due.stopping):
            save(fit)
            due.note_saved()
            if due.stopping:
                return Ending("stopped", f"stopped at step {position.step}")
    return Ending("finished")


def evaluation_due(evaluation: Evaluation, step: int, budget: int) -> bool:
    """Whether the model is evaluated after `step` updates: at multiples of `every`, at the last, and at the first if
    `at_start`.

    >>> [step for step in range(1, 8) if evaluation_due(Evaluation(every=3, at_start=True), step, budget=7)]
    [1, 3, 6, 7]
    """
    return step % evaluation.every == 0 or step == budget or (evaluation.at_start and step == 1)


class Updates:
    """One optimizer update per call: learning rate, forward and backward passes, clipping, step.

    `losses` collects the losses of the passes. `weights` collects their numbers of targets, if the training loss is
    weighted by them.
    """

    def __init__(self, fit: Fit) -> None:
        accelerator, experiment = fit.accelerator, fit.experiment
        self.fit, self.losses, self.weights = fit, list[torch.Tensor](), list[int]()
        self.weighs = experiment.evaluation.train_loss == "targets"
        self.seed, self.device = fit.run.key.seed, accelerator.device
        processes = accelerator.num_processes
        self.micros = range(accelerator.process_index, processes * experiment.accumulate, processes)
        places = ((step, micro) for step in range(fit.position.step, experiment.budget) for micro in self.micros)
        self.batches = fetch(TrainingBatches(fit.task, self.seed), places, self.device, fit.options.workers)
        self.share = torch.tensor(1 / len(self.micros), device=self.device)  # the mean, at no extra cost
        self.parameters = [parameter for group in fit.optimizer.param_groups for parameter in group["params"]]

    def __call__(self, step: int) -> None:
        """Make the update of `step`, counted from 0; steps must come in order."""
        fit, plan, last = self.fit, self.fit.experiment, self.micros[-1]
        rate = learning_rate(plan.schedule, plan.optimizer.lr, plan.budget, step)
        for group in fit.optimizer.param_groups:
            group["lr"] = rate
        for micro in self.micros:
            batch = next(self.batches)
            draw_from(self.device, self.seed, step, micro)
            with nullcontext() if micro == last else fit.accelerator.no_sync(fit.model):
                loss = fit.task.loss(fit.model, batch, training=True)
                loss.backward(self.share)
            self.losses.append(loss.detach())
            if self.weighs:
                self.weights.append(fit.task.weight(batch))
        if plan.optimizer.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, plan.optimizer.clip)
        fit.optimizer.step()
        for parameter in self.parameters:  # like zero_grad, without the profiler's record
            parameter.grad = None


@torch.no_grad()
def evaluate(fit: Fit, split: Split) -> float:
    """Mean loss over the split's evaluation batches, shared among the processes: per target, or as the spec says."""
    accelerator, model = fit.accelerator, fit.accelerator.unwrap_model(fit.model)
    plan = fit.experiment.evaluation
    batches = fit.task.evaluation(split, fit.position.step) if plan.draw == "anew" else fit.task.evaluation(split)
    mine = range(accelerator.process_index, len(batches), accelerator.num_processes)
    model.eval()
    losses, weights = [], []
    for batch in fetch(batches, mine, accelerator.device, fit.options.workers):
        losses.append(fit.task.loss(model, batch, training=False))
        weights.append(1 if plan.mean == "batches" else fit.task.weight(batch))
    model.train()
    total = math.fsum(loss.item() * weight for loss, weight in zip(losses, weights, strict=True))
    sums = torch.tensor([total, sum(weights)], dtype=torch.float64, device=accelerator.device)
    total, weight = accelerator.reduce(sums, "sum").tolist()
    if not weight:
        raise ValueError(f"the {split} set of {fit.experiment.name} has no batch to evaluate on; check the data")
    return total / weight


def record(fit: Fit, train_loss: float, val_loss: float | None) -> None:
    if fit.accelerator.is_main_process:
        fit.run.log(fit.position.step, val_loss=val_loss, train_loss=train_loss)
    if fit.accelerator.trackers:
        losses = {"train_loss": train_loss, "val_loss": val_loss}
        values = {name: loss for name, loss in losses.items() if loss is not None}
        fit.accelerator.log(values | {"lr": fit.optimizer.param_groups[0]["lr"]}, step=fit.position.step)


def draw_from(device: torch.device, seed: int, step: int, micro: int) -> None:
    """Make the random numbers of the next forward pass (dropout, stochastic depth) a function of (seed, step,
    micro).
    """
    mixed = zlib.crc32(struct.pack("<qqq", seed, step, micro))
    torch.default_generator.manual_seed(mixed)  # torch.manual_seed seeds every kind of device, at 200 times the cost
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(mixed)
