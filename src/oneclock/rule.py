"""Rules that turn a training length into a beta, as values. Pure Python, no torch.

Notation, used throughout the package (T is the training length in optimizer steps):

    H(beta)    = 1 / (1 - beta)                memory horizon, in steps
    R(beta, T) = (1 - beta) * T                refresh count over T steps
    beta(T)    = sqrt(T) / (sqrt(T) + 7)       the recommended rule: a memory of 1 + sqrt(T) / 7 steps
    beta(T)    = 1 - R0 / T                    the paper's rule, R0 = 1000
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import pairwise
from numbers import Real
from typing import Any

REFRESHES = 1000
"""R0, the paper's refresh count."""

DIVISOR = 7
"""The one constant of the recommended rule: its memory is 1 + sqrt(T) / 7 steps."""

CALIBRATED = (6_000, 40_000)
"""The horizons, in steps, that the paper's evidence for R0 = 1000 covers."""

GRID: tuple[float, ...] = tuple(round(1 - 10 ** (-k / 4), 5) for k in range(13))
"""The paper's 13 betas, four per decade of 1 - beta. Five decimals: three would make experiment 8 a tie."""


def memory_horizon(beta: float) -> float:
    """H = 1 / (1 - beta), the number of recent steps that dominate Adam's averages.

    >>> round(memory_horizon(0.95), 6)
    20.0
    """
    return 1 / (1 - checked_beta(beta))


def refresh_count(beta: float, horizon: float) -> float:
    """R = (1 - beta) * horizon, how often the memory is renewed in `horizon` optimizer steps.

    >>> round(refresh_count(0.95, horizon=20_000), 6)
    1000.0
    """
    return (1 - checked_beta(beta)) * positive(horizon, "horizon")


def nearest_beta(beta: float, grid: Sequence[float] = GRID) -> float:
    """The grid value nearest to `beta` in plain distance; a tie goes to the smaller. By default the paper's grid.

    >>> nearest_beta(0.95)
    0.94377
    """
    return min(grid, key=lambda value: (abs(value - checked_beta(beta)), value))


def stability_interval(beta: float, refreshes: float = REFRESHES, grid: Sequence[float] = GRID) -> tuple[float, float]:
    """The horizons (lower, upper), in steps, for which the paper's rule projects to the grid value `beta`.

    Each bound is the T whose rule value lies midway to the neighbour. The ends of the grid are open: 0 and inf.

    >>> tuple(round(bound) for bound in stability_interval(0.94377))
    (12802, 22766)
    """
    values = sorted(grid)
    if beta not in values:
        raise ValueError(f"beta {beta!r} is not on the grid; project it first with nearest_beta")
    between = [positive(refreshes, "refreshes") / (1 - (low + high) / 2) for low, high in pairwise(values)]
    index = values.index(beta)
    return (0.0, *between, math.inf)[index], (0.0, *between, math.inf)[index + 1]


def checked_beta(beta: float) -> float:
    """`beta` itself if it lies in [0, 1), else a ValueError that says so."""
    if not _is_number(beta) or not 0 <= beta < 1:
        raise ValueError(f"beta must be a number in [0, 1), got {beta!r}; usual values are 0.9 to 0.999")
    return float(beta)


def int_if_whole(value: float) -> float:
    """20000.0 as 20000; other numbers unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def positive(value: float, name: str) -> float:
    """`value` itself if it is a finite number above 0, else a ValueError that names it."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    if value > 1e300:
        raise ValueError(f"{name} is too large to compute with; give it in steps, below 1e300")
    return value if isinstance(value, int) else float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class Rule(ABC):
    """A way to choose beta: training length in, beta out. Subclass it for a rule of your own."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables and legends call it."""

    @abstractmethod
    def one_minus_beta(self, horizon: Any) -> Any:
        """1 - beta without checks; takes numpy arrays as well as numbers."""

    def __call__(self, horizon: float) -> float:
        """Beta in [0, 1) for a length in steps; ValueError if the rule has none."""
        value = self.one_minus_beta(positive(horizon, "horizon"))
        if not value <= 1:
            raise ValueError(f"{self.name} has no beta for {horizon:g} steps: 1 - beta would be {value:g}, above 1")
        if 1 - value >= 1:
            raise ValueError(f"at {horizon:g} steps beta rounds to 1 in floating point; give a shorter horizon")
        return 1 - value


