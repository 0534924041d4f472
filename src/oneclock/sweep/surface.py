"""Two axes at once: climb over beta and learning rate to the best pair, then spend seeds where it matters.

The first seed climbs. Around the best cell so far its four neighbours run; the climb moves to a better one and goes
on; once none is better the four diagonal ones run too, because the best beta moves with the rate and a valley may lie
across both axes. The best pair is bracketed when all eight around it are worse, or the grid ends there. Then the best
few cells get the other seeds, until one more would not change the choice; with them the best cell of the beta that is
recommended, for what that costs is asked in the end, and whatever has a first seed below the best mean, for a first
seed that was lucky rises. If the choice moves to a cell that does not have all of its eight, what is missing runs too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

Pair = tuple[float, float]
"""(beta, rate)."""

FEW = 4
"""Cells that get more seeds: the best ones of the first."""


class Climb(NamedTuple):
    """The pairs to run next with the first seed, none once the best is bracketed; the path so far; all it asked for."""

    wanted: list[Pair]
    path: list[Pair]
    seen: set[Pair]


def climb(betas: Sequence[float], rates: Sequence[float], start: Pair, found: Mapping[Pair, float]) -> Climb:
    """How far the climb has come, by the losses of the first seed.

    The path moves only when all that it asked for has run, so that it is the same in whatever order runs end.

    >>> bowl = lambda pair: (pair[0] - 0.9) ** 2 + (pair[1] - 2) ** 2
    >>> found, wanted = {}, [(0.5, 1)]
    >>> while wanted:
    ...     wanted, path, _ = climb([0.5, 0.9, 0.99], [1, 2, 4], (0.5, 1), found)
    ...     found |= {pair: bowl(pair) for pair in wanted}
    >>> path
    [(0.5, 1), (0.5, 2), (0.9, 2)]
    """
    path, seen = [start], {start}
    while True:
        for around in (_cross, block):
            seen |= {*around(betas, rates, path[-1])}
            missing = sorted((pair for pair in seen if pair not in found), key=lambda pair: (pair != start, pair))
            if missing:
                return Climb(missing, path, seen)
            best = min(seen, key=lambda pair: (_rank(found[pair]), pair))
            if _rank(found[best]) < _rank(found[path[-1]]):
                path.append(best)
                break
        else:
            return Climb([], path, seen)


def bracketing(rates: Sequence[float], start: float, found: Mapping[float, float]) -> tuple[list[float], float]:
    """(the rates to run next, the best so far) for a pair of betas that is not swept: the same climb over one axis.

    >>> bracketing([0.25, 0.5, 1, 2, 4], 1, {0.5: 3.0, 1: 2.0, 2: 1.0})
    ([4], 2)
    """
    wanted, path, _ = climb((0.0,), rates, (0.0, start), {(0.0, rate): loss for rate, loss in found.items()})
    return [rate for _, rate in wanted], path[-1][1]


def own_rate(rates: Sequence[float]) -> float:
    """The rate a user has: a factor of 1 where it is among them, else the middle one.

    >>> own_rate([0.25, 0.5, 1.0, 2.0]), own_rate([1e-4, 3e-4, 1e-3])
    (1.0, 0.0003)
    """
    return 1.0 if 1.0 in rates else sorted(rates)[len(rates) // 2]


def _cross(betas: Sequence[float], rates: Sequence[float], pair: Pair) -> list[Pair]:
    beta, rate = pair
    return [(one, rate) for one in _near(betas, beta)] + [(beta, one) for one in _near(rates, rate) if one != rate]


def block(betas: Sequence[float], rates: Sequence[float], pair: Pair) -> list[Pair]:
    """The pair and all that are next to it, across both axes too.

    >>> block([0.5, 0.9, 0.99], [1, 2, 4], (0.5, 1))
    [(0.5, 1), (0.5, 2), (0.9, 1), (0.9, 2)]
    """
    return list(product(_near(betas, pair[0]), _near(rates, pair[1])))


def _near(values: Sequence[float], value: float) -> Sequence[float]:
    """The value and the next one on either side, where there is one."""
    ordered = sorted(values)
    place = ordered.index(value)
    return ordered[max(place - 1, 0) : place + 2]


def _rank(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf
