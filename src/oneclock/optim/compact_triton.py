"""The compact step as one Triton kernel for CUDA and ROCm devices: `compact.update`, bit for bit.

One launch updates all tensors of a group that have the same dtypes and the same step number. A table on the device
holds their addresses; a second table says which tensor, and which part of it, each program updates.

Bit equality needs four things. Multiplications and additions are not fused (`enable_fp_fusion=False`). Division and
square root are correctly rounded. A bfloat16 is read and written as its 16 bits, and rounded in integer arithmetic.
NaN never reaches a conversion to an integer.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from oneclock.optim.compact import FRACTION_BITS, LARGEST, LEVELS, Update, weight
from oneclock.optim.dither import ELEMENT, MIX, step_keys

BLOCK, WARPS = 1024, 4
"""Elements per program, and warps that share them: eight elements per thread on NVIDIA."""
COLUMNS = 8
"""Numbers per tensor in the table: four addresses, then the first four of its `ShardOffsets`."""

_ELEMENT, _MIX = tl.constexpr(ELEMENT), tl.constexpr(MIX)
_LARGEST, _LEVELS = tl.constexpr(LARGEST), tl.constexpr(float(LEVELS << FRACTION_BITS))
_FRACTION, _TO_FRACTION, _COLUMNS = tl.constexpr(FRACTION_BITS), tl.constexpr(32 - FRACTION_BITS), tl.constexpr(COLUMNS)


def run(rows: list[int], beta: float, settings: Update, dtypes: Any, device: torch.device) -> None:
    """One step for tensors of one pair of dtypes, the parameter's and the gradient's; `rows` as in `compact_group`."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 9)
    steps = np.array([_count(address) for address in table[:, 4].tolist()])
    for step in sorted(set(steps.tolist())):
        chosen = table[(steps == step) & (table[:, 5] > 0)]
        if len(chosen):
            _launch(np.delete(chosen, 4, axis=1), weight(beta, step), step_keys(step), settings, dtypes, device)


def _count(address: int) -> int:
    counter = ctypes.c_int64.from_address(address)
    counter.value += 1
    return counter.value


def _launch(table: Any, a: float, keys: tuple[int, int], settings: Update, dtypes: Any, device: torch.device) -> None:
    programs = _programs(tuple(table[:, 4].tolist()), device)
    context = torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
    with context:
        _update[(len(programs),)](
            _on_device(table.tobytes(), device), programs, a, 1 - a, (1 - a) / LEVELS, settings.lr, settings.shrink,
            settings.eps, settings.l2, *map(_signed, keys),
            P_IS_BF16=dtypes[0] is torch.bfloat16, G_IS_BF16=dtypes[1] is torch.bfloat16,
            STOCHASTIC=settings.stochastic, L2=settings.l2 != 0, MAXIMIZE=settings.maximize,
            ALIGNED=not bool((table[:, :4] % 16).any()), BLOCK=BLOCK,
            num_warps=WARPS, enable_fp_fusion=False,
        )  # fmt: skip


def _signed(key: int) -> int:
    """A 32-bit key as the int32 with the same bits: a kernel argument of one fixed type."""
    return key - (1 << 32) if key >> 31 else key


