"""A task small enough to run thousands of steps: two-class points in the plane, and a spec to train them with."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from oneclock.lab.experiments.spec import Augmentation, Evaluation, Experiment, Images, Optimizer, ResNet, Schedule

SPEC = Experiment(
    name="tiny",
    title="Points in the plane",
    split="development",
    model=ResNet(classes=2),
    data=Images("points", Augmentation()),
    optimizer=Optimizer("adamw", lr=1e-2, weight_decay=0.01, clip=1.0),
    schedule=Schedule(min_lr=1e-4, warmup_steps=3),
    evaluation=Evaluation(every=5, at_start=True),
    budget=22,
    batch_size=4,
    accumulate=2,
)


class Points:
    """A Task: is the product of the coordinates positive? `poison` is a step whose targets are not numbers."""

    def __init__(self, poison: int | None = None, batch_size: int = 4) -> None:
        self.poison, self.batch_size = poison, batch_size

    def batch(self, seed: int, step: int, micro: int) -> dict[str, Tensor]:
        draw = torch.Generator().manual_seed(1_000_000 * seed + 1_000 * step + micro)
        batch = self._points(draw, self.batch_size)
        if step == self.poison:
            batch["x"] = batch["x"] * float("nan")
        return batch

    def evaluation(self, split: str) -> list[dict[str, Tensor]]:
        draw = torch.Generator().manual_seed(7 if split == "train" else 8)
        return [self._points(draw, size) for size in (5, 5, 3)]

    def loss(self, model: nn.Module, batch: dict[str, Tensor], training: bool) -> Tensor:
        return functional.cross_entropy(model(batch["x"]), batch["y"], label_smoothing=0.1 if training else 0.0)

    def weight(self, batch: dict[str, Tensor]) -> int:
        return len(batch["y"])

    @staticmethod
    def _points(draw: torch.Generator, size: int) -> dict[str, Tensor]:
        x = torch.randn(size, 2, generator=draw)
        return {"x": x, "y": (x.prod(1) > 0).long()}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
