r"""Compact state: Adam's two averages in three bytes per parameter, which only one memory allows.

Write `s` for the root of the averaged squares after bias correction and `r = m / (s + eps)` for the update in units of
the learning rate. With one beta both averages move by the same weight `a = (1 - beta) / (1 - beta^t)`:

    m  = (1 - a) r (s + eps) + a g,    s' = sqrt((1 - a) s^2 + a g^2),    r' = m / (s' + eps)

and |r'| <= 1 for any gradient and any a in [0, 1]: |m| <= (1 - a)(s + eps) + a |g| <= s' + eps, since the mean of s and
|g| is at most the root of the mean of their squares. So `r` fits in an int8 without any scale, 127 levels a side, and
`s` in a bfloat16. No other tensor is kept: both have the parameter's own shape, and checkpoints and shards treat them
as any state.

Both are rounded with a dither, a Weyl sequence in the element's place within the whole parameter and in the step. The
rounding errors then cancel over time, no generator is needed, and a sharded parameter gets the numbers of a whole one.
Rounding to the nearest would not do: small `r` would never decay, and long memories would lose small gradients.

This module is the definition, in plain torch, for any device and `torch.compile`. `compact_loop` is the same
arithmetic for CPUs, to the last bit.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from oneclock.optim.layout import here

RATIO, SCALE = "ratio", "scale"
LEVELS = 127
LARGEST = 2.0**63
"""Gradients are cut here, so that their squares stay finite."""
TINY = 2.0**-126
"""The least eps that acts, lest nothing be divided by nothing."""

ELEMENT, TIME = 0x61C96A0B, 0xC14091E1
"""How far the dither of the state moves per element and per step, mod 2^32. Its upper half rounds the ratio, its lower
half the scale: (3 - sqrt 5) / 2 and sqrt 2 - 1 of a turn per element, and per step the two of the plastic number, which
fill a square evenly. ELEMENT stays below 2^31, so that its product with a place fits in an int64."""
PARAMETER_ELEMENT, PARAMETER_TIME = 0x5AB00AC5, 0xBB67AE85
"""The same for bfloat16 parameters, of which only the upper half is used: 3 - sqrt 7 and sqrt 3 - 1 of a turn."""
MASK = 0xFFFFFFFF


class Update(NamedTuple):
    """What a step needs beside the tensors; `lr` may be a tensor of one element where a step is being compiled."""

    lr: Any
    weight_decay: float
    eps: float
    decoupled: bool
    maximize: bool
    stochastic: bool


class Places(NamedTuple):
    """Where the `size` elements of a parameter that are here lie in the whole.

    In blocks of `block` elements, the first at `first`, the others `apart` from start to start; None in `block` means
    that no such line says it, and the `offsets` along each axis must.
    """

    size: int
    first: int
    block: int | None
    apart: int
    offsets: tuple[int, ...]


def fresh(p: Tensor) -> dict[str, Tensor]:
    """The state before the first step, on the parameter's device; the step counter stays on the CPU.

    >>> state = fresh(torch.ones(2, 3))
    >>> [(name, tuple(tensor.shape), tensor.element_size()) for name, tensor in state.items()]
    [('step', (), 4), ('ratio', (2, 3), 1), ('scale', (2, 3), 2)]
    """
    return {
        "step": torch.zeros((), dtype=torch.float32),
        RATIO: torch.zeros_like(p, dtype=torch.int8),
        SCALE: torch.zeros_like(p, dtype=torch.bfloat16),
    }


def packed(p: Tensor, own: dict[str, Any], betas: tuple[float, float], eps: float) -> dict[str, Tensor]:
    """Torch's state of `p`, made with `betas`, as compact state. Untied averages are cut to |r| <= 1.

    >>> full = {"step": torch.tensor(1.0), "exp_avg": torch.tensor([0.1]), "exp_avg_sq": torch.tensor([0.1])}
    >>> compact = packed(torch.ones(1), full, (0.9, 0.9), 1e-8)
    >>> compact["ratio"], compact["scale"]
    (tensor([127], dtype=torch.int8), tensor([1.], dtype=torch.bfloat16))
    """
    first, second = _corrections(own["step"], betas)
    s = (own["exp_avg_sq"].float() / second).sqrt()
    r = (own["exp_avg"].float() / first / (s + eps).clamp(min=TINY)).clamp(-1, 1)
    ratio = torch.where(r == r, r * LEVELS, 0).round().to(torch.int8)
    return {"step": own["step"].float().cpu(), RATIO: ratio, SCALE: s.to(torch.bfloat16)}


def unpacked(p: Tensor, own: dict[str, Any], betas: tuple[float, float], eps: float) -> dict[str, Tensor]:
    """Compact state of `p` as torch's own, in the parameter's dtype.

    >>> own = {"step": torch.tensor(1.0), "ratio": torch.tensor([127]), "scale": torch.tensor([1.0])}
    >>> full = unpacked(torch.ones(1), own, (0.9, 0.9), 1e-8)
    >>> full["exp_avg"], full["exp_avg_sq"]
    (tensor([0.1000]), tensor([0.1000]))
    """
    first, second = _corrections(own["step"], betas)
    s = own[SCALE].float()
    averages = own[RATIO].float() / LEVELS * (s + eps) * first
    return {"step": own["step"], "exp_avg": averages.to(p.dtype), "exp_avg_sq": (s * s * second).to(p.dtype)}


def _corrections(step: Any, betas: tuple[float, float]) -> tuple[float, float]:
    first, second = (1 - beta ** float(step) for beta in betas)
    return first or 1.0, second or 1.0  # before the first step both averages are zero, and stay so


def weight(beta: float, step: Any) -> Any:
    """a, the weight of the newest gradient: 1 at the first step, 1 - beta in the long run.

    >>> weight(0.75, 1), weight(0.75, 2)
    (1.0, 0.5714285714285714)
    """
    return (1 - beta) / (1 - beta**step)


def advance(p: Tensor, grad: Tensor, own: dict[str, Tensor], beta: float, settings: Update) -> None:
    """One step of one parameter, in place, in plain torch."""
    own["step"] += 1
    step = own["step"].double() if torch.compiler.is_compiling() else own["step"].item()
    update(here(p), here(grad), here(own[RATIO]), here(own[SCALE]), places(p), weight(beta, step), step, settings)


def update(
    p: Tensor, grad: Tensor, ratio: Tensor, scale: Tensor, place: Tensor, a: Any, step: Any, settings: Update
) -> None:
    """The definition: p, ratio and scale after one gradient, in place. `place` is int64, of p's shape."""
    lr, weight_decay, eps = settings.lr, settings.weight_decay, max(settings.eps, TINY)
    x, g, s = p.float(), grad.float(), scale.float()
    if settings.maximize:
        g = -g
    if weight_decay and not settings.decoupled:
        g = g + x * weight_decay
    g = g.clamp(-LARGEST, LARGEST) + (g - g)  # the difference is zero, or NaN where g is not finite: let that be seen
    m = ratio.float() * ((1 - a) / LEVELS) * (s + eps) + g * a
    s = _root((s * s) * (1 - a) + (g * g) * a)
    r = (m / (s + eps)).clamp(-1, 1)
    if weight_decay and settings.decoupled:
        x = x * (1 - lr * weight_decay)
    x = x - r * lr
    dither = _weyl(place, step, ELEMENT, TIME)
    level = torch.where(r == r, r, 0) * LEVELS + ((dither >> 16).float() * 2.0**-16 + (LEVELS + 1))
    ratio.copy_(level.to(torch.int32) - (LEVELS + 1))
    scale.copy_(_rounded(s, dither & 0xFFFF))
    if p.dtype == torch.bfloat16 and settings.stochastic:
        x = _rounded(x, _weyl(place, step, PARAMETER_ELEMENT, PARAMETER_TIME) >> 16)
    p.copy_(x)


