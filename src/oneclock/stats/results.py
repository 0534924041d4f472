"""The results of one experiment, as frozen values without behaviour. `experiments` makes them.

Units: excess losses and the bounds of their intervals are fractions (0.01 is one percent), times are optimizer steps,
losses are as measured. An excess is infinite if the beta has no finite loss. None means "not known".
"""

from __future__ import annotations

from dataclasses import dataclass

from oneclock.runs.best import Best
from oneclock.runs.paired import Interval
from oneclock.runs.record import RunRecord
from oneclock.stats.exponents import Surface


@dataclass(frozen=True)
class BetaPoint:
    """One tied beta of a sweep at its own best learning rate (`lr`; None if one was used).

    `loss` is paired by seed: the loss of the mean seed. `excess` is how far it lies above the best beta, with a 95 % CI
    that holds for all betas of the sweep together; 0 and None at the best beta itself. `below` and `above` are the
    one-sided root-mean-square deviations of the seeds from their mean (None with one seed).
    """

    beta: float
    loss: float
    excess: float
    interval: Interval | None
    below: float | None
    above: float | None
    seeds: int
    runs: tuple[RunRecord, ...]
    lr: float | None


@dataclass(frozen=True)
class BaselinePoint:
    """An untied pair (beta1, beta2) beside the sweep, at its own best learning rate.

    `excess` is how far its loss lies above that of the tied beta `against`, and may be negative. `against` is the
    recommended beta (`is_recommended`), or the best one where the recommended beta was not measured. The CIs of all
    baselines of a sweep hold together.
    """

    name: str
    beta1: float
    beta2: float
    against: float
    is_recommended: bool
    excess: float
    interval: Interval | None
    loss: float
    seeds: int
    runs: tuple[RunRecord, ...]
    lr: float | None


@dataclass(frozen=True)
class RuleCost:
    """What a rule would have cost in one experiment: its own beta, and the excess loss there over the best beta.

    `name` is `recommended`, `paper`, or that of a rule that was given. `beta` is None if the rule has none for so
    many steps. `excess` is interpolated between the swept betas `neighbours`; it is None if none lies near enough.
    """

    name: str
    beta: float | None
    neighbours: tuple[float, ...]
    excess: float | None
    interval: Interval | None


@dataclass(frozen=True)
class ExperimentResult:
    """One experiment: the verdict on its sweep, every beta, the baselines, and what rules would have cost.

    `best` is the one verdict that every command prints. `not_measured` are tied betas without any result. `points` has
    one entry per swept beta, ascending. `steps` are the planned steps that rules are judged at. `surface` is the loss
    over beta and learning rate where several were swept. `missing` says in words what is missing.
    """

    name: str
    steps: float
    best: Best
    not_measured: tuple[float, ...]
    points: tuple[BetaPoint, ...]
    baselines: tuple[BaselinePoint, ...]
    rules: tuple[RuleCost, ...]
    surface: Surface | None
    missing: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{self.name}: {self.best.summary}>"
