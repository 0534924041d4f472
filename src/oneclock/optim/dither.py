"""The dither that rounds compact state: one pseudo-random 32-bit number per element and step, without a generator.

The number is a hash of the element's position in the whole parameter and of a key. The key is a hash of the step:

    x = position * ELEMENT + key(step),    dither = (x xor x >> 16) * MIX        (all modulo 2^32)

For a fixed position, `x -> dither` is one to one and the keys of different steps are unrelated. So an element sees
uniform, independent numbers over time, at any beta. Neighbours are nearly uncorrelated (below 0.01, as tested).
Nothing has to be saved in a checkpoint, and a shard uses the same numbers as the whole parameter.

The constants are below 2^31, so the products with a 32-bit number fit in int64. `position` counts modulo 2^32.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

MASK = 0xFFFFFFFF
ELEMENT = 0x61C96A0B
"""Step between neighbours: (3 - sqrt 5) / 2 of 2^32, rounded to an odd number."""
MIX = 0x045D9F3B
"""Odd multiplier of a well-known 32-bit integer hash; it spreads every input bit upwards."""


def step_keys(step: Any) -> tuple[Any, Any]:
    """The keys of one step: the first for the state, the second for bfloat16 parameters.

    Works on an int and on an int64 tensor. Keys repeat after 2^31 steps.

    >>> step_keys(1) == step_keys(2), step_keys(1) == step_keys(1 + 2**31)
    (False, True)
    """
    return _hash(2 * step), _hash(2 * step + 1)


def dither(position: Tensor, key: Any) -> Tensor:
    """The 32-bit numbers of the elements at `position` (int64), as int64."""
    x = ((position & MASK) * ELEMENT + key) & MASK
    return ((x ^ (x >> 16)) * MIX) & MASK


def _hash(x: Any) -> Any:
    x = x & MASK
    for _ in range(2):
        x = ((x ^ (x >> 16)) * MIX) & MASK
    return x ^ (x >> 16)
