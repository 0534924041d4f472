"""One step of a parameter group with compact state: a kernel for contiguous tensors, otherwise the definition."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from oneclock.optim.compact import RATIO, SCALE, TINY, Update, advance, new_state
from oneclock.optim.dither import shard_offsets
from oneclock.optim.fused_lists import PLAIN, describe_mismatch, distributed_like, local_tensor

DTYPES = (torch.float32, torch.bfloat16)
REFUSED = ("amsgrad", "capturable", "differentiable", "foreach")
KERNELS = {
    "cpu": ("numba", "compact_loop", "pip install 'oneclock[compact]'"),
    "cuda": ("triton", "compact_triton", "pip install triton (it comes with torch for CUDA and ROCm)"),
}
"""By type of device (ROCm is "cuda" too): the package that its kernel needs, its module, how to install the package."""
NOT_CHECKED = (None,) * 6


@functools.cache
def kernel_for(device_type: str) -> ModuleType | None:
    """The kernel for this type of device, or None if there is none or its package is not installed."""
    package, module, _ = KERNELS.get(device_type, ("", "", ""))
    if not package or not importlib.util.find_spec(package):
        return None
    try:
        return importlib.import_module(f"oneclock.optim.{module}")
    except ImportError as error:  # Numba refuses a NumPy that is newer than it knows
        warnings.warn(f"{package} cannot be imported: {error}", stacklevel=2)
        return None


@functools.cache
def _warn_of_slow_step(why: str) -> None:
    warnings.warn(f"{why}: the same numbers, but up to 40 times slower", stacklevel=2)


def check_group(group: dict[str, Any]) -> None:
    """Raise an error for a group that compact state does not support."""
    for name in REFUSED:
        if group[name]:
            raise ValueError(f"compact state does not work with {name}=True: leave it out, or use state='full'")
    if not math.isfinite(group["eps"]):
        raise ValueError(f"eps must be finite, got {group['eps']}")
    for p in group["params"]:
        if p.dtype not in DTYPES:
            raise ValueError(f"compact state is for float32 and bfloat16 parameters, got {p.dtype}; use state='full'")
        if group["fused"] and kernel_for(p.device.type) is None:
            _, _, install = KERNELS.get(p.device.type, ("", "", "leave out fused=True: this device has no kernel"))
            raise ImportError(f"fused=True with compact state needs a kernel for {p.device.type}: {install}")


def step(
    group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]], checked: dict[int, Any], stochastic: bool
) -> None:
    """Update the group in place. `checked` remembers, by the id of a parameter, the tensors that passed the checks."""
    compiling, beta = torch.compiler.is_compiling(), group["betas"][0]
    lr = group["lr"] if compiling else float(group["lr"])
    decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
    shrink, l2 = (1 - lr * decay, 0.0) if decoupled else (1.0, decay)
    settings = Update(lr, shrink, l2, max(group["eps"], TINY), group["maximize"], stochastic)
    work: dict[Any, list[int]] = {}
    alive = []  # kernels get addresses, so a redistributed gradient must stay alive until they have run
    for p in (p for p in group["params"] if p.grad is not None):
        grad, own = p.grad, state[p]
        if not own:
            _refuse_sparse(grad)
            own.update(new_state(p))
        row = None
        if compiling or group["fused"] is False:
            grad = _checked_gradient(p, grad, own)
        elif (row := _row_again(p, grad, own, checked.get(id(p), NOT_CHECKED))) is None:
            grad = _checked_gradient(p, grad, own)
            row = _row(p, grad, own, checked)
        if row is None:
            advance(p, grad, own, beta, settings)
        else:
            alive.append(grad)
            work.setdefault((p.device, p.dtype, grad.dtype), []).extend(row)
    for (device, *dtypes), rows in work.items():
        kernel_for(device.type).run(rows, beta, settings, dtypes, device)  # type: ignore[union-attr]


def _row_again(p: Tensor, grad: Tensor, own: dict[str, Tensor], before: tuple[Any, ...]) -> tuple[int, ...] | None:
    """What a kernel needs for tensors that passed the checks before; None if something has changed since."""
    ratio, scale, counter = own[RATIO], own[SCALE], own["step"]
    if before[0] is not ratio or before[1] is not scale or before[2] is not counter or before[4] != p.device:
        return None
    if not before[3] == p.shape == grad.shape or p.dtype not in DTYPES or grad.dtype not in DTYPES:
        return None
    if grad.layout is not torch.strided or not (grad.is_contiguous() and p.is_contiguous()):
        return None
    if grad.is_neg() or p.is_neg():
        return None
    addresses = p.data_ptr(), grad.data_ptr(), ratio.data_ptr(), scale.data_ptr(), counter.data_ptr()
    return addresses + before[5] if all(addresses) else None


def _row(p: Tensor, grad: Tensor, own: dict[str, Tensor], checked: dict[int, Any]) -> tuple[int, ...] | None:
    """Nine numbers for a kernel; None if it cannot run.

    The addresses of parameter, gradient, ratio, scale and step counter, then the first four of its `ShardOffsets`.
    """
    device = p.device.type
    if kernel_for(device) is None:
        if device in KERNELS:
            package, _, install = KERNELS[device]
            _warn_of_slow_step(f"{package} is not installed ({install}): the compact step on {device} is plain torch")
        return None
    kept, offsets = (own[RATIO], own[SCALE], own["step"]), shard_offsets(p)
    tensors = [local_tensor(tensor) for tensor in (p, grad, *kept)]
    if not all(map(_is_plain_memory, tensors)):
        if not p.is_contiguous():
            _warn_of_slow_step(
                "a parameter is not contiguous (channels_last, for example), so its compact step runs in plain torch; "
                "keep the weights contiguous, or use state='full' for their model"
            )
        return None
    if offsets.run is None or not kept[2].is_cpu or kept[2].dtype is not torch.int64 or grad.dtype not in DTYPES:
        return None
    where = offsets.size, offsets.first, offsets.run, offsets.stride
    if type(p) in PLAIN:
        checked[id(p)] = *kept, p.shape, p.device, where
    return (*map(Tensor.data_ptr, tensors), *where)


def _is_plain_memory(tensor: Tensor) -> bool:
    """Whether the values lie one after the other at the address: not in quantized or fake tensors and lazy zeros."""
    if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return False
    return tensor.is_contiguous() and not tensor.is_neg() and bool(tensor.data_ptr() or not tensor.numel())


def _refuse_sparse(grad: Tensor) -> None:
    if grad.layout is not torch.strided:
        raise RuntimeError("compact state does not support sparse gradients; make them dense, or use SparseAdam")


def _checked_gradient(p: Tensor, grad: Tensor, own: dict[str, Any]) -> Tensor:
    """The gradient, distributed as `p` is. Raises RuntimeError if the state does not belong to `p`."""
    _refuse_sparse(grad)
    grad = distributed_like(p, grad)
    if p.dtype not in DTYPES:
        raise RuntimeError(f"compact state is for float32 and bfloat16 parameters, and this one is now {p.dtype}")
    if why := describe_mismatch(p, {**own, "gradient": grad}, (RATIO, SCALE, "gradient"), dtypes=False):
        raise RuntimeError(why)
    if (own[RATIO].dtype, own[SCALE].dtype) != (torch.int8, torch.bfloat16):
        raise RuntimeError(f"compact state must be int8 and bfloat16, got {own[RATIO].dtype} and {own[SCALE].dtype}")
    return grad
