"""The compact step as one loop for CPUs, compiled by Numba for the processor at hand: `compact.update`, bit for bit.

All tensors of a group go through one call, by address: for small tensors the calls would cost more than the work. A
large group is divided among as many threads as torch has. An option that is None is left out when the loop is
compiled: a test for each element would cost time.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from oneclock.optim.compact import FRACTION_BITS, LARGEST, LEVELS, Update, weight
from oneclock.optim.dither import ELEMENT, MIX, step_keys

ELEMENTS_PER_THREAD = 1 << 16
"""An extra thread is used only if it gets at least this many elements."""
CHUNKS_PER_THREAD = 8
ALIGNED = 64
"""Chunks start at multiples of this: whole cache lines of every tensor, also of the int8 ratios."""
_LIKE = {torch.float32: np.empty(0, np.float32), torch.bfloat16: np.empty(0, np.uint16)}

_HALF, _LARGEST, _ONE, _ZERO = np.uint32(16), np.float32(LARGEST), np.float32(1), np.float32(0)
_ELEMENT, _MIX = np.uint32(ELEMENT), np.uint32(MIX)
_LOW, _LAST, _SIGN, _QUIET_NAN = np.uint32(0xFFFF), np.uint32(1), np.uint32(0x7FFF), np.uint32(0x7FC0)
_NAN_BITS = np.uint32(0x7FC00000)
_TO_FIXED_POINT, _FRACTION = np.float32(LEVELS << FRACTION_BITS), np.int32(FRACTION_BITS)
_TO_FRACTION = np.uint32(32 - FRACTION_BITS)


def _compiled(function: Any) -> Any:
    """The function compiled by Numba, and kept on disk for later processes if some folder for it is writable."""
    options = {"nogil": True, "error_model": "numpy"}  # a check for division by zero would stop vector code
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


def run(rows: list[int], beta: float, settings: Update, dtypes: Any, device: torch.device) -> None:
    """One step for tensors of one pair of dtypes, the parameter's and the gradient's; `rows` as in `compact_group`."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 9)
    ends, steps = np.cumsum(table[:, 5]), _count(table[:, 4])
    floats, keys = np.empty((len(table), 3), dtype=np.float32), np.empty((len(table), 2), dtype=np.uint32)
    counts = set(steps.tolist())
    for step in counts:
        a, same = weight(beta, step), steps == step if len(counts) > 1 else slice(None)
        floats[same] = a, 1 - a, (1 - a) / LEVELS
        keys[same] = step_keys(step)
    reals = (np.float32(settings.lr), np.float32(settings.shrink), np.float32(settings.eps))
    fixed = (*(_LIKE[dtype] for dtype in dtypes), table, ends, floats, keys)
    l2 = np.float32(settings.l2) if settings.l2 else None
    bf16 = (dtype is torch.bfloat16 or None for dtype in dtypes)
    flags = (*bf16, settings.stochastic or None, l2, settings.maximize or None)
    threads = min(torch.get_num_threads(), int(ends[-1]) // ELEMENTS_PER_THREAD)
    if threads < 2:
        _walk(*fixed, np.int64(0), ends[-1], *reals, *flags)
        return
    count = min(CHUNKS_PER_THREAD * threads, int(ends[-1]) // ELEMENTS_PER_THREAD)
    cuts = np.linspace(0, ends[-1], count + 1).astype(np.int64)
    cuts[1:-1] -= cuts[1:-1] % ALIGNED  # vectors that straddle cache lines cost time
    chunks = iter([(*fixed, *cut, *reals, *flags) for cut in pairwise(cuts)])
    others = [_pool(os.getpid(), threads - 1).submit(_walk_all, chunks) for _ in range(threads - 1)]
    _walk_all(chunks)
    for other in others:
        other.result()


def _walk_all(chunks: Iterator[tuple[Any, ...]]) -> None:
    """Threads take chunks from a shared iterator, so a thread that starts late simply gets fewer chunks."""
    for chunk in chunks:
        _walk(*chunk)


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process: threads do not survive a fork."""
    return ThreadPoolExecutor(threads, thread_name_prefix="oneclock")


@_compiled
def _count(addresses: np.ndarray) -> np.ndarray:
    """Add one to the step counters (int64) at these addresses, and return them."""
    steps = np.empty(len(addresses), dtype=np.int64)
    for k in range(len(addresses)):
        counter = carray(_pointer(addresses[k]), (1,), np.int64)
        counter[0] += 1
        steps[k] = counter[0]
    return steps


@_compiled
def _walk(
    like_p: Any, like_g: Any, table: Any, ends: Any, floats: Any, keys: Any, begin: int, end: int,
    lr: Any, shrink: Any, eps: Any, p_bf16: Any, g_bf16: Any, stochastic: Any, l2: Any, maximize: Any,
) -> None:  # fmt: skip
    """Update the elements `begin` to `end` of all tensors laid end to end."""
    for k in range(len(table)):
        size = table[k, 5]
        low, high = max(begin - (ends[k] - size), 0), min(end - (ends[k] - size), size)
        if low >= high:
            continue
        p = carray(_pointer(table[k, 0]), (size,), like_p.dtype)
        g = carray(_pointer(table[k, 1]), (size,), like_g.dtype)
        ratio = carray(_pointer(table[k, 2]), (size,), np.int8)
        scale = carray(_pointer(table[k, 3]), (size,), np.uint16)
        first, length, stride = table[k, 6], table[k, 7], table[k, 8]
        a, keep, unit = floats[k]
        while low < high:
            number = low // length
            stop = min(high, (number + 1) * length)
            shift = first + number * (stride - length)
            _update_run(
                p[low:stop], g[low:stop], ratio[low:stop], scale[low:stop], shift + low, a, keep, unit,
                keys[k, 0], keys[k, 1], lr, shrink, eps, p_bf16, g_bf16, stochastic, l2, maximize,
            )  # fmt: skip
            low = stop


@_compiled
def _update_run(
    p: Any, g: Any, ratio: Any, scale: Any, first: int, a: Any, keep: Any, unit: Any,
    key: Any, p_key: Any, lr: Any, shrink: Any, eps: Any,
    p_bf16: Any, g_bf16: Any, stochastic: Any, l2: Any, maximize: Any,
) -> None:  # fmt: skip
    """Update elements at consecutive positions of the whole parameter, from position `first` on."""
    place = np.uint32(np.uint32(np.uint32(first) * _ELEMENT) + key)
    p_place = np.uint32(np.uint32(np.uint32(first) * _ELEMENT) + p_key)
    for i in range(len(p)):
        x = p[i] if p_bf16 is None else _widen(p[i])
        d = g[i] if g_bf16 is None else _widen(g[i])
        s = _widen(scale[i])
        if maximize is not None:
            d = -d
        if l2 is not None:
            d = d + _clamp(x * l2, _LARGEST)
        d = _clamp(d, _LARGEST) + (d - d)
        m = np.float32(ratio[i]) * unit * (s + eps) + d * a
        s = np.sqrt((s * s) * keep + (d * d) * a)
        r = _clamp(m / (s + eps), _ONE)
        x = x * shrink - r * lr
        bits = _dither(place)
        fixed_point = np.int32((r if r == r else _ZERO) * _TO_FIXED_POINT)
        level = np.int32(fixed_point + np.int32(np.uint32(bits >> _TO_FRACTION)))
        ratio[i] = np.int8(np.int32(level >> _FRACTION))
        s_bits = min(np.float32(s).view(np.uint32), _NAN_BITS)  # a root is at least 0, or a quiet NaN
        scale[i] = np.uint16(np.uint32(np.uint32(s_bits + np.uint32(bits & _LOW)) >> _HALF))
        if p_bf16 is None:
            p[i] = x
        elif stochastic is None:
            p[i] = _round_bits(
                x, np.uint32(_SIGN + np.uint32(np.uint32(np.float32(x).view(np.uint32) >> _HALF) & _LAST))
            )
        else:
            p[i] = _round_bits(x, np.uint32(_dither(p_place) >> _HALF))
        place = np.uint32(place + _ELEMENT)
        p_place = np.uint32(p_place + _ELEMENT)


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), cast


@njit(inline="always")
def _clamp(x: Any, bound: Any) -> Any:
    """`x` limited to [-bound, bound], in two instructions. NaN stays NaN because `x` comes first."""
    return min(max(x, -bound), bound)


@njit(inline="always")
def _widen(bits: Any) -> Any:
    """The 16 bits of a bfloat16 as float32."""
    return np.uint32(np.uint32(bits) << _HALF).view(np.float32)


@njit(inline="always")
def _dither(place: Any) -> Any:
    return np.uint32(np.uint32(place ^ np.uint32(place >> _HALF)) * _MIX)


@njit(inline="always")
def _round_bits(x: Any, added: Any) -> Any:
    """The upper 16 bits of float32 `x` after `added` went to the lower 16; the quiet NaN for NaN."""
    rounded = np.uint32(np.uint32(np.float32(x).view(np.uint32) + added) >> _HALF)
    return np.uint16(rounded if x == x else _QUIET_NAN)
