"""How well a curve fits "down to a turn, then up", for every place of the turn. Pure Python.

The fit assumes no formula: before the turn it is the best decreasing sequence, after it the best increasing one
(isotonic regression, by pooling neighbours). Where the misfit is much larger than the noise, the turn is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from statistics import fmean, median

_CHI2_MEDIAN = 0.455  # median of a squared standard normal value
_ENOUGH = 10  # losses or means: their noise can be told from so many
_OUTLIER = 4.0  # in noise standard deviations


def misfits(losses: Sequence[float]) -> list[float]:
    """For a turn before, between and after the losses: the squared misfit of the best fit with its turn there.

    >>> misfits([3.0, 1.0, 2.0, 4.0])
    [2.0, 0.0, 0.0, 0.5, 4.666666666666667]
    """
    return list(map(add, [0.0, *_falling(losses)], [*_falling(losses[::-1])[::-1], 0.0]))


def noise_variance(losses: Sequence[float]) -> float:
    """The variance of one loss around the trend, from how far each loss lies off the middle of its two neighbours."""
    threes = zip(losses, losses[1:], losses[2:], strict=False)
    return _variance(losses, [(here - (left + right) / 2) ** 2 * 2 / 3 for left, here, right in threes])


def lasting_variance(losses: Sequence[float]) -> float:
    """The variance of a loss that counts in a mean: larger where neighbours share their error or the noise grows.

    The largest of the noise of all losses, of their later half, and of means over two and over four neighbours, which
    a bend of the trend does not enter.
    """
    variances = [noise_variance(losses)]
    if len(losses) >= 2 * _ENOUGH:
        variances.append(noise_variance(losses[len(losses) // 2 :]))
    for size in (2, 4):
        means = [fmean(losses[at : at + size]) for at in range(len(losses) % size, len(losses), size)]
        if len(means) >= _ENOUGH:
            fours = zip(means, means[1:], means[2:], means[3:], strict=False)
            squares = [(first - 3 * second + 3 * third - last) ** 2 / 20 for first, second, third, last in fours]
            variances.append(_variance(means, squares) * size)
    return max(variances)


def _variance(losses: Sequence[float], squares: Sequence[float]) -> float:
    """The median keeps spikes and the steep start out; a twentieth of the spread stands for one more distance."""
    if not squares:
        return 0.0
    spread = 0.05 * (median(losses) - min(losses))
    return (len(squares) * median(squares) / _CHI2_MEDIAN + spread**2) / (len(squares) + 1)


def without_spikes(losses: Sequence[float], variance: float) -> list[float]:
    """The losses, with each single outlier moved to the nearer one of its two neighbours."""
    reach, kept = _OUTLIER * variance**0.5, list(losses)
    for at in range(1, len(losses) - 1):
        low, high = sorted((losses[at - 1], losses[at + 1]))
        if not low - reach <= losses[at] <= high + reach:
            kept[at] = min(max(losses[at], low), high)
    return kept


def _falling(losses: Sequence[float]) -> list[float]:
    """For every beginning of the sequence: the squared misfit of its best non-increasing fit."""
    blocks: list[tuple[float, int]] = []  # mean and size
    total, totals = 0.0, []
    for loss in losses:
        mean, size = loss, 1
        while blocks and blocks[-1][0] < mean:
            other, count = blocks.pop()
            total += (mean - other) ** 2 * size * count / (size + count)
            mean, size = (mean * size + other * count) / (size + count), size + count
        blocks.append((mean, size))
        totals.append(total)
    return totals
