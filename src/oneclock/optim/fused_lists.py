"""Checks that torch's fused kernel does not make: parameter, gradient and averages share one shape and one layout.

On a CPU the fused kernel walks the memory of all of them in step. With different layouts it would pair the wrong
elements; with a shorter tensor it would leave the tensor's memory. Here what has another layout is copied. A different
shape, dtype or device is an error, as in torch's own loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

AVERAGES = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
PLAIN = (torch.nn.Parameter, Tensor)


Checked = dict[int, tuple[Tensor, Tensor, torch.Size, tuple[int, ...]]]
"""By the id of a parameter: averages that passed the checks, and the shape and strides the parameter had then."""
_NEVER = (None, None, None, None)


def same_layout(lists: Sequence[list[Tensor]]) -> bool:
    """Whether the fused kernel can walk torch's lists as they are. The last list holds step counters; it is ignored."""
    for p, *rest in zip(*(tensors for tensors in lists[:-1] if tensors), strict=True):
        shape, stride = p.shape, p.stride()
        if not is_walkable(p) or any(t.shape != shape or t.stride() != stride or t.is_neg() for t in rest):
            return False
    return True


def same_as_before(lists: Sequence[list[Tensor]], checked: Checked) -> bool:
    """Whether all averages passed the checks before, and the gradients lie as their parameters did then."""
    params, grads, averages, squares, largest, _ = lists
    for p, grad, m, v in zip(params, grads, averages, squares, strict=True):
        before = checked.get(id(p), _NEVER)
        if before[0] is not m or before[1] is not v or not before[2] == p.shape == grad.shape:
            return False
        if not before[3] == p.stride() == grad.stride() or grad.is_neg():
            return False
    return not largest


def is_walkable(p: Tensor) -> bool:
    """Whether the local elements of `p` fill one block of memory, each element once, in any order."""
    p = local_tensor(p)
    if p.is_neg():  # the memory holds the values with the opposite sign
        return False
    return p.is_contiguous() or torch.empty_like(p, device="meta").stride() == p.stride()  # kept only where dense


def align(lists: Sequence[list[Tensor]], state: Mapping[Tensor, dict[str, Any]], checked: Checked) -> None:
    """Give all tensors of torch's lists, but the step counters, the layout of their parameter's local part."""
    params, grads, *averages, _ = lists
    for index, p in enumerate(params):
        own, grad = state[p], distributed_like(p, grads[index])
        if why := describe_mismatch(p, {**own, "gradient": grad}, (*AVERAGES, "gradient")):
            raise RuntimeError(why)
        params[index] = local_tensor(p)
        grads[index] = _laid_out_like(params[index], local_tensor(grad).resolve_neg())
        for name, tensors in zip(AVERAGES, averages, strict=True):
            if tensors:
                own[name] = _laid_out_like(params[index], own[name])
                tensors[index] = local_tensor(own[name])
        if type(p) in PLAIN:
            checked[id(p)] = own["exp_avg"], own["exp_avg_sq"], p.shape, p.stride()


def distributed_like(p: Any, grad: Any) -> Tensor:
    """The gradient with the placements of `p`, if both are distributed."""
    if getattr(p, "placements", None) == getattr(grad, "placements", None):
        return grad
    return grad.redistribute(placements=p.placements)


def describe_mismatch(
    p: Tensor, tensors: Mapping[str, Any], names: tuple[str, ...] = AVERAGES, dtypes: bool = True
) -> str | None:
    """The first difference in shape, device or (if `dtypes`) dtype between `p` and the named tensors; else None."""
    part = local_tensor(p)
    for name in (name for name in names if name in tensors):
        whole, tensor = tensors[name], local_tensor(tensors[name])
        why = "state of another parameter, or the parameter was replaced"
        if name == "gradient":
            why = "both must be alike"
        if whole.shape != p.shape or tensor.shape != part.shape:
            return f"{name} has shape {tuple(tensor.shape)}, its parameter {tuple(part.shape)}: {why}"
        if tensor.device != part.device or (dtypes and tensor.dtype != part.dtype):
            ours, its = f"{tensor.dtype} on {tensor.device}", f"{part.dtype} on {part.device}"
            return f"{name} is {ours}, its parameter {its}: {why}"
    return None


def local_tensor(tensor: Tensor) -> Tensor:
    """The part of a distributed tensor that this process holds. A plain tensor is returned unchanged."""
    return tensor if type(tensor) in PLAIN or not hasattr(tensor, "to_local") else tensor.to_local()


def _laid_out_like(p: Tensor, tensor: Any) -> Tensor:
    """The tensor itself if its local part has the strides of `p`, else a copy that has them."""
    if local_tensor(tensor).stride() == p.stride():
        return tensor
    copy = torch.empty_like(p).copy_(local_tensor(tensor))
    if not hasattr(tensor, "to_local"):
        return copy
    whole = {"shape": tensor.shape, "stride": tensor.stride()}
    return type(tensor).from_local(copy, tensor.device_mesh, tensor.placements, run_check=False, **whole)
