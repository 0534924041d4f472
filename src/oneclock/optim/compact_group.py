"""A step of a parameter group with compact state: the loop for what lies plainly on a CPU, plain torch for the rest."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections import defaultdict
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneclock.optim.compact import RATIO, SCALE, Update, advance, fresh, line
from oneclock.optim.layout import PLAIN, here, misfit

DTYPES = (torch.float32, torch.bfloat16)
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


def step(group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]], stochastic: bool) -> None:
    """Update the group's parameters that have a gradient, and their state, in place."""
    lr = group["lr"]
    compiling = torch.compiler.is_compiling()
    settings = Update(
        lr if compiling else float(lr), group["weight_decay"], group["eps"],
        group["decoupled_weight_decay"], group["maximize"], stochastic,
    )  # fmt: skip
    beta = group["betas"][0]
    fast = None if compiling or group["fused"] is False else loop()
    rows: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
    counters: dict[Any, list[int]] = defaultdict(list)
    kept = []  # copies of gradients must outlive the loop, which knows addresses only
    for p in group["params"]:
        grad = p.grad
        if grad is None:
            continue
        own = state[p] or _begin(p, grad, state[p])
        row = _row(p, grad, own) if fast else None
        if row is None:
            part, grad = _checked(p, grad, own)
            row = _row(part, grad, {name: here(own[name]) for name in (RATIO, SCALE)}, line(p)) if fast else None
            kept.append(grad)
        if row is None:
            advance(p, grad, own, beta, settings)
        else:
            rows[p.dtype, grad.dtype].append(row)
            counters[p.dtype, grad.dtype].append(own["step"].data_ptr())
    for kinds, table in rows.items():
        assert fast is not None  # it made the rows
        fast.run(table, fast.count(np.array(counters[kinds])), beta, settings, kinds)


def _begin(p: Tensor, grad: Tensor, own: dict[str, Any]) -> dict[str, Any]:
    if grad.is_sparse:
        raise RuntimeError("compact state does not support sparse gradients; make them dense, or use SparseAdam")
    own.update(fresh(p))
    return own


def _row(p: Any, g: Any, own: Mapping[str, Tensor], where: Any = None) -> tuple[int, ...] | None:
    """What the loop needs of one parameter; None where it is not plain, or not laid out as the loop walks."""
    ratio, scale, shape = own[RATIO], own[SCALE], p.shape
    if (
        type(p) in PLAIN
        and shape == g.shape == ratio.shape == scale.shape
        and p.is_contiguous()
        and g.is_contiguous()
        and ratio.is_contiguous()
        and scale.is_contiguous()
        and p.is_cpu
        and g.is_cpu
        and ratio.dtype is torch.int8
        and scale.dtype is torch.bfloat16
        and g.dtype in DTYPES
    ):
        size = p.numel()
        first, block, apart = (0, size, size) if where is None else where[:3]
        if size and block:
            return p.data_ptr(), g.data_ptr(), ratio.data_ptr(), scale.data_ptr(), size, first, block, apart
    return None


def _checked(p: Any, grad: Any, own: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The parts of `p` and its gradient that are here, once it is sure that the state is theirs."""
    if getattr(p, "placements", None) != getattr(grad, "placements", None):
        grad = grad.redistribute(placements=p.placements)
    if why := misfit(p, {**own, "gradient": grad}, (RATIO, SCALE, "gradient"), dtypes=False):
        raise RuntimeError(why)
    if (own[RATIO].dtype, own[SCALE].dtype) != (torch.int8, torch.bfloat16):
        raise RuntimeError(f"compact state must be int8 and bfloat16, got {own[RATIO].dtype} and {own[SCALE].dtype}")
    return here(p), here(grad)
