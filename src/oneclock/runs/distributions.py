"""The F distribution in plain Python: tests and intervals of sweeps need it, and SciPy is a large thing to install.

The t distribution follows from it: |t| with `freedom` degrees of freedom is the root of F with 1 and `freedom`.
"""

from __future__ import annotations

import math
from functools import lru_cache


def f_above(ratio: float, upper: float, lower: float) -> float:
    """The probability that F with these degrees of freedom lies above `ratio`.

    >>> round(f_above(4.9646, 1, 10), 4)
    0.05
    """
    if ratio <= 0:
        return 1.0
    return _incomplete_beta(lower / 2, upper / 2, lower / (lower + upper * ratio))


@lru_cache(maxsize=1024)
def f_quantile(share: float, upper: float, lower: float) -> float:
    """The value that F with these degrees of freedom stays below with probability `share`.

    >>> round(f_quantile(0.95, 2, 10), 3)
    4.103
    """
    low, high = 0.0, 1.0
    while f_above(high, upper, lower) > 1 - share and high < 1e12:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if f_above(middle, upper, lower) > 1 - share else (low, middle)
    return high


def t_reach(level: float, freedom: float) -> float:
    """How many standard errors a two-sided interval at `level` reaches to either side.

    >>> round(t_reach(0.95, 10), 3)
    2.228
    """
    return math.sqrt(f_quantile(level, 1, freedom))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x) - math.log(a)
    )
    return front / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1 / (1 + d2 / (1 + ..)), evaluated by Lentz's method."""
    tiny = 1e-300
    value, upper, lower = 1.0, 1.0, 0.0
    for step in range(1, 2000):
        half, odd = divmod(step, 2)
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        lower = 1 / ((1 + term * lower) or tiny)
        upper = (1 + term / upper) or tiny
        value *= upper * lower
        if abs(upper * lower - 1) < 1e-14:
            break
    return value
