"""The training loop: one function from the first step to the last, for every experiment.

What a run computes is a function of its experiment, beta and seed. The model's first weights come from the seed; so do
the batches of step s, and the dropout of each forward pass, which is drawn from (seed, step, micro). So every beta of a
seed starts from the same model and sees the same batches, a resumed run repeats what it would have done, and two
processes draw what one would.
"""

from __future__ import annotations

import math
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from oneclock.data import Split, Task
from oneclock.experiments.spec import Evaluation, Experiment
from oneclock.study.records import Run
from oneclock.training import checkpoint
from oneclock.training.batches import TrainingBatches, fetch
from oneclock.training.schedule import learning_rate

if TYPE_CHECKING:
    from accelerate import Accelerator

Progress = Callable[[int, int, float, float | None], None]
"""Told (step, budget, latest training loss, last validation loss): at evaluations, else at most ten times a second."""


@dataclass(frozen=True)
class Options:
    """What changes no loss: checkpoints every so many steps or minutes, workers, who is told, who may stop it."""

    checkpoint_every: int | None = None
    checkpoint_minutes: float = 10.0
    workers: int = 0
    progress: Progress | None = None
    stop: Callable[[], bool] | None = None


@dataclass
class Position:
    """Where a run stands: updates made, seconds spent, and the training loss summed since the last evaluation."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_steps: int = 0


@dataclass
class Fit:
    """One run under way: all that the loop needs."""

    experiment: Experiment
    task: Task
    model: nn.Module
    optimizer: torch.optim.Optimizer
    accelerator: Accelerator
    run: Run
    options: Options = field(default_factory=Options)
    position: Position = field(default_factory=Position)


def loop(fit: Fit) -> str | None:
    """Train from `fit.position` to the budget: None, or the reason where a loss was not finite and it ended early."""
    experiment, task, model, position = fit.experiment, fit.task, fit.model, fit.position
    accelerator, optimizer, seed = fit.accelerator, fit.optimizer, fit.run.identity.seed
    processes, device, budget = accelerator.num_processes, accelerator.device, experiment.budget
    micros = range(accelerator.process_index, processes * experiment.accumulate, processes)
    steps = range(position.step, budget)
    places = ((step, micro) for step in steps for micro in micros)
    batches = fetch(TrainingBatches(task, seed), places, device, fit.options.workers)
    share = torch.tensor(1 / len(micros), device=device)  # the mean over micros, without an operation for it
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    watch, losses = _Watch(fit), []
    model.train()
    for step in steps:
        rate = learning_rate(experiment.schedule, experiment.optimizer.lr, budget, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for micro in micros:
            batch = next(batches)
            _draw_from(device, seed, step, micro)
            with nullcontext() if micro == micros[-1] else accelerator.no_sync(model):
                loss = task.loss(model, batch, training=True)
                loss.backward(share)
            losses.append(loss.detach())
        if experiment.optimizer.clip is not None:
            nn.utils.clip_grad_norm_(parameters, experiment.optimizer.clip)
        optimizer.step()
        for parameter in parameters:  # what zero_grad does, without the profiler's record of it
            parameter.grad = None

        position.step = step + 1
        reason = watch.after_step(losses)
        if reason is not None:
            return reason
    return None


def evaluation_due(evaluation: Evaluation, step: int, budget: int) -> bool:
    """Whether the model is evaluated after `step` updates: at multiples, at the last, and at the first if it says so.

    >>> [step for step in range(1, 8) if evaluation_due(Evaluation(every=3, at_start=True), step, budget=7)]
    [1, 3, 6, 7]
    """
    return step % evaluation.every == 0 or step == budget or (evaluation.at_start and step == 1)


class _Watch:
    """What happens between steps. Reading a loss waits for the device, so a GPU is looked at every few passes only."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        self.every = 1 if fit.accelerator.device.type == "cpu" else max(1, 8 // fit.experiment.accumulate)
        self.val_loss: float | None = None
        self.saving = self.stopping = False
        self._started = time.perf_counter() - fit.position.seconds
        self._saved_step, self._saved_at, self._told_at = fit.position.step, time.perf_counter(), 0.0

    def after_step(self, losses: list[torch.Tensor]) -> str | None:
        """Evaluate, record, tell and save where it is time; the reason where a loss was not finite."""
        fit, step = self.fit, self.fit.position.step
        evaluating = evaluation_due(fit.experiment.evaluation, step, fit.experiment.budget)
        if not evaluating and step % self.every:
            return None
        train_loss = self._look(losses)
        losses.clear()
        if not math.isfinite(train_loss):
            _record(fit, train_loss, None)
            return f"the training loss was not finite at step {step}"
        if evaluating:
            train_loss, self.val_loss = _evaluate(fit)
            _record(fit, train_loss, self.val_loss)
            fit.position.seconds = time.perf_counter() - self._started
            if not math.isfinite(self.val_loss):
                return f"the validation loss was not finite at step {step}"
        self._tell(train_loss, evaluating)
        if (self.saving or self.stopping) and step < fit.experiment.budget:
            save(fit)
            self._saved_step, self._saved_at = step, time.perf_counter()
            if self.stopping:
                raise KeyboardInterrupt(f"stopped at step {step}")
        return None

    def _look(self, losses: list[torch.Tensor]) -> float:
        """The mean of the losses since the last look, over all processes, which also agree here to save or to stop."""
        fit, options, accumulate = self.fit, self.fit.options, self.fit.experiment.accumulate
        steps = len(losses) // accumulate
        total = math.fsum(loss.item() for loss in losses) / accumulate
        now = time.perf_counter()
        due = now - self._saved_at >= 60 * options.checkpoint_minutes or (
            options.checkpoint_every is not None and fit.position.step - self._saved_step >= options.checkpoint_every
        )
        stop = options.stop is not None and options.stop()
        if fit.accelerator.num_processes > 1:
            flags = torch.tensor([total, due, stop], dtype=torch.float64, device=fit.accelerator.device)
            total, due, stop = fit.accelerator.reduce(flags, "mean").tolist()
        self.saving, self.stopping = due > 0, stop > 0
        fit.position.seconds = now - self._started
        fit.position.loss_sum += total
        fit.position.loss_steps += steps
        return total / steps

    def _tell(self, train_loss: float, evaluated: bool) -> None:
        fit, now = self.fit, time.perf_counter()
        if (evaluated or now - self._told_at > 0.1) and fit.options.progress and fit.accelerator.is_main_process:
            fit.options.progress(fit.position.step, fit.experiment.budget, train_loss, self.val_loss)
            self._told_at = now


