"""What an analysis says: frozen values, no behaviour. `analyse` makes them; `report` draws them; `as_json` writes them.

Units everywhere: gaps, shares and interval bounds of gaps are fractions (0.01 is one percent), times are optimizer
steps, losses are as measured. A gap is infinite where the beta has no finite loss. None means "not known", and a
sentence in `missing` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oneclock.analysis.axes import Series, Surface
from oneclock.horizon import EarlyStop
from oneclock.study.best import Interval

HorizonSource = Literal["given", "stop", "best", "budget"]
"""Where a horizon comes from: the table's t_es, the curves by one of the two conventions, or the planned steps."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its uncertainty: `seeds` with these experiments held fixed, `experiments` with them resampled too.

    `seeds` is None where no beta has two seeds, `experiments` where there is only one.
    """

    value: float
    seeds: Interval | None
    experiments: Interval | None


@dataclass(frozen=True)
class SeedRun:
    """One run of a sweep: its smallest losses, and where it would have stopped early (None without a curve)."""

    seed: int
    min_val_loss: float | None
    min_train_loss: float | None
    early_stop: EarlyStop | None


@dataclass(frozen=True)
class TimeToTarget:
    """Steps until the validation loss first reaches 1.01 * min L: the median over seeds, a seed that never does last.

    `steps` is None where that median seed never does; `ratio` is to the oracle's own steps (1 is as fast).
    """

    steps: float | None
    ratio: float | None
    reached: int
    seeds: int


@dataclass(frozen=True)
class BetaPoint:
    """One beta of a sweep: L(beta), its one-sided root-mean-square error bars (None with one seed), and its gap.

    `rate` is the learning rate that it is best at, and counts with; None where one rate was swept. So it is of arms.
    """

    beta: float
    gap: float
    interval: Interval | None
    loss: float
    below: float | None
    above: float | None
    seeds: int
    train_loss: float | None
    train_gap: float | None
    target: TimeToTarget | None
    runs: tuple[SeedRun, ...]
    rate: float | None


@dataclass(frozen=True)
class ArmPoint:
    """An untied baseline (beta1, beta2) beside the sweep; its gap is to the best tied beta and may be negative."""

    name: str
    beta1: float
    beta2: float
    gap: float
    interval: Interval | None
    loss: float
    seeds: int
    runs: tuple[SeedRun, ...]
    rate: float | None


@dataclass(frozen=True)
class Horizons:
    """T_ES of one experiment in every way it is known; `used` is the one the rules saw, `source` which one that is.

    `stop` and `best` are rounded to one significant digit by the two conventions, `raw_stop` and `raw_best` are not.
    """

    used: float
    source: HorizonSource
    given: float | None
    stop: float | None
    best: float | None
    raw_stop: float | None
    raw_best: float | None


@dataclass(frozen=True)
class NoiseFloor:
    """The gap that even the true best beta would show under this seed spread: its mean, and the level's quantile."""

    mean: float
    high: float
    level: float
    relative_spread: float


@dataclass(frozen=True)
class RuleCost:
    """What a rule would have cost in one experiment: its beta, the nearest that was swept, and the gap there.

    `name` is `recommended`, `paper`, or that of a rule that was given; all else is None where the rule has no beta for
    the horizon. `near` is False where the swept beta lies more than a step of the paper's grid away from the rule's:
    the gap is then that of another beta.
    """

    name: str
    beta: float | None
    swept: float | None
    gap: float | None
    interval: Interval | None
    near: bool


