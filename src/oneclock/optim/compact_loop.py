"""The compact update as one loop for CPUs, compiled by Numba for the processor at hand: `compact.update`, bit for bit.

All tensors of a group go through one call, by address, since for small tensors the calls would cost more than the work.
Large groups are cut among as many threads as torch has; Numba's own threads are not used, and the loop holds no lock
of Python's. What is None is left out when the loop is compiled: a question asked at each element would cost.
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
from numba.extending import intrinsic, overload

from oneclock.optim.compact import (
    ELEMENT,
    LARGEST,
    LEVELS,
    MASK,
    PARAMETER_ELEMENT,
    PARAMETER_TIME,
    TIME,
    TINY,
    Update,
    weight,
)

WORTH_A_THREAD = 1 << 16
"""Elements that one more thread must have to do."""
PIECES = 8
"""Pieces that the work is cut into, for each thread."""
_LIKE = {torch.float32: np.empty(0, np.float32), torch.bfloat16: np.empty(0, np.uint16)}

_compiled = njit(nogil=True, cache=True, error_model="numpy")  # a check for division by zero would stop vector code
_HALF, _LARGEST, _LEVELS = np.uint32(16), np.float32(LARGEST), np.float32(LEVELS)
_ELEMENT, _P_ELEMENT = np.uint32(ELEMENT), np.uint32(PARAMETER_ELEMENT)
_LOW, _SIGN = np.uint32(0xFFFF), np.uint32(0x7FFF)
_SHIFT = np.float32(LEVELS + 1).view(np.uint32)  # 128: its last 16 bits are those behind the point
_ONE, _ZERO, _QUIET = np.float32(1), np.float32(0), np.uint32(0x7FC0)


def run(rows: list[int], beta: float, settings: Update, kinds: Any) -> None:
    """One step for tensors of one pair of dtypes `kinds`, parameter's and gradient's.

    Nine numbers for each: the addresses of parameter, gradient, ratio, scale and step counter, and the first four of
    its `Places`.
    """
    table = np.array(rows, dtype=np.int64).reshape(-1, 9)
    ends, steps = np.cumsum(table[:, 5]), _count(table[:, 4])
    floats, phases = np.empty((len(table), 3), dtype=np.float32), np.empty((len(table), 2), dtype=np.uint32)
    counts = set(steps.tolist())
    for step in counts:
        a, same = weight(beta, step), steps == step if len(counts) > 1 else slice(None)
        floats[same] = a, 1 - a, (1 - a) / LEVELS
        phases[same] = int(step) * TIME & MASK, int(step) * PARAMETER_TIME & MASK
    lr, decay = settings.lr, settings.weight_decay
    shrink, coupled = (1 - lr * decay, 0) if settings.decoupled else (1, decay)
    reals = (np.float32(lr), np.float32(shrink), np.float32(max(settings.eps, TINY)))
    fixed = (*(_LIKE[kind] for kind in kinds), table, ends, floats, phases)
    flags = (settings.stochastic, np.float32(coupled) if coupled else None, settings.maximize or None)
    threads = min(torch.get_num_threads(), int(ends[-1]) // WORTH_A_THREAD)
    if threads < 2:
        _walk(*fixed, np.int64(0), ends[-1], *reals, *flags)
        return
    cuts = np.linspace(0, ends[-1], min(PIECES * threads, int(ends[-1]) // WORTH_A_THREAD) + 1).astype(np.int64)
    pieces = iter([(*fixed, *cut, *reals, *flags) for cut in pairwise(cuts)])
    others = [_pool(os.getpid(), threads - 1).submit(_walk_all, pieces) for _ in range(threads - 1)]
    _walk_all(pieces)
    for other in others:
        other.result()


def _walk_all(pieces: Iterator[tuple[Any, ...]]) -> None:
    """Walk what no other thread has taken; who is late, for torch's own threads still spin, takes less."""
    for piece in pieces:
        _walk(*piece)


