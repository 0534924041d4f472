"""Rules that turn a training length T, in optimizer steps, into a beta. Pure Python, no torch.

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
from numbers import Real
from typing import Any, ClassVar

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


def checked_beta(beta: float) -> float:
    """`beta` as a float if it lies in [0, 1), else a ValueError."""
    if not _is_number(beta) or not 0 <= beta < 1:
        raise ValueError(f"beta must be a number in [0, 1), got {beta!r}; usual values are 0.9 to 0.999")
    return as_float(beta)


def as_float(value: Any) -> float:
    """A number as a float. NumPy's 0.9 of 32 bits becomes 0.9, not 0.8999999761581421."""
    return float(str(value) if isinstance(value, Real) and hasattr(value, "dtype") else value)


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

    label: ClassVar[str] = ""
    """The name with the numbers of the rule, as a format string; by default the name of the class."""

    @property
    def name(self) -> str:
        """What tables, legends and JSON call it."""
        return next((name for name, rule in NAMED.items() if rule == self), self.numbered_name)

    @property
    def numbered_name(self) -> str:
        """The name by class and numbers, also of the rules that have a short name."""
        return self.label.format(**vars(self)) or type(self).__name__

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
    """A memory of 1 + sqrt(T) / divisor steps: a beta for every length, smooth and increasing.

    >>> [round(SquareRoot()(steps), 3) for steps in (100, 1_000, 4_000, 20_000, 300_000)]
    [0.588, 0.819, 0.9, 0.953, 0.987]
    """

    divisor: float = DIVISOR
    label = "Square root, divisor {divisor:g}"

    def __post_init__(self) -> None:
        positive(self.divisor, "divisor")

    def one_minus_beta(self, horizon: Any) -> Any:
        return self.divisor / (horizon**0.5 + self.divisor)


@dataclass(frozen=True)
class Refresh(Rule):
    """The paper's rule, 1 - beta = refreshes / T: the memory is renewed `refreshes` times in T steps.

    >>> Refresh()(20_000)
    0.95
    """

    refreshes: float = REFRESHES
    label = "Refresh R0={refreshes:g}"

    def __post_init__(self) -> None:
        positive(self.refreshes, "refreshes")

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
    label = "Fixed beta={beta:g}"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", checked_beta(self.beta))

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
    label = "Power alpha={alpha:g} c={c:g}"

    def __post_init__(self) -> None:
        positive(self.c, "c")
        positive(self.t0, "t0")
        if not (_is_number(self.alpha) and math.isfinite(self.alpha)):
            raise ValueError(f"alpha must be a finite number, got {self.alpha!r}")

    def one_minus_beta(self, horizon: Any) -> Any:
        return self.c * (horizon / self.t0) ** -self.alpha


@dataclass(frozen=True)
class PiecewisePower(Rule):
    """The paper's rule from `knee` steps on; below, 1 - beta = (R0 / knee) * (knee / T) ** alpha, at most 1.

    Recommended before the square root. Older adaptive sweeps started at it.

    >>> PiecewisePower(6_000, 0.0)(12_000) == Refresh()(12_000), round(PiecewisePower(6_000, 0.0)(100), 4)
    (True, 0.8333)
    """

    knee: float
    alpha: float
    label = "Piecewise knee={knee:g} alpha={alpha:g}"

    def __post_init__(self) -> None:
        if not (positive(self.knee, "knee") > REFRESHES and _is_number(self.alpha) and 0 <= self.alpha <= 1):
            raise ValueError(f"the knee must exceed {REFRESHES} and alpha lie in [0, 1], got {self.knee}, {self.alpha}")

    def one_minus_beta(self, horizon: Any) -> Any:
        above = REFRESHES / horizon
        below = REFRESHES / self.knee * (self.knee / horizon) ** self.alpha
        if _is_number(horizon):
            return above if horizon >= self.knee else min(below, 1.0)
        return above * (horizon >= self.knee) + below.clip(max=1.0) * (horizon < self.knee)


RECOMMENDED: Rule = SquareRoot()
"""The rule that every part of oneclock uses by default."""

NAMED: dict[str, Rule] = {"recommended": RECOMMENDED, "paper": Refresh()}
"""The rules that have a name of their own, the same in Python, on the command line, in tables and in JSON."""

RULE_FORMS = "recommended, paper, sqrt:DIVISOR, refresh:R0, fixed:BETA, power:C,ALPHA[,T0] or piecewise:KNEE,ALPHA"

_KINDS: Any = {"sqrt": SquareRoot, "refresh": Refresh, "fixed": Fixed, "power": Power, "piecewise": PiecewisePower}


def resolve_rule(rule: Rule | str | None = None) -> Rule:
    """The rule that a keyword or an option means, as a value or in a text form; by default the recommended one.

    >>> resolve_rule("power:0.05,0.6"), resolve_rule("paper"), resolve_rule("sqrt:7") == resolve_rule()
    (Power(c=0.05, alpha=0.6, t0=10000), Refresh(refreshes=1000), True)
    """
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str | None):
        raise ValueError(f"a rule is {RULE_FORMS}, or a value such as oneclock.Fixed(0.95), got {rule!r}")
    if rule is None or rule in NAMED:
        return NAMED[rule or "recommended"]
    kind, _, rest = rule.partition(":")
    try:
        make, numbers = _KINDS[kind], [int_if_whole(float(part)) for part in rest.split(",")]
        signature(make).bind(*numbers)
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"a rule is {RULE_FORMS}, got {rule!r}") from None
    return make(*numbers)


def beta_for(horizon: float, rule: Rule | str | None = None) -> float:
    """The beta for a training of `horizon` steps: what optimizers and integrations call.

    `oneclock.recommend` gives the same beta with its evidence.

    >>> round(beta_for(20_000), 4), round(beta_for(1_200), 4), beta_for(2_000, rule="paper")
    (0.9528, 0.8319, 0.5)
    """
    return resolve_rule(rule)(horizon)


def resolve_beta(beta: float | None = None, horizon: float | None = None, rule: Rule | str | None = None) -> float:
    """The beta that an optimizer's keywords mean: `beta` itself, or `beta_for(horizon, rule)`."""
    if (beta is None) == (horizon is None):
        raise ValueError("give exactly one of beta= and horizon= (the useful training time in steps)")
    if horizon is not None:
        return beta_for(horizon, rule)
    if rule is not None:
        raise ValueError("rule= turns a horizon into a beta: give it with horizon=, not with beta=")
    return checked_beta(beta)  # type: ignore[arg-type]  # exactly one of the two is given
