"""Checks that torch's fused kernel does not make: parameter, gradient and averages share one shape and one layout.

On a CPU the fused kernel walks the memory of all of them in step. With different layouts it would pair the wrong
elements; with a shorter tensor it would leave the tensor's memory. The functions here prepare its input: a gradient
with another layout is copied, an average with another layout is rearranged, and of a distributed tensor the local part
is used. A different shape, dtype or device is an error, as it is in torch's own loop.
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


def gather(
    group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]], checked: Checked, lists: tuple[list[Tensor], ...]
) -> bool:
    """Fill torch's six lists for the fused kernel. Return False if the kernel cannot walk some parameter.

    Tensors that passed the checks before and have not changed are not checked again. Raises KeyError if a parameter
    has no state yet.
    """
    params, grads, averages, squares, largest, steps = lists
    for p in group["params"]:
        g = p.grad
        if g is None:
            continue
        part, own = p, state[p]
        m, v = own["exp_avg"], own["exp_avg_sq"]
        before = checked.get(id(p))
        if before is None or m is not before[0] or v is not before[1] or not before[2] == p.shape == g.shape or (
            not before[3] == p.stride() == g.stride() or g.is_neg()
        ):  # fmt: skip
            if not is_walkable(p):
                return False
            part, g = aligned(p, own, g)
            m, v = local_tensor(own["exp_avg"]), local_tensor(own["exp_avg_sq"])
            if part is p and not group["amsgrad"]:
                checked[id(p)] = m, v, p.shape, p.stride()
        if group["amsgrad"]:
            largest.append(local_tensor(own["max_exp_avg_sq"]))
        params.append(part)
        grads.append(g)
        averages.append(m)
        squares.append(v)
        steps.append(own["step"])
    return True


def same_layout(lists: Sequence[list[Tensor]]) -> bool:
    """Whether the fused kernel can walk torch's lists as they are. The last list holds step counters; it is ignored."""
    rows = zip(*(tensors for tensors in lists[:-1] if tensors), strict=True)
    return all(
        is_walkable(p) and all((t.shape, t.stride()) == (p.shape, p.stride()) and not t.is_neg() for t in rest)
        for p, *rest in rows
    )


def aligned(p: Tensor, own: dict[str, Any], grad: Tensor) -> tuple[Tensor, Tensor]:
    """The local parts of `p` and `grad` in one layout. Averages in `own` with another layout are replaced."""
    if grad.layout is not torch.strided:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
    if getattr(p, "placements", None) != getattr(grad, "placements", None):
        grad = grad.redistribute(placements=p.placements)  # type: ignore[attr-defined]
    if why := describe_mismatch(p, {**own, "gradient": grad}, (*AVERAGES, "gradient")):
        raise RuntimeError(why)
    p, grad = local_tensor(p), local_tensor(grad).resolve_neg()
    for name in AVERAGES:
        if name in own and local_tensor(own[name]).stride() != p.stride():
            own[name] = _laid_out_like(p, own[name])
    return p, grad if grad.stride() == p.stride() else _laid_out_like(p, grad)


def describe_mismatch(
    p: Tensor, tensors: Mapping[str, Any], names: tuple[str, ...] = AVERAGES, dtypes: bool = True
) -> str | None:
    """The first difference in shape, device or (if `dtypes`) dtype between `p` and the named tensors; else None.

    >>> describe_mismatch(torch.ones(3), {"exp_avg": torch.ones(4)})
    'exp_avg has shape (4,), its parameter (3,): state of another parameter, or the parameter was replaced'
    """
    for name in (name for name in names if name in tensors):
        why = "state of another parameter, or the parameter was replaced"
        if name == "gradient":
            why = "both must be alike"
        whole, tensor, part = tensors[name], local_tensor(tensors[name]), local_tensor(p)
        if whole.shape != p.shape or tensor.shape != part.shape:
            return f"{name} has shape {tuple(tensor.shape)}, its parameter {tuple(part.shape)}: {why}"
        if tensor.device != part.device or (dtypes and tensor.dtype != part.dtype):
            ours, its = f"{tensor.dtype} on {tensor.device}", f"{part.dtype} on {part.device}"
            return f"{name} is {ours}, its parameter {its}: {why}"
    return None


def is_walkable(p: Tensor) -> bool:
    """Whether the local elements of `p` fill one block of memory, each element once, in any order.

    >>> is_walkable(torch.ones(4, 3).T), is_walkable(torch.ones(4, 3)[:, :2]), is_walkable(torch.ones(3).expand(4, 3))
    (True, False, False)
    """
    p = local_tensor(p)
    if p.is_neg():  # the memory holds the values with the opposite sign
        return False
    return p.is_contiguous() or torch.empty_like(p, device="meta").stride() == p.stride()  # kept only where dense


def local_tensor(tensor: Tensor) -> Tensor:
    """The part of a distributed tensor that this process holds. A plain tensor is returned unchanged."""
    return tensor if type(tensor) in PLAIN or not hasattr(tensor, "to_local") else tensor.to_local()


def _laid_out_like(p: Tensor, tensor: Any) -> Tensor:
    copy = torch.empty_like(p).copy_(local_tensor(tensor))
    if not hasattr(tensor, "to_local"):
        return copy
    whole = {"shape": tensor.shape, "stride": tensor.stride()}
    return type(tensor).from_local(copy, tensor.device_mesh, tensor.placements, run_check=False, **whole)