@functools.lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, hence one pool per process."""
    return ThreadPoolExecutor(threads, thread_name_prefix="oneclock")


@_compiled
def _count(addresses: np.ndarray) -> np.ndarray:
    """Add one to the step counters, float32, at these addresses, and return them."""
    steps = np.empty(len(addresses), dtype=np.float32)
    for k in range(len(addresses)):
        counter = carray(_pointer(addresses[k]), (1,), np.float32)
        counter[0] += _ONE
        steps[k] = counter[0]
    return steps


@_compiled
def _walk(
    like_p: Any, like_g: Any, table: Any, ends: Any, floats: Any, phases: Any, begin: int, end: int,
    lr: Any, shrink: Any, eps: Any, stochastic: bool, coupled: Any, maximize: Any,
) -> None:  # fmt: skip
    for k in range(len(table)):
        size = table[k, 5]
        low, high = max(begin - (ends[k] - size), 0), min(end - (ends[k] - size), size)
        if low >= high:
            continue
        p = carray(_pointer(table[k, 0]), (size,), like_p.dtype)
        g = carray(_pointer(table[k, 1]), (size,), like_g.dtype)
        ratio = carray(_pointer(table[k, 2]), (size,), np.int8)
        scale = carray(_pointer(table[k, 3]), (size,), np.uint16)
        first, block, apart = table[k, 6], table[k, 7], table[k, 8]
        a, keep, unit = floats[k]
        while low < high:
            number = low // block
            stop = min(high, (number + 1) * block)
            shift = first + number * (apart - block)
            _stretch(
                p[low:stop], g[low:stop], ratio[low:stop], scale[low:stop], shift + low, a, keep, unit,
                phases[k, 0], phases[k, 1], lr, shrink, eps, stochastic, coupled, maximize,
            )  # fmt: skip
            low = stop


@_compiled
def _stretch(
    p: Any, g: Any, ratio: Any, scale: Any, first: int, a: Any, keep: Any, unit: Any,
    phase: Any, p_phase: Any, lr: Any, shrink: Any, eps: Any, stochastic: bool, coupled: Any, maximize: Any,
) -> None:  # fmt: skip
    dither = np.uint32(np.uint32(np.uint32(first) * _ELEMENT) + phase)
    p_dither = np.uint32(np.uint32(np.uint32(first) * _P_ELEMENT) + p_phase)
    for i in range(len(p)):
        x, d, s = _wide(p[i]), _wide(g[i]), _wide(scale[i])
        if maximize is not None:
            d = -d
        if coupled is not None:
            d = d + x * coupled
        d = _within(d, _LARGEST) + (d - d)
        m = np.float32(ratio[i]) * unit * (s + eps) + d * a
        s = np.sqrt((s * s) * keep + (d * d) * a)
        r = _within(m / (s + eps), _ONE)
        x = x * shrink - r * lr
        known = r if r == r else _ZERO
        level = known * _LEVELS + np.uint32(_SHIFT | np.uint32(dither >> _HALF)).view(np.float32)
        ratio[i] = np.int8(np.int32(level) - np.int32(LEVELS + 1))
        bits = np.uint32(np.float32(s).view(np.uint32) + np.uint32(dither & _LOW))
        scale[i] = np.uint16(np.uint32(bits >> _HALF))
        p[i] = _narrow(p[i], x, np.uint32(p_dither >> _HALF), stochastic)
        dither, p_dither = np.uint32(dither + _ELEMENT), np.uint32(p_dither + _P_ELEMENT)


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), cast


@njit(inline="always")
def _within(x: Any, bound: Any) -> Any:
    """`x` cut to [-bound, bound], by two instructions; NaN stays NaN where it comes first."""
    return min(max(x, -bound), bound)


def _wide(value: Any) -> Any:
    """A stored number as float32; a bfloat16 comes as its 16 bits."""


@overload(_wide, inline="always", strict=False)
def _wide_of(value: Any) -> Any:
    if value == types.uint16:
        return lambda value: np.uint32(np.uint32(value) << _HALF).view(np.float32)
    return lambda value: value


def _narrow(old: Any, x: Any, dither: Any, stochastic: Any) -> Any:
    """float32 `x` as `old` is stored: for a bfloat16 its 16 bits, to the nearest or by the dither."""


@overload(_narrow, inline="always", strict=False)
def _narrow_of(old: Any, x: Any, dither: Any, stochastic: Any) -> Any:
    if old != types.uint16:
        return lambda old, x, dither, stochastic: x

    def bits_of(old: Any, x: Any, dither: Any, stochastic: Any) -> Any:
        bits = np.float32(x).view(np.uint32)
        even = np.uint32(_SIGN + np.uint32(np.uint32(bits >> _HALF) & np.uint32(1)))
        added = np.uint32(np.uint32(bits + (dither if stochastic else even)) >> _HALF)
        return np.uint16(added if x == x else _QUIET)

    return bits_of
