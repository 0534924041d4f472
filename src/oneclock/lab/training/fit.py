"""The state of a run during training, and how it is saved and restored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from oneclock.lab.data import Task
from oneclock.lab.experiments.spec import Experiment
from oneclock.lab.training import checkpoint
from oneclock.runs.folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

Progress = Callable[[int, int, float, float | None], None]
"""Called with (step, budget, latest training loss, last validation loss): at evaluations, else at most ten times a
second.
"""


@dataclass(frozen=True)
class Options:
    """Options that change no loss: the time between checkpoints, workers, the progress callback, and the stop
    function.
    """

    checkpoint_every: int | None = None
    checkpoint_minutes: float = 10.0
    workers: int = 0
    progress: Progress | None = None
    stop: Callable[[], bool] | None = None


@dataclass
class Position:
    """The position of a run: updates made, seconds spent, and the training loss summed since the last evaluation.

    `loss_steps` divides that sum: the number of steps, or of targets if the spec weights by targets.
    """

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_steps: float = 0


@dataclass
class Fit:
    """A run during training: all that the loop needs."""

    experiment: Experiment
    task: Task
    model: nn.Module
    optimizer: torch.optim.Optimizer
    accelerator: Accelerator
    run: RunFolder
    options: Options = field(default_factory=Options)
    position: Position = field(default_factory=Position)


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
    """Continue from the run's checkpoint, or start if there is none; drop later evaluations."""
    state = checkpoint.load(fit.run.path)
    if state is not None:
        processes = fit.accelerator.num_processes
        if state.get("processes") != processes:
            raise ValueError(
                f"the run in {fit.run.path} was started with {state.get('processes')} process(es), not {processes}: "
                "the number of processes sets the batch; use the same number, or choose another folder"
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
