"""The rule of balanced Adam: how long its one memory should be. Pure Python, no torch.

Notation of the paper, used throughout the package:

    H(beta)    = 1 / (1 - beta)      memory horizon, in steps
    R(beta, T) = (1 - beta) * T      refresh count over a horizon of T steps
    beta(T)    = 1 - R0 / T          the refresh rule, R0 = 1000
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, Protocol, runtime_checkable

REFRESHES = 1000
"""R0, the paper's refresh count."""

CALIBRATED = (6_000, 40_000)
"""The horizons, in steps, that the evidence behind R0 = 1000 covers."""

SHORT_REFRESHES = 300
"""What did best in the laptop study: eleven small models, all but one of them useful for 700 to 6,000 steps."""

GRID: tuple[float, ...] = tuple(round(1 - 10 ** (-k / 4), 5) for k in range(13))
"""The paper's 13 betas, four per decade of 1 - beta. Five decimals: three would make experiment 8 a tie."""


def memory_horizon(beta: float) -> float:
    """H = 1 / (1 - beta), the number of recent steps that dominate Adam's averages.

    Args:
        beta: The tied beta, in [0, 1).

    Returns:
        Steps.

    Raises:
        ValueError: Where beta is not in [0, 1).

    >>> round(memory_horizon(0.95), 6)
    20.0
    """
    return 1 / (1 - checked_beta(beta))


def refresh_count(beta: float, horizon: float) -> float:
    """R = (1 - beta) * horizon, how often the memory is renewed in `horizon` steps.

    Args:
        beta: The tied beta, in [0, 1).
        horizon: The useful training time in optimizer steps.

    Returns:
        How many memories fit into the horizon.

    Raises:
        ValueError: Where beta is not in [0, 1) or the horizon not a finite number above 0.

    >>> round(refresh_count(0.95, horizon=20_000), 6)
    1000.0
    """
    return (1 - checked_beta(beta)) * positive(horizon, "horizon")


def refresh_beta(horizon: float, refreshes: float = REFRESHES) -> float:
    """beta = 1 - refreshes / horizon, the paper's rule, for a useful training time of `horizon` steps.

    Args:
        horizon: The useful training time in optimizer steps.
        refreshes: How often the memory is to be renewed in it.

    Returns:
        The beta, in [0, 1).

    Raises:
        ValueError: Where the horizon does not exceed the refreshes: no beta is short enough.

    >>> refresh_beta(20_000)
    0.95
    """
    horizon, refreshes = positive(horizon, "horizon"), positive(refreshes, "refreshes")
    if horizon <= refreshes:
        raise ValueError(
            f"no beta refreshes {refreshes:g} times in {horizon:g} steps: "
            f"the horizon must exceed {refreshes:g}; give a longer horizon or fewer refreshes"
            + (f" ({SHORT_REFRESHES} did best in small models)" if refreshes == REFRESHES else "")
        )
    return _below_one(1 - refreshes / horizon, horizon)


def nearest_beta(beta: float, grid: Sequence[float] = GRID) -> float:
    """The grid value nearest to `beta` in plain distance; a tie goes to the smaller.

    Args:
        beta: Any beta in [0, 1).
        grid: The betas to choose among (default: the paper's 13).

    Returns:
        A value of the grid.

    Raises:
        ValueError: Where beta is not in [0, 1).

    >>> nearest_beta(0.95)
    0.94377
    """
    return min(grid, key=lambda value: (abs(value - checked_beta(beta)), value))


def stability_interval(beta: float, refreshes: float = REFRESHES, grid: Sequence[float] = GRID) -> tuple[float, float]:
    """The horizons (lower, upper), in steps, for which the rule projects to grid value `beta`.

    Each bound is the T whose rule value lies midway to the neighbour. The ends of the grid are open: 0 and inf.

    Args:
        beta: A value of the grid.
        refreshes: R0 of the refresh rule.
        grid: The betas that the rule projects to.

    Returns:
        (lower, upper) in steps.

    Raises:
        ValueError: Where beta is not on the grid.

    >>> tuple(round(bound) for bound in stability_interval(0.94377))
    (12802, 22766)
    """
    refreshes = positive(refreshes, "refreshes")
    values = sorted(grid)
    if beta not in values:
        raise ValueError(f"beta {beta!r} is not on the grid; project it first with nearest_beta")
    index = values.index(beta)
    bounds = [refreshes / (1 - (low + high) / 2) for low, high in pairwise(values)]
    return (bounds[index - 1] if index else 0.0, bounds[index] if index < len(bounds) else math.inf)


def checked_beta(beta: float) -> float:
    """`beta` itself if it lies in [0, 1), else a ValueError that says so."""
    if not _is_number(beta) or not 0 <= beta < 1:
        raise ValueError(f"beta must be a number in [0, 1), got {beta!r}; usual values are 0.9 to 0.999")
    return float(beta)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def tidy(value: float) -> float:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def positive(value: float, name: str) -> float:
    """`value` itself if it is a finite number above 0, else a ValueError that names it."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    if value > 1e300:
        raise ValueError(f"{name} is too large to compute with; give it in steps, below 1e300")
    return value if isinstance(value, int) else float(value)


def _below_one(beta: float, horizon: float) -> float:
    if beta >= 1:
        raise ValueError(f"at {horizon:g} steps beta rounds to 1 in floating point; give a shorter horizon")
    return beta


@runtime_checkable
class Rule(Protocol):
    """A way to choose beta: horizon in, beta out. `Refresh`, `Fixed`, `Power` and `Bent` are rules."""

    @property
    def name(self) -> str:
        """What tables and legends call it."""

    def rate(self, horizon: Any) -> Any:
        """1 - beta, unchecked arithmetic: it takes numpy arrays as well as numbers."""

    def __call__(self, horizon: float) -> float:
        """beta in [0, 1) for a horizon in steps; ValueError where the rule has none."""


@dataclass(frozen=True)
class Refresh:
    """1 - beta = refreshes / T.

    >>> Refresh()(20_000)
    0.95
    """

    refreshes: float = REFRESHES

    def __post_init__(self) -> None:
        positive(self.refreshes, "refreshes")

    @property
    def name(self) -> str:
        return f"Refresh R0={self.refreshes:g}"

    def rate(self, horizon: Any) -> Any:
        return self.refreshes / horizon

    def __call__(self, horizon: float) -> float:
        return refresh_beta(horizon, self.refreshes)


@dataclass(frozen=True)
class Fixed:
    """One beta whatever the horizon.

    >>> Fixed(0.94377)(20_000)
    0.94377
    """

    beta: float

    def __post_init__(self) -> None:
        checked_beta(self.beta)

    @property
    def name(self) -> str:
        return f"Fixed beta={self.beta:g}"

    def rate(self, horizon: Any) -> Any:
        return 1 - self.beta + 0 * horizon

    def __call__(self, horizon: float) -> float:
        positive(horizon, "horizon")
        return self.beta


@dataclass(frozen=True)
class Power:
    """1 - beta = c * (T / t0) ** -alpha: alpha = 1 is the refresh rule with R0 = c * t0, alpha = 0 a fixed beta.

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

    def rate(self, horizon: Any) -> Any:
        return self.c * (horizon / self.t0) ** -self.alpha

    def __call__(self, horizon: float) -> float:
        rate = self.rate(positive(horizon, "horizon"))
        if not rate <= 1:
            raise ValueError(f"{self.name} has no beta for {horizon:g} steps: 1 - beta would be {rate:g}, above 1")
        return _below_one(1 - rate, horizon)


@dataclass(frozen=True)
class Bent:
    """The refresh rule from `knee` steps on; below, 1 - beta = (R0 / knee) * (knee / T) ** alpha, and never above 1.

    It is continuous and monotone for alpha in [0, 1], and has a beta for every horizon: alpha = 0 keeps the beta of the
    knee below it, alpha = 1 is the refresh rule itself.

    >>> Bent(knee=6_000, alpha=0.0)(12_000) == Refresh()(12_000), round(Bent(knee=6_000, alpha=0.0)(100), 4)
    (True, 0.8333)
    """

    knee: float
    alpha: float
    refreshes: float = REFRESHES

    def __post_init__(self) -> None:
        positive(self.knee, "knee")
        positive(self.refreshes, "refreshes")
        if not (_is_number(self.alpha) and 0 <= self.alpha <= 1):
            raise ValueError(f"alpha must be a number in [0, 1], got {self.alpha!r}")
        if self.knee <= self.refreshes:
            raise ValueError(f"the knee must exceed {self.refreshes:g} refreshes, got {self.knee:g}")

    @property
    def name(self) -> str:
        return f"Bent knee={self.knee:g} alpha={self.alpha:g}"

    def rate(self, horizon: Any) -> Any:
        above = self.refreshes / horizon
        below = self.refreshes / self.knee * (self.knee / horizon) ** self.alpha
        if _is_number(horizon):
            return above if horizon >= self.knee else min(below, 1.0)
        return above * (horizon >= self.knee) + below.clip(max=1.0) * (horizon < self.knee)

    def __call__(self, horizon: float) -> float:
        return _below_one(1 - self.rate(positive(horizon, "horizon")), horizon)


