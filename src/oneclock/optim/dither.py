"""The dither that rounds compact state: one pseudo-random 32-bit number per element and step, without a generator.

The number is a hash of the element's position in the whole parameter and of a key. The key is a hash of the step:

    x = position * ELEMENT + key(step),    dither = (x xor x >> 16) * MIX        (all modulo 2^32)

For a fixed position, `x -> dither` is one to one and the keys of different steps are unrelated. So an element sees
uniform, independent numbers over time, at any beta. Neighbours are nearly uncorrelated (below 0.01, as tested).
Nothing has to be saved in a checkpoint, and sharded training rounds as unsharded training does.

The constants are below 2^31, so the products with a 32-bit number fit in int64. `position` counts modulo 2^32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from oneclock.optim.fused_lists import local_tensor

MASK = 0xFFFFFFFF
ELEMENT = 0x61C96A0B
"""Step between neighbours: (3 - sqrt 5) / 2 of 2^32, rounded to an odd number."""
MIX = 0x045D9F3B
"""Odd multiplier of a well-known 32-bit integer hash; it spreads every input bit upwards."""

Block = tuple[slice, ...]


def step_keys(step: Any) -> tuple[Any, Any]:
    """The keys of one step, an int or an int64 tensor: for the state, and for bfloat16 parameters.

    They repeat after 2^31 steps.
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


class ShardOffsets(NamedTuple):
    """Positions of the local elements of a parameter, in the whole parameter.

    The local elements form runs of `run` consecutive positions: the first from `first` on, the next ones `stride`
    further each. If several axes are sharded, `run` is None, and only `axis_offsets`, the local start along each axis,
    says where the elements are.
    """

    size: int
    first: int
    run: int | None
    stride: int
    axis_offsets: tuple[int, ...]


_CACHE: dict[Any, ShardOffsets] = {}


def shard_offsets(p: Any) -> ShardOffsets:
    """The positions of the local part of `p`. A plain tensor is the whole parameter."""
    size = local_tensor(p).numel()
    offsets = ShardOffsets(size, 0, size, size, (0,) * p.ndim)
    coordinate = p.device_mesh.get_coordinate() if hasattr(p, "placements") else None
    if coordinate is None:  # a plain tensor, or a process outside the mesh, which holds nothing
        return offsets
    key = tuple(p.shape), p.device_mesh, tuple(coordinate), tuple(p.placements)
    if key not in _CACHE:
        _CACHE[key] = _of_shard(p)
    return _CACHE[key] if _CACHE[key].size == size else offsets


def _of_shard(p: Any) -> ShardOffsets:
    chunks = p.__create_chunk_list__()  # what distributed checkpoints use to place a shard
    if len(chunks) != 1:
        return ShardOffsets(-1, 0, None, 0, ())
    part, offsets = tuple(chunks[0].sizes), tuple(chunks[0].offsets)
    cut = [axis for axis, (whole, local) in enumerate(zip(p.shape, part, strict=True)) if whole != local]
    if len(cut) > 1:
        return ShardOffsets(math.prod(part), 0, None, 0, offsets)
    axis = cut[0] if cut else 0
    below = math.prod(p.shape[axis + 1 :])
    first, run, stride = (count * below for count in (offsets[axis], part[axis], p.shape[axis]))
    return ShardOffsets(math.prod(part), first, run, stride, offsets)


def blocks(shape: tuple[int, ...], most: int) -> Iterator[Block]:
    """Cut a tensor of this shape into blocks of at most `most` elements, whatever its memory layout.

    >>> [tuple((s.start, s.stop) for s in block) for block in blocks((2, 3), most=2)]
    [((0, 1), (0, 2)), ((0, 1), (2, 3)), ((1, 2), (0, 2)), ((1, 2), (2, 3))]
    """
    if not shape:
        yield ()
        return
    row = math.prod(shape[1:])
    rows = max(most // max(row, 1), 1)
    for start in range(0, shape[0] if row else 0, rows):
        head = slice(start, min(start + rows, shape[0]))
        rests = [tuple(slice(0, size) for size in shape[1:])] if row <= most else blocks(shape[1:], most)
        yield from ((head, *rest) for rest in rests)


def positions(shape: tuple[int, ...], offsets: tuple[int, ...], block: Block, device: torch.device) -> Tensor:
    """The positions in a parameter of this (whole) shape of the elements of a local block, as int64."""
    position = torch.zeros((), dtype=torch.int64, device=device)
    stride = 1
    for size, offset, part in zip(reversed(shape), reversed(offsets), reversed(block), strict=True):
        along = (torch.arange(part.start, part.stop, device=device) + offset) * stride
        position = position + along.reshape(-1, *[1] * position.ndim)
        stride *= size
    return position
