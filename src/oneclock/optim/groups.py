"""Which parameters decay: the split into two groups that the paper's experiments, and most others, use."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

_BIAS = re.compile(r"(^|[._])bias([._]|$)")


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: weights, which decay, and biases, norms and one-dimensional parameters, which do not.

    A shared parameter appears once, a frozen one not at all, and an empty group is left out. A position bias (of Swin
    or T5) is a bias.

    Args:
        model: Any torch module.
        weight_decay: The decay of its weights.

    Returns:
        One or two parameter groups, for any torch optimizer.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    >>> [(len(group["params"]), group["weight_decay"]) for group in decay_groups(model, 0.1)]
    [(1, 0.1), (3, 0.0)]
    """
    decay: list[nn.Parameter] = []
    keep: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            owner = model.get_submodule(name.rpartition(".")[0])
            plain = parameter.ndim < 2 or _BIAS.search(name) or "Norm" in type(owner).__name__
            (keep if plain else decay).append(parameter)
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": keep, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
