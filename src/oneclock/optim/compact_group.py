"""A step of a parameter group with compact state: the loop for what lies plainly on a CPU, plain torch for the rest."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from itertools import product
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from oneclock.optim.compact import RATIO, SCALE, Update, advance, fresh, line
from oneclock.optim.layout import PLAIN, here, misfit

DTYPES = (torch.float32, torch.bfloat16)
KINDS = frozenset(product(DTYPES, DTYPES))
"""What the loop takes: the dtypes of a parameter and of its gradient."""
NOTHING = (None,) * 5
UNKNOWN = ("amsgrad", "capturable", "differentiable", "foreach")


@functools.cache
def loop() -> ModuleType | None:
    """The compiled loop where Numba is installed, else None."""
    return importlib.import_module("oneclock.optim.compact_loop") if importlib.util.find_spec("numba") else None


def refuse(group: dict[str, Any]) -> None:
    """Stop, in words, at a group that compact state cannot serve."""
    for name in UNKNOWN:
        if group[name]:
            raise ValueError(f"compact state does not go with {name}=True: leave it out, or use state='full'")
    if group["fused"] and loop() is None:
        raise ImportError("fused=True with compact state needs numba: pip install 'oneclock[compact]'")
    for p in group["params"]:
        if p.dtype not in DTYPES:
            raise ValueError(f"compact state is for float32 and bfloat16 parameters, got {p.dtype}; use state='full'")


def step(
    group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]], known: dict[int, Any], stochastic: bool
) -> None:
    """Update the group's parameters that have a gradient, and their state, in place.

    `known` keeps, by the id of a parameter, state that was found to be as the loop walks it.
    """
    if torch.compiler.is_compiling():
        settings = _settings(group, group["lr"], stochastic)
        for p in (p for p in group["params"] if p.grad is not None):
            own = state[p] or _begin(p, p.grad, state[p])
            advance(p, _checked(p, p.grad, own), own, group["betas"][0], settings)
    else:
        _step_at_once(group, state, known, _settings(group, float(group["lr"]), stochastic))


def _settings(group: dict[str, Any], lr: Any, stochastic: bool) -> Update:
    decoupled, maximize = group["decoupled_weight_decay"], group["maximize"]
    return Update(lr, group["weight_decay"], group["eps"], decoupled, maximize, stochastic)


@torch._disable_dynamo
def _step_at_once(
    group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]], known: dict[int, Any], settings: Update
) -> None:
    fast = None if group["fused"] is False else loop()
    rows: dict[Any, list[int]] = {kinds: [] for kinds in KINDS if fast}
    kept = []  # copies of gradients must outlive the loop, which knows addresses only
    for p in group["params"]:
        grad = p.grad
        if grad is None:
            continue
        own = state[p] or _begin(p, grad, state[p])
        row = rows.get((p.dtype, grad.dtype))
        if row is None or not _add_known(row, p, grad, own, known.get(id(p), NOTHING)):
            grad = _checked(p, grad, own)
            kept.append(grad)
            if row is None or not _add(row, p, grad, own, known):
                advance(p, grad, own, group["betas"][0], settings)
    for kinds, row in rows.items():
        if row:
            fast.run(row, group["betas"][0], settings, kinds)  # type: ignore[union-attr]


def _add_known(row: list[int], p: Tensor, grad: Tensor, own: dict[str, Tensor], before: tuple[Any, ...]) -> bool:
    """Add to the loop's work what it walked before and is unchanged; False where it is not."""
    ratio, scale, counter = own[RATIO], own[SCALE], own["step"]
    if (
        before[0] is ratio
        and before[1] is scale
        and before[2] is counter
        and before[3] == p.shape == grad.shape
        and p.is_contiguous()
        and grad.is_contiguous()
        and p.is_cpu
    ):
        addresses = p.data_ptr(), grad.data_ptr(), ratio.data_ptr(), scale.data_ptr(), counter.data_ptr()
        row += addresses + before[4]
        return True
    return False


def _add(row: list[int], p: Tensor, grad: Tensor, own: dict[str, Tensor], known: dict[int, Any]) -> bool:
    """Add to the loop's work what it can walk, and remember it; False where it cannot."""
    ratio, scale, counter = own[RATIO], own[SCALE], own["step"]
    tensors, place = (here(p), here(grad), here(ratio), here(scale), counter), line(p)
    plain = all(tensor.is_cpu and tensor.is_contiguous() for tensor in tensors)
    if not plain or counter.dtype is not torch.float32 or place.block is None:
        return False
    row.extend(map(Tensor.data_ptr, tensors))
    row.extend((place.size, place.first, place.block, place.apart))
    if type(p) in PLAIN:
        known[id(p)] = ratio, scale, counter, p.shape, tuple(row[-4:])
    return True


def _begin(p: Tensor, grad: Tensor, own: dict[str, Any]) -> dict[str, Any]:
    if grad.is_sparse:
        raise RuntimeError("compact state does not support sparse gradients; make them dense, or use SparseAdam")
    own.update(fresh(p))
    return own


def _checked(p: Any, grad: Any, own: dict[str, Any]) -> Tensor:
    """The gradient, distributed as `p` is, once it is sure that the state is that of `p`."""
    if getattr(p, "placements", None) != getattr(grad, "placements", None):
        grad = grad.redistribute(placements=p.placements)
    if p.dtype not in DTYPES:
        raise RuntimeError(f"compact state is for float32 and bfloat16 parameters, and this one is now {p.dtype}")
    if why := misfit(p, {**own, "gradient": grad}, (RATIO, SCALE, "gradient"), dtypes=False):
        raise RuntimeError(why)
    if (own[RATIO].dtype, own[SCALE].dtype) != (torch.int8, torch.bfloat16):
        raise RuntimeError(f"compact state must be int8 and bfloat16, got {own[RATIO].dtype} and {own[SCALE].dtype}")
    return grad
