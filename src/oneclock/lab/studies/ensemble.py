"""Train many runs at once: one stacked model, one loop, and checkpoints, so that a killed process can continue.

For a tiny model on a small batch, most of the time is overhead per operation. Members that are stacked in one tensor
share that overhead. Each member has its own betas, learning rate, weight decay, seed and training data; all share the
model, the validation set, the batch size and the number of steps.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from oneclock.lab.studies.adam import StackedAdamW
from oneclock.lab.studies.adapters import NewWeights, Start
from oneclock.lab.studies.models import Model, losses
from oneclock.lab.studies.tasks import Task

Schedule = Literal["cosine", "constant", "linear", "wsd"]
WARMUP, FLOOR = 0.1, 0.1
"""Share of the steps that warm up, and the last learning rate of a cosine as a share of the highest."""

DECAY = 0.2
"""Share of the steps in which `wsd` (warm-up, stable, decay) falls to zero; `linear` falls from the warm-up on."""

SAVE_EVERY = 120.0
"""Seconds between two checkpoints."""

EVALUATED_WINDOWS, EVALUATED_IMAGES = 8, 96
"""Validation examples of one forward pass: larger ones leave the cache, smaller ones spend time on overhead."""

GROWTH = 4.5
"""The memory of `growing` at step t is 1 + sqrt(t) / 4.5 steps."""


@dataclass(frozen=True)
class Arm:
    """The betas of a member: a fixed pair, tied where both are the same, or `growing` with the step."""

    beta1: float = 0.0
    beta2: float = 0.0
    growing: bool = False

    def at(self, update: int) -> tuple[float, float]:
        """The betas of an update, counted from 1.

        >>> Arm(0.9, 0.99).at(7), round(Arm(growing=True).at(8100)[0], 4)
        ((0.9, 0.99), 0.9524)
        """
        beta = math.sqrt(update) / (math.sqrt(update) + GROWTH)
        return (beta, beta) if self.growing else (self.beta1, self.beta2)


@dataclass(frozen=True)
class Member:
    """What distinguishes one run of an ensemble from the others; the tasks of all have the same validation set."""

    task: Task
    arm: Arm
    lr: float
    seed: int
    weight_decay: float = 0.1


@dataclass(frozen=True)
class Setting:
    """What all members of an ensemble share."""

    model: Model
    steps: int
    batch: int
    evaluations: int = 5
    schedule: Schedule = "cosine"
    start: Start | None = None
    """Pretrained weights to start from; None is new weights."""

    @property
    def evaluated(self) -> list[int]:
        """The steps after which the members are evaluated, evenly spaced; the last step is one of them."""
        return [round(self.steps * one / self.evaluations) for one in range(1, self.evaluations + 1)]

    def lr_share(self, step: int) -> float:
        """The learning rate of the update after `step` updates, as a share of the highest: as in the joint study."""
        warmup = max(1, math.floor(round(WARMUP * self.steps, 6)))
        if step + 1 <= warmup:
            return (step + 1) / warmup
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "cosine":
            return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * (step + 1 - warmup) / (self.steps - warmup))) / 2
        falling = DECAY * self.steps if self.schedule == "wsd" else self.steps - warmup
        return min(1.0, (self.steps - step) / falling)


@dataclass
class State:
    """The state of an ensemble: everything that a checkpoint holds."""

    parameters: dict[str, Tensor]
    optimizer: StackedAdamW
    step: int = 0
    seconds: float = 0.0
    curves: list[list[tuple[int, float, float]]] = field(default_factory=list)
    """Of each member: step, validation loss, mean training loss since the evaluation before."""
    running: Tensor = field(default_factory=lambda: torch.zeros(0))


class Ensemble:
    """Members that train together, from their own start or from their checkpoint."""

    def __init__(
        self,
        setting: Setting,
        members: Sequence[Member],
        checkpoint: Path | None = None,
        adapt: NewWeights | None = None,
        compiled: bool = False,
    ) -> None:
        self.setting, self.members, self.checkpoint = setting, list(members), checkpoint
        self.adapt = adapt or NewWeights(setting.model)
        self._losses = torch.compile(losses, dynamic=False) if compiled else losses
        streams = [(member.task, member.seed) for member in members]
        self._streams = [*dict.fromkeys(streams)]
        self._rows = torch.tensor([self._streams.index(one) for one in streams])
        self.state = self._loaded() or self._new()

    def run(self, stop: Callable[[int], bool] = lambda step: False) -> State:
        """Train to the end, or until `stop(step)`; save now and then where there is a checkpoint file."""
        torch.set_flush_denormal(True)  # moments of unused rows become denormal, which is slow
        try:
            return self._run(stop)
        finally:
            torch.set_flush_denormal(False)

    def _run(self, stop: Callable[[int], bool]) -> State:
        begun, saved, before = time.monotonic(), time.monotonic(), self.state.seconds
        evaluated = {*self.setting.evaluated}
        while self.state.step < self.setting.steps and not stop(self.state.step):
            self._update()
            if self.state.step in evaluated:
                self._evaluate()
            self.state.seconds = before + time.monotonic() - begun
            if self.checkpoint and time.monotonic() - saved > SAVE_EVERY:
                self.save()
                saved = time.monotonic()
        if self.checkpoint:
            self.save()
        return self.state

    def _update(self) -> None:
        state, setting = self.state, self.setting
        pairs = [task.batch(seed, state.step, setting.batch) for task, seed in self._streams]
        inputs, targets = (torch.stack(one)[self._rows] for one in zip(*pairs, strict=True))
        losses = self._losses(setting.model, self.adapt.effective(state.parameters), inputs, targets)
        names = [*state.parameters]
        gradients = torch.autograd.grad(losses.sum(), [state.parameters[name] for name in names])
        share, update = setting.lr_share(state.step), state.step + 1
        with torch.no_grad():
            state.running += losses.detach()
            state.optimizer.step(
                dict(zip(names, gradients, strict=True)),
                update,
                [member.arm.at(update) for member in self.members],
                [member.lr * share for member in self.members],
                [member.weight_decay for member in self.members],
            )
        state.step = update

    @torch.no_grad()
    def _evaluate(self) -> None:
        state, (inputs, targets) = self.state, self.members[0].task.validation()
        at_once = EVALUATED_WINDOWS if targets.ndim > 1 else EVALUATED_IMAGES
        effective, total = self.adapt.effective(state.parameters), torch.zeros(len(self.members), dtype=torch.float64)
        for one, two in zip(inputs.split(at_once), targets.split(at_once), strict=True):
            many = [part.expand(len(self.members), *part.shape) for part in (one, two)]
            total += losses(self.setting.model, effective, *many).double() * len(one)
        since = state.step - (state.curves[0][-1][0] if state.curves[0] else 0)
        for curve, value, running in zip(state.curves, total / len(inputs), state.running / since, strict=True):
            curve.append((state.step, float(value), float(running)))
        state.running.zero_()

    def _new(self) -> State:
        each = [self.adapt.initial(member.seed) for member in self.members]
        parameters = {name: torch.stack([one[name] for one in each]).requires_grad_() for name in each[0]}
        count = len(self.members)
        return State(parameters, StackedAdamW(parameters), curves=[[] for _ in each], running=torch.zeros(count))

    def save(self) -> None:
        """Write the checkpoint to a temporary file, then move it: a killed process leaves a complete one."""
        assert self.checkpoint is not None
        state = self.state
        content: dict[str, Any] = {
            "members": [repr(member) for member in self.members],
            "parameters": {name: value.detach() for name, value in state.parameters.items()},
            "first": state.optimizer.first,
            "second": state.optimizer.second,
            "step": state.step,
            "seconds": state.seconds,
            "curves": state.curves,
            "running": state.running,
        }
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        aside = self.checkpoint.with_suffix(f".{os.getpid()}")
        torch.save(content, aside)
        os.replace(aside, self.checkpoint)

    def _loaded(self) -> State | None:
        if self.checkpoint is None or not self.checkpoint.exists():
            return None
        content = torch.load(self.checkpoint, weights_only=True)
        if content["members"] != [repr(member) for member in self.members]:
            raise ValueError(f"{self.checkpoint} is of other members; move it away or use the design that made it")
        parameters = {name: value.requires_grad_() for name, value in content["parameters"].items()}
        optimizer = StackedAdamW(parameters)
        for mine, stored in ((optimizer.first, content["first"]), (optimizer.second, content["second"])):
            for name, value in stored.items():
                mine[name].copy_(value)
        curves = [[(int(step), float(a), float(b)) for step, a, b in curve] for curve in content["curves"]]
        return State(parameters, optimizer, content["step"], content["seconds"], curves, content["running"])
