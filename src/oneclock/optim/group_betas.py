"""The parameter groups: the beta of each, the check that both of a group's betas are equal, and which weights decay.

Torch reads `group["betas"]`, a pair. A group that was given a beta or a horizon of its own has `own_beta` set to True.
"""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from oneclock.rule import checked_beta, resolve_beta

_BIAS = re.compile(r"(^|[._])bias([._]|$)")


def beta_settings(group: dict[str, Any], default: tuple[float, float]) -> dict[str, Any]:
    """A copy of a parameter group in which `betas` replaces its own `beta` or `horizon`, if it has one."""
    group = dict(group)
    given = {name: group.pop(name) for name in ("beta", "horizon", "rule") if name in group}
    if "betas" in group:
        betas = group["betas"]
        if given or not isinstance(betas, tuple | list) or len(betas) != 2 or betas[0] != betas[1]:
            raise ValueError(f"a parameter group has one beta: give 'beta' or 'horizon', not betas={betas}")
        given = {"beta": betas[0]} if tuple(betas) != default else {}
    own = any(value is not None for value in given.values())
    if own:
        group["betas"] = (resolve_beta(**given),) * 2
    group["own_beta"] = bool(group.get("own_beta", own))
    return group


def check_tied(groups: list[dict[str, Any]]) -> None:
    """Raise RuntimeError unless both betas of each group are equal, and all groups without an own beta share one."""
    if any(group.get("beta", group["betas"][0]) != group["betas"][0] for group in groups):
        raise RuntimeError(
            "group['beta'] was set after the group was made, and is not read. Remove it; set optimizer.beta for all "
            "groups, or both numbers of group['betas'] for a group that has its own beta"
        )
    pairs = [tuple(group["betas"]) for group in groups]
    if any(first != second for first, second in pairs):
        raise RuntimeError(
            f"beta1 and beta2 differ: {pairs}. Something changed them: OneCycleLR and CyclicLR do, unless given "
            "cycle_momentum=False. To change the memory, set optimizer.beta"
        )
    if len({tuple(group["betas"]) for group in groups if not group.get("own_beta")}) > 1:
        raise RuntimeError(
            f"parameter groups have different betas: {pairs}. Set optimizer.beta for all of them, or give a group its "
            "own: {'params': .., 'beta': ..}"
        )


def shared_beta(groups: list[dict[str, Any]], default: tuple[float, float]) -> float:
    """The beta of the groups that have none of their own."""
    return next((group["betas"] for group in groups if not group.get("own_beta")), default)[0]


def move_shared_beta(groups: list[dict[str, Any]], value: float) -> None:
    """Set the beta of the groups that have none of their own."""
    value = checked_beta(value)
    for group in groups:
        if not group.get("own_beta"):
            group["betas"] = (value, value)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: weights, which decay, and biases, norms and one-dimensional parameters, which do not.

    For any torch optimizer. A shared parameter appears once, a frozen one not at all, and an empty group is left out.
    A position bias (of Swin or T5) is a bias.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    >>> [(len(group["params"]), group["weight_decay"]) for group in decay_groups(model, 0.1)]
    [(1, 0.1), (3, 0.0)]
    """
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (weight_decay, 0.0)]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            owner = model.get_submodule(name.rpartition(".")[0])
            keep = parameter.ndim < 2 or _BIAS.search(name) or "Norm" in type(owner).__name__
            groups[bool(keep)]["params"].append(parameter)
    return [group for group in groups if group["params"]]