@functools.lru_cache(maxsize=16)  # each takes up to 16 bytes per 1,024 weights
def _programs(sizes: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """For each program: the number of its tensor in the table, and the first element that it updates."""
    counts = [-(-size // BLOCK) for size in sizes]
    tensors = np.repeat(np.arange(len(sizes)), counts)
    starts = np.arange(len(tensors)) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    return torch.from_numpy(np.stack([tensors, starts * BLOCK], axis=1)).to(device)


@functools.lru_cache(maxsize=16)
def _on_device(table: bytes, device: torch.device) -> torch.Tensor:
    """The table on the device. It is copied again only when an address has changed."""
    return torch.frombuffer(bytearray(table), dtype=torch.int64).to(device, non_blocking=True)


@triton.jit
def _dither(position, key):  # type: ignore[no-untyped-def]
    x = position.to(tl.uint32) * _ELEMENT + key.to(tl.uint32, bitcast=True)
    return (x ^ (x >> 16)) * _MIX


@triton.jit
def _clamp(x, bound):  # type: ignore[no-untyped-def]
    x = tl.where(x > bound, bound, x)  # NaN compares false and stays
    return tl.where(x < -bound, -bound, x)


@triton.jit
def _widen(bits):  # type: ignore[no-untyped-def]
    return (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def _round_bits(x, added):  # type: ignore[no-untyped-def]
    """The upper 16 bits of float32 `x` after `added` went to the lower 16; the quiet NaN for NaN."""
    rounded = (x.to(tl.uint32, bitcast=True) + added) >> 16
    return tl.where(x == x, rounded, 0x7FC0).to(tl.uint16)


@triton.jit
def _load(address, i, inside, TYPE: tl.constexpr, ALIGNED: tl.constexpr, WHOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    start = address.to(tl.pointer_type(TYPE))
    if ALIGNED:
        start = tl.multiple_of(start, 16)
    if WHOLE:
        return start + i, tl.load(start + i)
    return start + i, tl.load(start + i, mask=inside, other=0)


@triton.jit
def _store(at, value, inside, WHOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    if WHOLE:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=inside)


@triton.jit
def _update_block(  # type: ignore[no-untyped-def]
    p_address, g_address, ratio_address, scale_address, i, inside, position,
    a, keep, unit, lr, shrink, eps, coupled, key, p_key,
    P_IS_BF16: tl.constexpr, G_IS_BF16: tl.constexpr, STOCHASTIC: tl.constexpr, L2: tl.constexpr,
    MAXIMIZE: tl.constexpr, ALIGNED: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The update of one block. `WHOLE` blocks need no mask, which lets the compiler use wide loads and stores."""
    if P_IS_BF16:
        p_at, p_bits = _load(p_address, i, inside, tl.uint16, ALIGNED, WHOLE)
        x = _widen(p_bits)
    else:
        p_at, x = _load(p_address, i, inside, tl.float32, ALIGNED, WHOLE)
    if G_IS_BF16:
        _, g_bits = _load(g_address, i, inside, tl.uint16, ALIGNED, WHOLE)
        g = _widen(g_bits)
    else:
        _, g = _load(g_address, i, inside, tl.float32, ALIGNED, WHOLE)
    ratio_at, level = _load(ratio_address, i, inside, tl.int8, ALIGNED, WHOLE)
    scale_at, scale_bits = _load(scale_address, i, inside, tl.uint16, ALIGNED, WHOLE)
    s = _widen(scale_bits)

    if MAXIMIZE:
        g = -g
    if L2:
        g = g + _clamp(x * coupled, _LARGEST)
    g = _clamp(g, _LARGEST) + (g - g)
    m = level.to(tl.float32) * unit * (s + eps) + g * a
    s = tl.sqrt_rn((s * s) * keep + (g * g) * a)
    r = _clamp(tl.div_rn(m, s + eps), 1.0)
    x = x * shrink - r * lr

    bits = _dither(position, key)
    fixed_point = (tl.where(r == r, r, 0.0) * _LEVELS).to(tl.int32)
    new_level = (fixed_point + (bits >> _TO_FRACTION).to(tl.int32)) >> _FRACTION
    _store(ratio_at, new_level.to(tl.int8), inside, WHOLE)
    _store(scale_at, _round_bits(s, bits & 0xFFFF), inside, WHOLE)
    if P_IS_BF16:
        nearest = 0x7FFF + ((x.to(tl.uint32, bitcast=True) >> 16) & 1)
        added = _dither(position, p_key) >> 16 if STOCHASTIC else nearest
        _store(p_at, _round_bits(x, added), inside, WHOLE)
    else:
        _store(p_at, x, inside, WHOLE)


@triton.jit(do_not_specialize=["a", "keep", "unit", "lr", "shrink", "eps", "coupled", "key", "p_key"])
def _update(  # type: ignore[no-untyped-def]
    table, programs, a, keep, unit, lr, shrink, eps, coupled, key, p_key,
    P_IS_BF16: tl.constexpr, G_IS_BF16: tl.constexpr, STOCHASTIC: tl.constexpr, L2: tl.constexpr,
    MAXIMIZE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    entry = table + tl.load(programs + 2 * program) * _COLUMNS
    begin = tl.multiple_of(tl.load(programs + 2 * program + 1), BLOCK)
    p, g, ratio, scale = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2), tl.load(entry + 3)
    size, first, run, stride = tl.load(entry + 4), tl.load(entry + 5), tl.load(entry + 6), tl.load(entry + 7)
    i = begin + tl.arange(0, BLOCK)
    inside = i < size
    position = first + i
    if run < size:
        position += (i // run) * (stride - run)
    if begin + BLOCK <= size:
        _update_block(
            p, g, ratio, scale, i, inside, position, a, keep, unit, lr, shrink, eps, coupled, key, p_key,
            P_IS_BF16, G_IS_BF16, STOCHASTIC, L2, MAXIMIZE, ALIGNED, True,
        )  # fmt: skip
    else:
        _update_block(
            p, g, ratio, scale, i, inside, position, a, keep, unit, lr, shrink, eps, coupled, key, p_key,
            P_IS_BF16, G_IS_BF16, STOCHASTIC, L2, MAXIMIZE, ALIGNED, False,
        )  # fmt: skip