RECOMMENDED: Rule = Bent(knee=CALIBRATED[0], alpha=0.2)
"""What every surface uses when nobody chooses: the paper's rule where its evidence lies, and below that a memory that
shrinks slowly from the one it has at 6,000 steps. What the rules written down before our studies picked
(`scripts/choose.py`)."""


def beta_for(horizon: float, rule: Rule | str | None = None, refreshes: float | None = None) -> float:
    """The beta for a useful training time of `horizon` steps: the one answer of every surface.

    By default the recommendation, which has an answer from one step on. `rule` is "paper", "recommended", another rule
    as `rule_from` takes it, or a rule value; `refreshes` asks for the paper's rule with that refresh count.

    Args:
        horizon: The useful training time in optimizer steps, from one on.
        rule: "recommended" (the default), "paper", a rule as one types it, or a rule value.
        refreshes: The paper's rule with this many refreshes, instead of a rule.

    Returns:
        The beta, in [0, 1).

    Raises:
        ValueError: Where the horizon is no finite number above 0, or the rule asked for has no beta for it.

    >>> beta_for(20_000), round(beta_for(1_200), 4), beta_for(2_000, rule="paper"), beta_for(2_000, refreshes=300)
    (0.95, 0.77, 0.5, 0.85)
    """
    return chosen_rule(rule, refreshes)(horizon)


def chosen_rule(rule: Rule | str | None = None, refreshes: float | None = None) -> Rule:
    """The rule that a person's words mean, the recommendation where there are none.

    >>> chosen_rule(refreshes=300), chosen_rule("paper")
    (Refresh(refreshes=300), Refresh(refreshes=1000))
    """
    if rule is not None and refreshes is not None:
        raise ValueError("give a rule or a refresh count, not both: refreshes=N is the paper's rule with N refreshes")
    if refreshes is not None:
        return Refresh(refreshes)
    if rule is None:
        return RECOMMENDED
    return rule_from(rule) if isinstance(rule, str) else rule


def one_beta(
    beta: float | None = None,
    horizon: float | None = None,
    rule: Rule | str | None = None,
    refreshes: float | None = None,
) -> float:
    """The beta that an optimizer's keywords mean: `beta` itself, or the one for `horizon`, as `beta_for` finds it.

    >>> one_beta(beta=0.9), one_beta(horizon=20_000), one_beta(horizon=20_000, refreshes=500)
    (0.9, 0.95, 0.975)
    """
    if (beta is None) == (horizon is None):
        raise ValueError("give exactly one of beta= and horizon= (the useful training time in steps)")
    if horizon is not None:
        return beta_for(horizon, rule, refreshes)
    if rule is not None or refreshes is not None:
        raise ValueError("rule= and refreshes= turn a horizon into a beta: give them with horizon=, not with beta=")
    assert beta is not None  # exactly one of the two is given
    return checked_beta(beta)


def rule_from(text: str) -> Rule:
    """A rule as one types it: recommended, paper, refresh:R0, fixed:BETA, power:C,ALPHA[,T0] or bent:KNEE,ALPHA.

    >>> rule_from("power:0.05,0.6"), rule_from("paper")
    (Power(c=0.05, alpha=0.6, t0=10000), Refresh(refreshes=1000))
    """
    if text in ("recommended", "paper"):
        return RECOMMENDED if text == "recommended" else Refresh()
    kinds: dict[str, tuple[type[Refresh | Fixed | Power | Bent], tuple[int, ...]]] = {
        "refresh": (Refresh, (1,)),
        "fixed": (Fixed, (1,)),
        "power": (Power, (2, 3)),
        "bent": (Bent, (2,)),
    }
    kind, _, rest = text.partition(":")
    try:
        make, counts = kinds[kind]
        numbers = [float(part) for part in rest.split(",")]
        if len(numbers) not in counts:
            raise KeyError
    except (KeyError, ValueError):
        known = "recommended, paper, refresh:R0, fixed:BETA, power:C,ALPHA[,T0] or bent:KNEE,ALPHA"
        raise ValueError(f"a rule is {known}, got {text!r}") from None
    return make(*numbers)