def places(p: Tensor) -> Tensor:
    """The place of every element of `p` that is here within the whole parameter, as int64 of the part's shape."""
    part, whole = here(p), line(p)
    place = torch.zeros((), dtype=torch.int64, device=part.device)
    apart = 1
    for size, here_size, offset in zip(reversed(p.shape), reversed(part.shape), reversed(whole.offsets), strict=True):
        along = (torch.arange(here_size, device=part.device) + offset) * apart
        place = place + along.reshape(-1, *[1] * (place.ndim))
        apart *= size
    return place


def line(p: Any) -> Places:
    """Where the part of `p` that is here lies in the whole; a plain tensor is the whole."""
    if hasattr(p, "placements"):
        found = _sharded_line(tuple(p.shape), p.device_mesh, tuple(p.device_mesh.get_coordinate()), tuple(p.placements))
        if found.size == here(p).numel():
            return found
    size = here(p).numel()
    return Places(size, 0, size, size, (0,) * p.ndim)


@functools.lru_cache(maxsize=4096)
def _sharded_line(
    shape: tuple[int, ...], mesh: Any, coordinate: tuple[int, ...], placements: tuple[Any, ...]
) -> Places:
    """Of a sharded parameter, on the process at `coordinate` of the mesh."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    part, offsets = compute_local_shape_and_global_offset(torch.Size(shape), mesh, placements)
    cut = [axis for axis, (whole, here_size) in enumerate(zip(shape, part, strict=True)) if whole != here_size]
    if len(cut) > 1:
        return Places(math.prod(part), 0, None, 0, tuple(offsets))
    axis = cut[0] if cut else 0
    below = math.prod(shape[axis + 1 :])
    first, block, apart = (size * below for size in (offsets[axis], part[axis], shape[axis]))
    return Places(math.prod(part), first, block, apart, tuple(offsets))


def _weyl(place: Tensor, step: Any, element: int, time: int) -> Tensor:
    phase = (step.long() if isinstance(step, Tensor) else int(step)) * time & MASK
    return ((place & MASK) * element + phase) & MASK


def _root(x: Tensor) -> Tensor:
    # On a CPU torch's float32 root may be MKL's, which is not rounded exactly; by way of float64 it is.
    return x.double().sqrt().float() if x.is_cpu else x.sqrt()


def _rounded(x: Tensor, dither: Tensor) -> Tensor:
    """float32 to a value that bfloat16 holds, up or down with the chance that keeps the mean; `dither` in 16 bits."""
    return ((x.view(torch.int32) + dither.to(torch.int32)) & -65536).view(torch.float32)
