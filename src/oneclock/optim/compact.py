r"""Compact state: Adam's two averages in three bytes per parameter. Only tied betas allow it.

Write `s` for the square root of the averaged squares after bias correction, and `r = m / (s + eps)` for the update in
units of the learning rate. With one beta both averages move by the same weight `a = (1 - beta) / (1 - beta^t)`:

    m  = (1 - a) r (s + eps) + a g,    s' = sqrt((1 - a) s^2 + a g^2),    r' = m / (s' + eps)

Then |r'| <= 1 for any gradient and any a in [0, 1]: |m| <= (1 - a)(s + eps) + a |g| <= s' + eps, because the mean of s
and |g| is at most the root of the mean of their squares. So `r` fits in an int8 without any scale (127 levels on each
side), and `s` in a bfloat16. Both tensors have the parameter's own shape, and no other tensor is kept.

Both are rounded up or down at random (`dither`), so that their expected values are exact. Rounding to the nearest
would not work: small `r` would never decay, and a long memory would lose small gradients.

This module is the definition, in plain torch, for any device and for `torch.compile`. It works in blocks, so that a
step needs a fixed buffer instead of temporary tensors of the parameter's size. `compact_loop` (CPU) and
`compact_triton` (GPU) do the same arithmetic, bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from oneclock.optim.dither import blocks, dither, positions, shard_offsets, step_keys
from oneclock.optim.fused_lists import local_tensor

RATIO, SCALE = "ratio", "scale"
LEVELS = 127
FRACTION_BITS = 24
"""Bits behind the point when a ratio is rounded. 127 * 2^24 plus the largest fraction is the largest int32."""
LARGEST = 2.0**63
"""Gradients are clamped to this size, so that their squares stay finite."""
TINY = 2.0**-126
"""Smallest usable eps; avoids 0/0."""
CPU_BLOCK, DEVICE_BLOCK = 2**16, 2**20
"""Elements that the definition updates at a time. It needs up to 70 bytes of buffer for each."""


class Update(NamedTuple):
    """The settings of a step. `lr` may be a tensor with one element while a step is being compiled."""

    lr: Any
    shrink: Any
    """What decoupled weight decay multiplies the parameter with."""
    l2: float
    """What is multiplied with the parameter and added to the gradient."""
    eps: float
    maximize: bool
    stochastic: bool


def new_state(p: Tensor) -> dict[str, Tensor]:
    """The state before the first step, on the parameter's device. The step counter is an exact int64 on the CPU."""
    return {
        "step": torch.zeros((), dtype=torch.int64, device="cpu"),  # also where another device is the default
        RATIO: torch.zeros_like(p, dtype=torch.int8),
        SCALE: torch.zeros_like(p, dtype=torch.bfloat16),
    }


def pack(p: Tensor, own: dict[str, Any], betas: tuple[float, float], eps: float) -> dict[str, Tensor]:
    """Convert torch's state of `p`, made with `betas`, to compact state. Ratios of untied betas are clamped to [-1, 1].

    >>> full = {"step": torch.tensor(1.0), "exp_avg": torch.tensor([0.1]), "exp_avg_sq": torch.tensor([0.1])}
    >>> compact = pack(torch.ones(1), full, (0.9, 0.9), 1e-8)
    >>> compact["ratio"], compact["scale"], unpack(torch.ones(1), compact, (0.9, 0.9), 1e-8)["exp_avg"]
    (tensor([127], dtype=torch.int8), tensor([1.], dtype=torch.bfloat16), tensor([0.1000]))
    """
    first, second = _corrections(own["step"], betas)
    s = (own["exp_avg_sq"].float() / second).sqrt()
    r = (own["exp_avg"].float() / first / (s + eps).clamp(min=TINY)).clamp(-1, 1)
    ratio = torch.where(r == r, r * LEVELS, 0).round().to(torch.int8)
    return {"step": own["step"].cpu().to(torch.int64), RATIO: ratio, SCALE: s.to(torch.bfloat16)}