@dataclass(frozen=True)
class SquareRoot(Rule):
    """A memory of 1 + sqrt(T) / divisor steps: beta = sqrt(T) / (sqrt(T) + divisor).

    It has a beta for every length above 0, and it is smooth and increasing.

    >>> [round(SquareRoot()(steps), 3) for steps in (100, 1_000, 4_000, 20_000, 300_000)]
    [0.588, 0.819, 0.9, 0.953, 0.987]
    """

    divisor: float = DIVISOR

    def __post_init__(self) -> None:
        positive(self.divisor, "divisor")

    @property
    def name(self) -> str:
        return f"Square root, divisor {self.divisor:g}"

    def one_minus_beta(self, horizon: Any) -> Any:
        return self.divisor / (horizon**0.5 + self.divisor)


@dataclass(frozen=True)
class Refresh(Rule):
    """The paper's rule, 1 - beta = refreshes / T: the memory is renewed `refreshes` times in T steps.

    >>> Refresh()(20_000)
    0.95
    """

    refreshes: float = REFRESHES

    def __post_init__(self) -> None:
        positive(self.refreshes, "refreshes")

    @property
    def name(self) -> str:
        return f"Refresh R0={self.refreshes:g}"

    def one_minus_beta(self, horizon: Any) -> Any:
        return self.refreshes / horizon

    def __call__(self, horizon: float) -> float:
        if positive(horizon, "horizon") <= self.refreshes:
            raise ValueError(
                f"no beta refreshes {self.refreshes:g} times in {horizon:g} steps: the horizon must exceed "
                f"{self.refreshes:g}; give a longer horizon or fewer refreshes, or leave the rule out"
            )
        return super().__call__(horizon)


@dataclass(frozen=True)
class Fixed(Rule):
    """One beta for every length.

    >>> Fixed(0.94377)(20_000)
    0.94377
    """

    beta: float

    def __post_init__(self) -> None:
        checked_beta(self.beta)

    @property
    def name(self) -> str:
        return f"Fixed beta={self.beta:g}"

    def one_minus_beta(self, horizon: Any) -> Any:
        return 1 - self.beta + 0 * horizon

    def __call__(self, horizon: float) -> float:
        positive(horizon, "horizon")
        return self.beta


@dataclass(frozen=True)
class Power(Rule):
    """1 - beta = c * (T / t0) ** -alpha: alpha = 1 is the paper's rule with R0 = c * t0, alpha = 0 a fixed beta.

    >>> round(Power(c=0.1, alpha=1.0)(20_000), 6)
    0.95
    """

    c: float
    alpha: float
    t0: float = 10_000

    def __post_init__(self) -> None:
        positive(self.c, "c")
        positive(self.t0, "t0")
        if not (_is_number(self.alpha) and math.isfinite(self.alpha)):
            raise ValueError(f"alpha must be a finite number, got {self.alpha!r}")

    @property
    def name(self) -> str:
        return f"Power alpha={self.alpha:g} c={self.c:g}"

    def one_minus_beta(self, horizon: Any) -> Any:
        return self.c * (horizon / self.t0) ** -self.alpha


