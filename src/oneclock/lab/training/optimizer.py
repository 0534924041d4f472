"""A spec's optimizer for a model: balanced Adam for one beta, torch's own for an untied pair (a baseline)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from oneclock.lab.experiments import spec
from oneclock.optim import BalancedAdam, BalancedAdamW, decay_groups
from oneclock.rule import checked_beta

Beta = float | tuple[float, float]


def checked(beta: Beta) -> Beta:
    """`beta` itself, one number or a pair, each in [0, 1); else a ValueError that says so.

    >>> checked(0.95), checked((0.9, 0.999))
    (0.95, (0.9, 0.999))
    """
    if isinstance(beta, tuple):
        if len(beta) != 2:
            raise ValueError(f"beta must be one number or a pair (beta1, beta2), got {len(beta)} numbers")
        return checked_beta(beta[0]), checked_beta(beta[1])
    return checked_beta(beta)


def optimizer_for(model: nn.Module, optimizer: spec.Optimizer, beta: Beta) -> torch.optim.Optimizer:
    """Adam or AdamW over the model's parameters, with the spec's decay groups, and fused if torch supports it.

    >>> settings = spec.Optimizer("adamw", lr=1e-3, weight_decay=0.1)
    >>> type(optimizer_for(nn.Linear(2, 2), settings, 0.95)).__name__
    'BalancedAdamW'
    >>> type(optimizer_for(nn.Linear(2, 2), settings, (0.9, 0.999))).__name__
    'AdamW'
    """
    groups = _groups(model, optimizer)
    options = {"lr": optimizer.lr, "weight_decay": optimizer.weight_decay}
    if isinstance(beta, tuple):
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer.name]
        device = next(model.parameters()).device.type
        return kind(groups, betas=beta, fused=device in _get_fused_kernels_supported_devices() or None, **options)
    return {"adam": BalancedAdam, "adamw": BalancedAdamW}[optimizer.name](groups, beta=beta, **options)


def _groups(model: nn.Module, optimizer: spec.Optimizer) -> Any:
    if optimizer.decay == "all":
        return model.parameters()
    if optimizer.decay == "weights":
        return decay_groups(model, optimizer.weight_decay)
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": optimizer.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