@dataclass(frozen=True)
class ExperimentResult:
    """One experiment: the sweep, its best beta, its oracle, its horizon, and what the refresh rule selects.

    `best_beta`, its interval, the betas not told apart from it, what to say of it, `best_rate` (None where one rate was
    swept) and `best_at_end` are those of `study.best`, which pairs seeds; `oracle_beta` is the paper's, the smallest L
    of all, which gaps are measured from.
    `gaps` holds one point per swept beta, ascending. `selected_beta` is None where the rule has no beta (T <= R0);
    `surface` is L over beta and rate where several rates were swept; all else then has each beta at its own best rate.
    `rules` are what the recommendation, the paper's rule and those given would have cost. `rule_beta` is the selecting
    rule's value before projection. `stable_from` and `stable_to` bound the horizons with the same selection
    (None: open). `missing` says in words what is not there.
    """

    name: str
    split: str
    budget: float | None
    t_es: float | None
    horizons: Horizons
    best_beta: float | None
    best_interval: Interval | None
    tied_with: tuple[float, ...]
    best_word: str
    best_rate: float | None
    best_at_end: tuple[str, ...]
    rules: tuple[RuleCost, ...]
    surface: Surface | None
    oracle_beta: float
    oracle_loss: float
    rule_beta: float | None
    selected_beta: float | None
    selected_gap: float | None
    stable_from: float | None
    stable_to: float | None
    noise_floor: NoiseFloor | None
    gaps: tuple[BetaPoint, ...]
    arms: tuple[ArmPoint, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Risk:
    """Gaps of one rule over a set of experiments: mean, max, CVaR (the worst quarter), and how many lie under 1 %.

    `answered` of `experiments` have a beta by this rule; the figures are over those. `train_mean` is the mean gap on
    the training loss, None where it was not recorded everywhere.
    """

    experiments: int
    answered: int
    mean: Estimate
    max: Estimate
    cvar: Estimate
    within: int
    train_mean: float | None


@dataclass(frozen=True)
class RuleRow:
    """A rule on the same sweeps as every other: what it picks, and its risk by split.

    `betas` and `gaps` follow the order of `Analysis.experiments`, None where the rule has no beta. `horizon` says which
    horizon it saw. `chosen_by` names how it was picked on the development experiments ("mean", "max"), if it was.
    """

    name: str
    horizon: HorizonSource | Literal["t_es"]
    chosen_by: str | None
    betas: tuple[float | None, ...]
    gaps: tuple[float | None, ...]
    development: Risk | None
    heldout: Risk | None
    all: Risk | None


@dataclass(frozen=True)
class R0Row:
    """One candidate of the R0 sweep: admissible where it has a beta for every development experiment."""

    refreshes: float
    admissible: bool
    rule: RuleRow


@dataclass(frozen=True)
class PowerRow:
    """One member of 1 - beta = c * (T / t0) ** -alpha, on the development experiments; None where it has no beta."""

    alpha: float
    c: float
    mean: float | None
    max: float | None
    cvar: float | None


@dataclass(frozen=True)
class LeftOut:
    """One development experiment left out: the R0 the others choose, and the gap it gives here."""

    experiment: str
    refreshes: float | None
    beta: float | None
    gap: float | None


@dataclass(frozen=True)
class Comparison:
    """One rule against another by one figure on one split: `difference` is first minus second, negative is better.

    `experiments` are compared. `told_apart` where the interval of the difference, over experiments and seeds, leaves
    out zero.
    """

    first: str
    second: str
    split: str
    experiments: int
    figure: Literal["mean", "max", "cvar"]
    difference: float
    interval: Interval | None
    told_apart: bool


@dataclass(frozen=True)
class Calibration:
    """R0 and the power family chosen on the development experiments, and how far the choice can be trusted.

    `chosen` has the smallest maximum gap, ties to the smallest R0; `plateau` is every R0 with that maximum;
    `chosen_by_mean` is what the mean would choose. `power` is the family's table, `power_best` its best by max, ties
    to the smaller mean, then to alpha nearest 1, and `power_plateau` all with that maximum. `left_out_mean` and
    `left_out_max` sum up `left_out`. `noise_floor` is over the development experiments: the mean of their means, and
    the quantile of the largest among them, to hold against a mean and a maximum.
    """

    criterion: Literal["max"]
    candidates: tuple[R0Row, ...]
    chosen: float | None
    plateau: tuple[float, ...]
    chosen_by_mean: float | None
    heldout: Risk | None
    power_t0: float
    power: tuple[PowerRow, ...]
    power_best: PowerRow | None
    power_plateau: tuple[PowerRow, ...]
    left_out: tuple[LeftOut, ...]
    left_out_mean: float | None
    left_out_max: float | None
    comparisons: tuple[Comparison, ...]
    noise_floor: NoiseFloor | None
    verdict: tuple[str, ...]


@dataclass(frozen=True)
class Stability:
    """The horizons for which the selected beta stays (None: open), and the relative distance to the nearer bound."""

    experiment: str
    split: str
    beta: float
    horizon: float
    lower: float | None
    upper: float | None
    margin: float


@dataclass(frozen=True)
class NoiseFigure:
    """One figure under noise in T: its mean over repeats, their sampling range (lower, upper), and all draws pooled."""

    expected: float
    lower: float
    upper: float
    large_sample: float


@dataclass(frozen=True)
class NoiseRisk:
    """Mean, max, CVaR and share under 1 % of all draws of one set of experiments."""

    mean: NoiseFigure
    max: NoiseFigure
    cvar: NoiseFigure
    within: NoiseFigure


@dataclass(frozen=True)
class NoiseRow:
    """The refresh rule with T' = T (1 + eps), eps ~ N(0, sigma): `draws` per experiment in each of `repeats`."""

    sigma: float
    draws: int
    repeats: int
    level: float
    development: NoiseRisk | None
    heldout: NoiseRisk | None
    all: NoiseRisk | None


@dataclass(frozen=True)
class ConventionRow:
    """T_ES of one experiment by one convention, and what follows: `patience` is a share of the budget."""

    experiment: str
    convention: Literal["stop", "best"]
    patience: float
    min_delta: float
    t_es: float
    beta: float | None
    gap: float | None


@dataclass(frozen=True)
class Robustness:
    """How much the choice depends on T_ES. `mean_width` is the mean of (upper - lower) / lower, None if one is open."""

    stability: tuple[Stability, ...]
    mean_width: float | None
    noise: tuple[NoiseRow, ...]
    conventions: tuple[ConventionRow, ...]


@dataclass(frozen=True)
class Summary:
    """The main table: the refresh rule beside a fixed beta, by default the one with the smallest development mean.

    `rules` are those of the user's own; `given` compares them with the refresh rule and with one another.
    """

    refreshes: float
    refresh: RuleRow
    fixed: RuleRow
    rules: tuple[RuleRow, ...]
    given: tuple[Comparison, ...]
    verdict: tuple[str, ...]


@dataclass(frozen=True)
class TimeRisk:
    """Times to target of one rule over a set of experiments, in units of the oracle's own (1 is as fast).

    In `reached` of `answered` experiments the rule's beta gets there; the others count with their whole budget, so that
    figures are then at least so large, and have no interval. Intervals are over experiments alone.
    """

    answered: int
    reached: int
    mean: Estimate
    max: Estimate
    cvar: Estimate


@dataclass(frozen=True)
class TimeRow:
    """A rule's times to target over the oracle's own, in the order of `Analysis.experiments`.

    None where one is not known: no curves, no beta by the rule, or the oracle's own median seed stays above the target.
    `reached` is False where the target is not, and the ratio is that of the whole budget.
    """

    name: str
    ratios: tuple[float | None, ...]
    reached: tuple[bool, ...]
    development: TimeRisk | None
    heldout: TimeRisk | None
    all: TimeRisk | None


@dataclass(frozen=True)
class Introduction:
    """What the paper's introduction claims without a table, for the rules that are more than one swept beta.

    `train` has gaps on the training loss in place of those on the validation loss, where it was recorded; `times` are
    the times to target, where there are curves. Both are empty where no experiment has them. `comparisons` set rules
    against one another on the training loss, where both have a beta; `verdict` says so in words.
    """

    train: tuple[RuleRow, ...]
    times: tuple[TimeRow, ...]
    comparisons: tuple[Comparison, ...]
    verdict: tuple[str, ...]


@dataclass(frozen=True)
class Analysis:
    """All of it. `recommended` is what the recommendation would have cost; `missing` says what was left out or not
    known, over all experiments.
    """

    experiments: tuple[ExperimentResult, ...]
    recommended: RuleRow
    summary: Summary
    calibration: Calibration
    robustness: Robustness
    arena: tuple[RuleRow, ...]
    introduction: Introduction
    series: tuple[Series, ...]
    missing: tuple[str, ...]