@dataclass(frozen=True)
class PiecewisePower(Rule):
    """The paper's rule from `knee` steps on; below, 1 - beta = (R0 / knee) * (knee / T) ** alpha, at most 1.

    Recommended before the square root. It stays for comparison, and for adaptive sweeps that started at it.

    >>> PiecewisePower(6_000, 0.0)(12_000) == Refresh()(12_000), round(PiecewisePower(6_000, 0.0)(100), 4)
    (True, 0.8333)
    """

    knee: float
    alpha: float

    def __post_init__(self) -> None:
        if not (positive(self.knee, "knee") > REFRESHES and _is_number(self.alpha) and 0 <= self.alpha <= 1):
            raise ValueError(f"the knee must exceed {REFRESHES} and alpha lie in [0, 1], got {self.knee}, {self.alpha}")

    @property
    def name(self) -> str:
        return f"Piecewise knee={self.knee:g} alpha={self.alpha:g}"

    def one_minus_beta(self, horizon: Any) -> Any:
        above = REFRESHES / horizon
        below = REFRESHES / self.knee * (self.knee / horizon) ** self.alpha
        if _is_number(horizon):
            return above if horizon >= self.knee else min(below, 1.0)
        return above * (horizon >= self.knee) + below.clip(max=1.0) * (horizon < self.knee)


RECOMMENDED: Rule = SquareRoot()
"""The rule that every part of oneclock uses by default."""

RULE_FORMS = "recommended, paper, sqrt:DIVISOR, refresh:R0, fixed:BETA, power:C,ALPHA[,T0] or piecewise:KNEE,ALPHA"
"""The text forms of a rule."""

_KINDS: dict[str, Any] = {
    "sqrt": SquareRoot,
    "refresh": Refresh,
    "fixed": Fixed,
    "power": Power,
    "piecewise": PiecewisePower,
}


def rule_from(text: str) -> Rule:
    """A rule from its text form, one of `RULE_FORMS`.

    >>> rule_from("power:0.05,0.6"), rule_from("paper"), rule_from("sqrt:7") == rule_from("recommended")
    (Power(c=0.05, alpha=0.6, t0=10000), Refresh(refreshes=1000), True)
    """
    if text in ("recommended", "paper"):
        return RECOMMENDED if text == "recommended" else Refresh()
    kind, _, rest = text.partition(":")
    try:
        make, numbers = _KINDS[kind], [int_if_whole(float(part)) for part in rest.split(",")]
        signature(make).bind(*numbers)
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"a rule is {RULE_FORMS}, got {text!r}") from None
    return make(*numbers)


def resolve_rule(rule: Rule | str | None = None) -> Rule:
    """The rule that a keyword means: the recommended one by default.

    >>> resolve_rule("refresh:300"), resolve_rule("paper")
    (Refresh(refreshes=300), Refresh(refreshes=1000))
    """
    if rule is None:
        return RECOMMENDED
    if isinstance(rule, str):
        return rule_from(rule)
    if not isinstance(rule, Rule):
        raise ValueError(f"a rule is {RULE_FORMS}, or a value such as oneclock.Fixed(0.95), got {rule!r}")
    return rule


def beta_for(horizon: float, rule: Rule | str | None = None) -> float:
    """The beta for a training of `horizon` steps: what optimizers and integrations call.

    `oneclock.recommend` gives the same beta with its evidence.

    >>> round(beta_for(20_000), 4), round(beta_for(1_200), 4), beta_for(2_000, rule="paper")
    (0.9528, 0.8319, 0.5)
    """
    return resolve_rule(rule)(horizon)


def resolve_beta(beta: float | None = None, horizon: float | None = None, rule: Rule | str | None = None) -> float:
    """The beta that an optimizer's keywords mean: `beta` itself, or `beta_for(horizon, rule)`.

    >>> resolve_beta(beta=0.9), resolve_beta(horizon=20_000, rule="paper")
    (0.9, 0.95)
    """
    if (beta is None) == (horizon is None):
        raise ValueError("give exactly one of beta= and horizon= (the useful training time in steps)")
    if horizon is not None:
        return beta_for(horizon, rule)
    if rule is not None:
        raise ValueError("rule= turns a horizon into a beta: give it with horizon=, not with beta=")
    return checked_beta(beta)  # type: ignore[arg-type]  # exactly one of the two is given
