"""What loading a checkpoint changes: full state becomes compact state or the other way round, and betas are merged."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from oneclock.optim.compact import RATIO, SCALE, pack, unpack
from oneclock.optim.fused_lists import describe_mismatch
from oneclock.optim.group_betas import shared_beta
from oneclock.rule import checked_beta


def without_cast(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """A copy of a checkpoint in which functions return the ratios and scales: torch's loading leaves those alone.

    It would make float32 of the tensors, and of the step counter too if a group is fused.
    """

    def wrapped(own: Any) -> Any:
        if not isinstance(own, dict):
            return own
        return own | {name: lambda kept=own[name]: kept for name in (RATIO, SCALE) if isinstance(own.get(name), Tensor)}

    plain = {"fused": None, "foreach": None, "capturable": False}
    state = {number: wrapped(own) for number, own in checkpoint["state"].items()}
    return {**checkpoint, "param_groups": [group | plain for group in checkpoint["param_groups"]], "state": state}


def unwrap(saved: dict[Tensor, dict[str, Any]]) -> None:
    """Copy wrapped tensors to the device of their parameter, in place."""
    for p, own in saved.items():
        for name in (RATIO, SCALE):
            if isinstance(own, dict) and callable(own.get(name)):
                own[name] = own[name]().to(p.device, copy=True)


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

    A tied pair of the checkpoint stays, an untied one is replaced by the group's former one. A group whose beta differs
    from that of the other groups counts as one with its own beta.
    """
    untied = sorted({tuple(group["betas"]) for group in loaded if group["betas"][0] != group["betas"][1]})
    changed: dict[str, None] = {}
    for old, new in zip(before, loaded, strict=True):
        new["own_beta"] = new.get("own_beta", old.get("own_beta", False))
        if tuple(new["betas"]) in untied:
            new["betas"] = old["betas"]
        elif new["betas"][0] != old["betas"][0]:
            changed[f"{new['betas'][0]:g} replaces {old['betas'][0]:g}"] = None
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
        messages.append(f"the checkpoint's beta {', '.join(changed)}; set optimizer.beta after loading to change it")
    return messages


def convert(group: dict[str, Any], saved: dict[Tensor, dict[str, Any]], compact: bool) -> bool:
    """Make the saved state of a group compact or torch's own, in place. Return whether any was the other kind."""
    if compact:
        if group.get("amsgrad"):
            raise ValueError("the checkpoint was made with amsgrad=True, which compact state does not have")
        group.update(foreach=None, capturable=False, differentiable=False)
    changed = False
    for p in (p for p in group["params"] if saved.get(p)):
        own = saved[p]
        if compact:  # a number in checkpoints of old versions of torch; two optimizers may load one checkpoint
            own["step"] = torch.as_tensor(own["step"]).to("cpu", torch.int64, copy=True)
        if compact != (RATIO in own):
            saved[p] = (pack if compact else unpack)(p, own, group["betas"], group["eps"])
            changed = True
        elif compact:
            own.update({RATIO: own[RATIO].to(torch.int8), SCALE: own[SCALE].to(torch.bfloat16)})
    return changed
