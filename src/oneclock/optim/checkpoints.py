"""What loading a checkpoint changes: full state becomes compact state or the other way round, and betas are merged."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from oneclock.optim.betas import shared_beta
from oneclock.optim.compact import RATIO, SCALE, pack, unpack
from oneclock.optim.layout import describe_mismatch
from oneclock.rule import checked_beta


class Uncast:
    """A tensor of a checkpoint that torch's loading leaves alone: it would make float32 of all ratios and scales."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def without_cast(saved: dict[Any, Any]) -> dict[Any, Any]:
    """A copy of a checkpoint's state in which ratios and scales are wrapped."""

    def wrapped(name: str, value: Any) -> Any:
        return Uncast(value) if name in (RATIO, SCALE) and isinstance(value, Tensor) else value

    return {
        number: {name: wrapped(name, value) for name, value in own.items()} if isinstance(own, dict) else own
        for number, own in saved.items()
    }


def unwrap(saved: dict[Tensor, dict[str, Any]]) -> None:
    """Copy wrapped tensors to the device of their parameter, in place."""
    for p, own in saved.items():
        for name, value in own.items() if isinstance(own, dict) else ():
            if isinstance(value, Uncast):
                own[name] = value.tensor.to(p.device, copy=True)


def check_loaded(groups: list[dict[str, Any]], saved: dict[Tensor, dict[str, Any]]) -> None:
    """Raise ValueError unless groups and state come from an optimizer of Adam's kind and fit the parameters."""
    for group in groups:
        if missing := {"betas", "lr", "eps", "weight_decay"} - set(group):
            raise ValueError(f"not a checkpoint of Adam or AdamW: its groups have no {', '.join(sorted(missing))}")
        if not isinstance(group["betas"], tuple | list) or len(group["betas"]) != 2:
            raise ValueError(f"the checkpoint's betas must be two numbers, got {group['betas']}")
        for beta in group["betas"]:
            checked_beta(beta)
    for number, p in enumerate(p for group in groups for p in group["params"]):
        own = saved.get(p, {})
        names = {"step", RATIO, SCALE} if RATIO in own else {"step", "exp_avg", "exp_avg_sq"}
        if own and (missing := names - set(own)):
            raise ValueError(f"parameter {number}: the checkpoint's state has no {', '.join(sorted(missing))}")
        if why := describe_mismatch(p, own) or describe_mismatch(p, own, (RATIO, SCALE), dtypes=False):
            raise ValueError(f"parameter {number}: {why}")


def merge_betas(before: list[dict[str, Any]], loaded: list[dict[str, Any]]) -> list[str]:
    """Make the betas of loaded groups tied, in place. Return one warning for each kind of change.

    A tied pair of the checkpoint stays. An untied pair is replaced by the group's former one. A group whose beta
    differs from that of the other groups counts as one with its own beta.
    """
    untied = sorted({tuple(group["betas"]) for group in loaded if group["betas"][0] != group["betas"][1]})
    changed = []
    for old, new in zip(before, loaded, strict=True):
        new["own_beta"] = new.get("own_beta", old.get("own_beta", False))
        if tuple(new["betas"]) in untied:
            new["betas"] = old["betas"]
        elif new["betas"][0] != old["betas"][0]:
            changed.append((new["betas"][0], old["betas"][0]))
    shared = shared_beta(loaded, loaded[0]["betas"])
    for group in loaded:
        group["own_beta"] = group["own_beta"] or group["betas"][0] != shared
    messages = []
    if untied:
        messages.append(
            f"the checkpoint's betas {untied} are not tied; keeping beta = {shared:g}. "
            "Its averages carry over and adapt within a few memories"
        )
    if changed:
        replaced = ", ".join(f"{new_beta:g} replaces {old_beta:g}" for new_beta, old_beta in dict.fromkeys(changed))
        messages.append(f"the checkpoint's beta {replaced}; set optimizer.beta after loading to change it")
    return messages


def pack_group(group: dict[str, Any], saved: dict[Tensor, dict[str, Any]]) -> None:
    """Make the saved state of a group compact, with its own dtypes: torch's loading casts them to the parameter's."""
    if group.get("amsgrad"):
        raise ValueError("the checkpoint was made with amsgrad=True, which compact state does not have")
    group.update(foreach=None, capturable=False, differentiable=False)
    for p in (p for p in group["params"] if saved.get(p)):
        own = saved[p]
        step = torch.as_tensor(own["step"])  # a number in checkpoints of old versions of torch
        if RATIO not in own:
            saved[p] = pack(p, {**own, "step": step}, group["betas"], group["eps"])
        else:
            own["step"] = step.to("cpu", torch.int64, copy=True)  # two optimizers may load one checkpoint
            own.update({RATIO: own[RATIO].to(torch.int8), SCALE: own[SCALE].to(torch.bfloat16)})


def unpack_group(group: dict[str, Any], saved: dict[Tensor, dict[str, Any]]) -> bool:
    """Make the saved state of a group torch's own. Return whether it was compact."""
    compact = [p for p in group["params"] if RATIO in saved.get(p, {})]
    for p in compact:
        saved[p] = unpack(p, saved[p], group["betas"], group["eps"])
    return bool(compact)
