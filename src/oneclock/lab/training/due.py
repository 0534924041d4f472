"""What is due between two steps: reading the losses, saving, stopping, reporting progress.

Reading a loss waits for the device, so on a GPU losses are read only every few passes.
"""

from __future__ import annotations

import math
import operator
import time

import torch

from oneclock.lab.training.fit import Fit


class Due:
    """What is due when. `look` decides `saving` and `stopping`, and all processes get the same answer."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        self.every = 1 if fit.accelerator.device.type == "cpu" else max(1, 8 // fit.experiment.accumulate)
        self.saving = self.stopping = False
        self.last_loss = math.nan
        self._started = time.perf_counter() - fit.position.seconds
        self._saved_step, self._saved_at, self._told_at = fit.position.step, time.perf_counter(), 0.0

    @property
    def looks(self) -> bool:
        """Whether this step's loss is read without an evaluation."""
        return self.fit.position.step % self.every == 0

    def look(self, losses: list[torch.Tensor], weights: list[int]) -> float:
        """The mean of the losses since the last look, over all processes, which also agree here on saving and stopping.

        `weights` are the numbers of targets, if the mean is to be weighted by them, else empty.
        """
        fit, options, accumulate = self.fit, self.fit.options, self.fit.experiment.accumulate
        values = [loss.item() for loss in losses]
        total, last = math.fsum(values) / accumulate, math.fsum(values[-accumulate:]) / accumulate
        part = math.fsum(map(operator.mul, values, weights)) if weights else total
        share = sum(weights) if weights else len(values) // accumulate
        save, stop = self._saving_due(), options.stop is not None and options.stop()
        if fit.accelerator.num_processes > 1:
            numbers = [total, last, part, share, save, stop]
            flags = torch.tensor(numbers, dtype=torch.float64, device=fit.accelerator.device)
            total, last, part, share, save, stop = fit.accelerator.reduce(flags, "mean").tolist()
        self.last_loss, self.saving, self.stopping = last, save > 0, stop > 0
        fit.position.loss_sum += part
        fit.position.loss_steps += share
        self.note_time()
        losses.clear()
        weights.clear()
        return total / (len(values) // accumulate)

    def train_loss(self) -> float:
        """The training loss since the last evaluation, as the spec defines it; then the sum starts again."""
        position, last = self.fit.position, self.fit.experiment.evaluation.train_loss == "last"
        mean = position.loss_sum / position.loss_steps
        position.loss_sum, position.loss_steps = 0.0, 0
        return self.last_loss if last else mean

    def tell(self, train_loss: float, val_loss: float | None, evaluated: bool) -> None:
        """Report progress."""
        fit, now = self.fit, time.perf_counter()
        if (evaluated or now - self._told_at > 0.1) and fit.options.progress and fit.accelerator.is_main_process:
            fit.options.progress(fit.position.step, fit.experiment.budget, train_loss, val_loss)
            self._told_at = now

    def note_time(self) -> None:
        """The seconds spent so far."""
        self.fit.position.seconds = time.perf_counter() - self._started

    def note_saved(self) -> None:
        """A checkpoint has just been written."""
        self._saved_step, self._saved_at = self.fit.position.step, time.perf_counter()

    def _saving_due(self) -> bool:
        every, since = self.fit.options.checkpoint_every, self.fit.position.step - self._saved_step
        minutes = self.fit.options.checkpoint_minutes
        return time.perf_counter() - self._saved_at >= 60 * minutes or (every is not None and since >= every)
