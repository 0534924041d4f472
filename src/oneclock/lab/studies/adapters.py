"""How an ensemble starts: with new weights, or with pretrained ones, fine-tuned in full or through LoRA.

A value of `Start` is part of a setting. The pretrained model is trained once per study and kept beside the records, so
every process of a study fine-tunes the same weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from oneclock.lab.studies.models import Model

Weights = Mapping[str, Tensor]

_UNADAPTED = ("embedding", "positions", "head", "norms")


class NewWeights:
    """The trained parameters are the weights, new for each seed."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def initial(self, seed: int) -> dict[str, Tensor]:
        """The trained parameters of one member before its first update."""
        return self.model.initial(torch.Generator().manual_seed(seed))

    def effective(self, parameters: Weights) -> Weights:
        """The weights (E, ...) that the model computes with."""
        return parameters


class Pretrained(NewWeights):
    """The trained parameters are the weights; all members start from the same pretrained ones."""

    def __init__(self, model: Model, weights: Weights) -> None:
        super().__init__(model)
        self.weights = weights

    def initial(self, seed: int) -> dict[str, Tensor]:
        """The pretrained weights, whatever the seed."""
        return {name: value.clone() for name, value in self.weights.items()}


class LoRA(Pretrained):
    """The weights are the pretrained ones plus scale * a @ b, where a and b, of low rank, are trained.

    Every matrix of the layers is adapted; embeddings, positions, norms, biases and head stay frozen.
    """

    def __init__(self, model: Model, weights: Weights, rank: int, scale: float = 2.0) -> None:
        super().__init__(model, weights)
        self.rank, self.scale = rank, scale
        self._adapted = [name for name in weights if name not in _UNADAPTED and not name.endswith("bias")]
        self._frozen: dict[str, Tensor] = {}

    def initial(self, seed: int) -> dict[str, Tensor]:
        """a is drawn, b is 0: the first loss is the pretrained model's."""
        random, matrices = torch.Generator().manual_seed(seed), {}
        for name in self._adapted:
            rows, columns = self.weights[name].shape
            matrices[f"{name}.a"] = torch.randn(rows, self.rank, generator=random) * rows**-0.5
            matrices[f"{name}.b"] = torch.zeros(self.rank, columns)
        return matrices

    def effective(self, parameters: Weights) -> Weights:
        """The frozen weights, plus the learned part in the layers."""
        members = len(next(iter(parameters.values())))
        if not self._frozen:
            self._frozen = {name: value.repeat(members, *[1] * value.ndim) for name, value in self.weights.items()}
        learned = {
            name: torch.baddbmm(self._frozen[name], parameters[f"{name}.a"], parameters[f"{name}.b"], alpha=self.scale)
            for name in self._adapted
        }
        return self._frozen | learned


@dataclass(frozen=True)
class Start:
    """Pretrain on a text for so many steps, then train all weights, or a LoRA of a rank where one is given."""

    source: str
    steps: int
    lr: float
    rank: int | None = None

    def adapter(self, model: Model, weights: Weights) -> Pretrained:
        """The adapter that fine-tunes these weights."""
        return Pretrained(model, weights) if self.rank is None else LoRA(model, weights, self.rank)


def kept(path: Path, weights: Weights | None = None) -> Weights | None:
    """Weights in a file: read them, or save these safely; None if there are none."""
    if weights is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        torch.save(dict(weights), aside)
        os.replace(aside, path)
        return weights
    return torch.load(path, weights_only=True) if path.exists() else None