def save(fit: Fit) -> None:
    """Write the run's checkpoint, from the main process."""
    if fit.accelerator.is_main_process:
        state = {
            "position": asdict(fit.position),
            "processes": fit.accelerator.num_processes,
            "model": fit.accelerator.unwrap_model(fit.model).state_dict(),
            "optimizer": fit.optimizer.state_dict(),
        }
        checkpoint.save(fit.run.path, fit.position.step, state)


def restore(fit: Fit) -> None:
    """Continue where the run's checkpoint stands, or start where there is none; forget evaluations after that."""
    state = checkpoint.load(fit.run.path)
    if state is not None:
        processes = fit.accelerator.num_processes
        if state.get("processes") != processes:
            raise ValueError(
                f"the run in {fit.run.path} was started with {state.get('processes')} process(es), not {processes}: "
                "the number of processes sets the batch; go on with as many, or choose another folder"
            )
        try:
            fit.accelerator.unwrap_model(fit.model).load_state_dict(state["model"])
            fit.optimizer.load_state_dict(state["optimizer"])
            fit.position = Position(**state["position"])
            checkpoint.restore_random_state(state["random"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise checkpoint.damaged(fit.run.path, f"{type(error).__name__}: {error}") from None
    if fit.accelerator.is_main_process:
        fit.run.rewind(fit.position.step)


def _evaluate(fit: Fit) -> tuple[float, float]:
    """Training loss, as the spec has it, and validation loss; the running training loss starts anew."""
    position = fit.position
    train_loss = position.loss_sum / position.loss_steps
    position.loss_sum, position.loss_steps = 0.0, 0
    if fit.experiment.evaluation.train_loss == "fixed":
        train_loss = evaluate(fit, "train")
    return train_loss, evaluate(fit, "validation")


@torch.no_grad()
def evaluate(fit: Fit, split: Split) -> float:
    """Mean loss per target over the split's fixed evaluation batches, shared among the processes."""
    accelerator, model = fit.accelerator, fit.accelerator.unwrap_model(fit.model)
    batches = fit.task.evaluation(split)
    mine = range(accelerator.process_index, len(batches), accelerator.num_processes)
    model.eval()
    losses, weights = [], []
    for batch in fetch(batches, mine, accelerator.device, fit.options.workers):
        losses.append(fit.task.loss(model, batch, training=False))
        weights.append(fit.task.weight(batch))
    model.train()
    total = math.fsum(loss.item() * weight for loss, weight in zip(losses, weights, strict=True))
    sums = torch.tensor([total, sum(weights)], dtype=torch.float64, device=accelerator.device)
    total, weight = accelerator.reduce(sums, "sum").tolist()
    if not weight:
        raise ValueError(f"the {split} set of {fit.experiment.name} has no batch to evaluate on; check the data")
    return total / weight


def _record(fit: Fit, train_loss: float, val_loss: float | None) -> None:
    if fit.accelerator.is_main_process:
        fit.run.log(fit.position.step, val_loss=val_loss, train_loss=train_loss)
    if fit.accelerator.trackers:
        losses = {"train_loss": train_loss, "val_loss": val_loss}
        values = {name: loss for name, loss in losses.items() if loss is not None}
        fit.accelerator.log(values | {"lr": fit.optimizer.param_groups[0]["lr"]}, step=fit.position.step)


def _draw_from(device: torch.device, seed: int, step: int, micro: int) -> None:
    """Let what the next forward pass draws (dropout, stochastic depth) be a function of (seed, step, micro)."""
    mixed = zlib.crc32(struct.pack("<qqq", seed, step, micro))
    torch.default_generator.manual_seed(mixed)  # torch.manual_seed visits every kind of device, at 200 times the cost
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(mixed)