def unpack(p: Tensor, own: dict[str, Any], betas: tuple[float, float], eps: float) -> dict[str, Tensor]:
    """Convert compact state of `p` to torch's own state, in the parameter's dtype."""
    first, second = _corrections(own["step"], betas)
    s = own[SCALE].float()
    averages = own[RATIO].float() / LEVELS * (s + eps) * first
    squares = s * s * second
    return {"step": own["step"].float(), "exp_avg": averages.to(p.dtype), "exp_avg_sq": squares.to(p.dtype)}


def _corrections(step: Any, betas: tuple[float, float]) -> tuple[float, float]:
    first, second = (1 - beta ** float(step) for beta in betas)
    return first or 1.0, second or 1.0  # before the first step both averages are zero, and stay so


def weight(beta: float, step: Any) -> Any:
    """a, the weight of the newest gradient: 1 at the first step, 1 - beta in the long run."""
    return (1 - beta) / (1 - beta**step)


def advance(p: Tensor, grad: Tensor, own: dict[str, Tensor], beta: float, settings: Update) -> None:
    """One step of one parameter, in place, by the definition."""
    own["step"] += 1
    compiling = torch.compiler.is_compiling()
    no_number = compiling or type(own["step"]) is not Tensor  # a fake tensor has no value
    step: Any = own["step"] if no_number else int(own["step"])
    a, keys = weight(beta, step.double() if no_number else step), step_keys(step)
    tensors = [local_tensor(tensor) for tensor in (p, grad, own[RATIO], own[SCALE])]
    device, shape = tensors[0].device, tuple(tensors[0].shape)
    most = tensors[0].numel() if compiling else CPU_BLOCK if device.type == "cpu" else DEVICE_BLOCK
    offsets = shard_offsets(p).axis_offsets
    for block in blocks(shape, most):  # a compiled step is one block: the compiler keeps temporaries in registers
        part, grad, ratio, scale = (tensor[block] for tensor in tensors)
        position = positions(tuple(p.shape), offsets, block, device)
        update(part, grad, ratio, scale, position, a, keys, settings)


def update(
    p: Tensor, grad: Tensor, ratio: Tensor, scale: Tensor, position: Tensor, a: Any, keys: Any, settings: Update
) -> None:
    """The definition: `p`, `ratio` and `scale` after one gradient, in place. `position` is int64, of p's shape."""
    eps, x, g, s = settings.eps, p.float(), grad.float(), scale.float()
    if settings.maximize:
        g = -g
    if settings.l2:
        g = g + (x * settings.l2).clamp(-LARGEST, LARGEST)  # the product may overflow although the sum does not
    g = g.clamp(-LARGEST, LARGEST) + (g - g)  # g - g is zero, or NaN if g is not finite: that must stay visible
    m = ratio.float() * ((1 - a) / LEVELS) * (s + eps) + g * a
    s = _sqrt((s * s) * (1 - a) + (g * g) * a)
    r = (m / (s + eps)).clamp(-1, 1)
    x = x * settings.shrink - r * settings.lr
    bits = dither(position, keys[0])
    fixed_point = (torch.where(r == r, r, 0) * float(LEVELS << FRACTION_BITS)).to(torch.int32)
    ratio.copy_((fixed_point + (bits >> 8)) >> FRACTION_BITS)
    scale.copy_(_round_at_random(s, bits & 0xFFFF))
    if p.dtype == torch.bfloat16 and settings.stochastic:
        x = _round_at_random(x, dither(position, keys[1]) >> 16)
    p.copy_(x)


def _sqrt(x: Tensor) -> Tensor:
    # On a CPU torch's float32 root may be MKL's, which is not correctly rounded. By way of float64 it is.
    return x.double().sqrt().float() if x.is_cpu else x.sqrt()


def _round_at_random(x: Tensor, bits: Tensor) -> Tensor:
    """float32 rounded to a value of bfloat16, up or down with the odds that keep the mean. `bits`: 16 random bits."""
    rounded = ((x.view(torch.int32) + bits.to(torch.int32)) & -65536).view(torch.float32)
    return torch.where(x == x, rounded, torch.nan)  # adding to the bits of a NaN may turn it into a number
