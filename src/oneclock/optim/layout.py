"""What torch's fused kernel does not look at: that parameter, gradient and averages have one shape and one layout.

On a CPU the kernel walks the memory of all of them in step. Where they are laid out differently it pairs the wrong
elements, and where one is shorter it leaves its memory. These functions hand it only what it can walk: a gradient of
another layout as a copy, an average of another layout laid out anew, and of a distributed tensor the part that is here.
A shape, dtype or device that differs is an error, as it is in torch's own loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

AVERAGES = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
PLAIN = (torch.nn.Parameter, Tensor)


Known = dict[int, tuple[Tensor, Tensor, torch.Size, tuple[int, ...]]]
"""By the id of a parameter: averages that were found to fit it, and the shape and strides it then had."""


def gather(
    group: dict[str, Any], state: Mapping[Tensor, dict[str, Any]], known: Known, lists: tuple[list[Tensor], ...]
) -> bool:
    """Fill torch's six lists for the fused kernel; False where a parameter is no block of memory it could walk.

    What fitted before, and is still the same, is only looked at. A KeyError means that a parameter has no state yet.
    """
    params, grads, averages, squares, largest, steps = lists
    for p in group["params"]:
        g = p.grad
        if g is None:
            continue
        part, own = p, state[p]
        m, v = own["exp_avg"], own["exp_avg_sq"]
        before = known.get(id(p))
        if before is None or m is not before[0] or v is not before[1] or not before[2] == p.shape == g.shape or (
            not before[3] == p.stride() == g.stride()
        ):  # fmt: skip
            if not is_walkable(p):
                return False
            part, g = aligned(p, own, g)
            m, v = here(own["exp_avg"]), here(own["exp_avg_sq"])
            if part is p and not group["amsgrad"]:
                known[id(p)] = m, v, p.shape, p.stride()
        if group["amsgrad"]:
            largest.append(here(own["max_exp_avg_sq"]))
        params.append(part)
        grads.append(g)
        averages.append(m)
        squares.append(v)
        steps.append(own["step"])
    return True


def alike(lists: Sequence[list[Tensor]]) -> bool:
    """Whether the fused kernel could walk torch's lists as they are; the last, of step counters, does not matter."""
    rows = zip(*(tensors for tensors in lists[:-1] if tensors), strict=True)
    return all(is_walkable(p) and {(t.shape, t.stride()) for t in rest} == {(p.shape, p.stride())} for p, *rest in rows)


def aligned(p: Tensor, own: dict[str, Any], grad: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of `p` and `grad` that are here, in one layout; the averages in `own` are laid out like them."""
    if getattr(p, "placements", None) != getattr(grad, "placements", None):
        grad = grad.redistribute(placements=p.placements)  # type: ignore[attr-defined]
    if why := misfit(p, {**own, "gradient": grad}, (*AVERAGES, "gradient")):
        raise RuntimeError(why)
    p, grad = here(p), here(grad)
    for name in AVERAGES:
        if name in own and here(own[name]).stride() != p.stride():
            own[name] = _laid_out_like(p, own[name])
    return p, grad if grad.stride() == p.stride() else _laid_out_like(p, grad)


def misfit(p: Tensor, tensors: Mapping[str, Any], names: tuple[str, ...] = AVERAGES, dtypes: bool = True) -> str | None:
    """What differs from `p` in shape, device or (unless not asked) dtype among the named tensors; None if nothing does.

    >>> misfit(torch.ones(3), {"exp_avg": torch.ones(4)})
    'exp_avg has shape (4,), its parameter (3,): state of another parameter, or a parameter replaced since'
    """
    why = "state of another parameter, or a parameter replaced since"
    for name in (name for name in names if name in tensors):
        whole, tensor, part = tensors[name], here(tensors[name]), here(p)
        if whole.shape != p.shape or tensor.shape != part.shape:
            return f"{name} has shape {tuple(tensor.shape)}, its parameter {tuple(part.shape)}: {why}"
        if tensor.device != part.device or (dtypes and tensor.dtype != part.dtype):
            ours, its = f"{tensor.dtype} on {tensor.device}", f"{part.dtype} on {part.device}"
            return f"{name} is {ours}, its parameter {its}: {why}"
    return None


def is_walkable(p: Tensor) -> bool:
    """Whether the elements of `p` that are here fill one block of memory, each once, in whatever order.

    >>> is_walkable(torch.ones(4, 3).T), is_walkable(torch.ones(4, 3)[:, :2]), is_walkable(torch.ones(3).expand(4, 3))
    (True, False, False)
    """
    p = here(p)
    return p.is_contiguous() or torch.empty_like(p, device="meta").stride() == p.stride()  # kept only where dense


def here(tensor: Tensor) -> Tensor:
    """The part of a distributed tensor that this process holds; a plain tensor as it is."""
    return tensor if type(tensor) in PLAIN or not hasattr(tensor, "to_local") else tensor.to_local()


def _laid_out_like(p: Tensor, tensor: Any) -> Tensor:
    copy = torch.empty_like(p).copy_(here(tensor))
    if not hasattr(tensor, "to_local"):
        return copy
    whole = {"shape": tensor.shape, "stride": tensor.stride()}
    return type(tensor).from_local(copy, tensor.device_mesh, tensor.placements, run_check=False, **whole)
