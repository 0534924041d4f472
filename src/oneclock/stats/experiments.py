"""One experiment's result: its best beta, every beta beside it, the baselines, and what rules would have cost.

Excess losses are paired by seed, and fractions (0.01 is one percent). Those of betas and rules are measured from the
best beta; baselines are compared with the recommended beta, which no loss of this sweep has picked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from oneclock.rule import NAMED, RECOMMENDED, Rule
from oneclock.runs.best import Best, at_best_lrs, cell_runs, judge, with_missing, without_result
from oneclock.runs.noise import Cell
from oneclock.runs.paired import Difference, Interval, PairedSweep, between
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweep, error_bars
from oneclock.stats.exponents import Profiles, Surface, planned_steps, profiles_of, series_name, surface_of


@dataclass(frozen=True)
class BetaPoint:
    """One tied beta of a sweep at its own best learning rate (`lr`; None if one was used).

    `loss` is that of the mean seed. The CIs of `excess` hold for all betas of the sweep together. `below` and `above`
    are the one-sided root-mean-square deviations of the seeds from their mean (None with one seed).
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
    """An untied pair beside the sweep, at its own best learning rate, against the tied beta `against`.

    That is the recommended beta (`is_recommended`), or the best one where the recommended beta was not measured. The
    CIs of all baselines of a sweep hold together.
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
    """What a rule would have cost in one experiment at its own beta; `name` may be `recommended` or `paper`.

    `beta` is None if the rule has none for so many steps. `excess` is interpolated between the swept `neighbours`, and
    None if none lies near enough.
    """

    name: str
    beta: float | None
    neighbours: tuple[float, ...]
    excess: float | None
    interval: Interval | None


@dataclass(frozen=True)
class ExperimentResult:
    """One experiment: the verdict `best`, a point per swept beta, the baselines, and what rules would have cost.

    `steps` are the planned steps, at which rules are judged. `not_measured` are tied betas without any result.
    `surface` is the loss over beta and learning rate where several were swept. `missing` is in words.
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


@dataclass(frozen=True, eq=False)
class FittedSweep:
    """A sweep with its paired fit and verdict; `whole` has all learning rates, `sweep` each beta at its best one."""

    whole: Sweep
    sweep: Sweep
    fit: PairedSweep
    best: Best
    steps: float

    @cached_property
    def cells(self) -> dict[float, Cell]:
        """The tied betas with a finite loss, each with the cell at its best learning rate."""
        lrs = self.fit.best_lrs()
        return {
            beta: (beta, lr) for beta, lr in lrs.items() if isinstance(beta, float) and (beta, lr) in self.fit.cells
        }

    @cached_property
    def profiles(self) -> Profiles | None:
        """The fitted lowest point, where learning rates were swept or the sweep is one of a series."""
        return profiles_of(self.whole) if self.whole.has_lrs or series_name(self.whole) else None

    @cached_property
    def reference(self) -> float:
        """What excess losses are measured from: the best beta, or the lowest one where no beta is best."""
        if self.best.beta is not None:
            return self.best.beta
        return min(self.cells, key=lambda beta: (self.fit.losses[self.cells[beta]], beta))

    def shares(self, beta: float | None) -> dict[float, float] | None:
        """A beta as shares of its swept neighbours; None if none are near, or a missing result may change them.

        That is so where a beta between the neighbours has no result, and where a neighbour lacks one at a learning rate
        next to its best one.
        """
        shares = None if beta is None else between(beta, self.sweep.betas)
        if shares is None:
            return None
        unsure = set(without_result(self.fit)) - {self.reference}
        return None if any(min(shares) <= one <= max(shares) for one in unsure) else shares

    @cached_property
    def excess(self) -> dict[float, Difference]:
        """Each beta against the best, with simultaneous CIs: the same comparisons that the verdict's ties come from."""
        best = {self.cells[self.reference]: 1.0}
        others = {beta: cell for beta, cell in self.cells.items() if beta != self.reference}
        found = self.fit.compare([({cell: 1.0}, best) for cell in others.values()], list(self.cells.values()))
        return dict(zip(others, found, strict=True)) | {self.reference: Difference(0.0, None)}

    def excess_at(self, shares: Mapping[float, float]) -> Difference:
        """A beta between swept ones against the best: a mean of their differences and CIs on the log scale.

        So a beta between the best one and one that is tied with it is tied too.
        """
        if not shares.keys() <= self.excess.keys():
            return Difference(math.inf, None)

        def mixed(values: Mapping[float, float]) -> float:
            return math.expm1(math.fsum(shares[beta] * math.log1p(value) for beta, value in values.items()))

        parts = {beta: self.excess[beta] for beta in shares}
        value = mixed({beta: one.value for beta, one in parts.items()})
        away = [beta for beta, one in parts.items() if one.value or one.interval]
        known = {beta: one for beta in away if (one := parts[beta].interval) is not None}
        if not away or len(known) < len(away):
            return Difference(value, None)
        lower, upper = ({beta: getattr(one, end) for beta, one in known.items()} for end in ("lower", "upper"))
        return Difference(value, Interval(mixed(lower), mixed(upper)))

    def mixture(self, beta: float | None) -> dict[Cell, float] | None:
        """A beta as a mixture of its swept neighbours; None if none are near enough, empty if one diverged."""
        shares = self.shares(beta)
        if shares is None:
            return None
        return {self.cells[one]: share for one, share in shares.items()} if shares.keys() <= self.cells.keys() else {}


def fitted(whole: Sweep) -> FittedSweep:
    """Fit a sweep once, for everything that is said about it."""
    for run in (*whole.tied, *whole.untied):
        if run.loss <= 0:
            where = f"{whole.name}: beta {run.beta}, seed {run.seed}"
            raise ValueError(f"{where} has the loss {run.loss:g}; relative gaps need losses above 0")
    fit, steps = PairedSweep(cell_runs(whole.runs)), planned_steps(whole) or whole.t_es
    if steps is None:
        raise ValueError(
            f"{whole.name}: its length is not known; give budget or t_es, or curves with step and val_loss"
        )
    return FittedSweep(whole, at_best_lrs(whole), fit, with_missing(judge(fit), whole.runs), steps)


def result_of(one: FittedSweep, given: Sequence[Rule] = ()) -> ExperimentResult:
    """Everything about one experiment, also by the rules that a person gave."""
    lost = {run.tied_beta for run in one.whole.without_result if run.key.is_tied}
    return ExperimentResult(
        name=one.whole.name,
        steps=one.steps,
        best=one.best,
        not_measured=tuple(sorted(lost - {*one.whole.betas})),
        points=tuple(_point(one, beta) for beta in one.sweep.betas),
        baselines=tuple(_baselines(one)),
        rules=tuple(rule_cost(one, rule, one.steps) for rule in side_by_side(given)),
        surface=surface_of(one.whole, one.profiles),
        missing=one.whole.missing,
    )


def _point(one: FittedSweep, beta: float) -> BetaPoint:
    runs = tuple(run for run in one.sweep.tied if run.beta == beta)
    minima = [run.best_loss for run in runs if run.best_loss is not None]
    below, above = error_bars(minima) or (None, None)
    excess = one.excess.get(beta, Difference(math.inf, None))
    return BetaPoint(
        beta=beta,
        loss=one.fit.losses[one.cells[beta]] if beta in one.cells else math.inf,
        excess=excess.value,
        interval=excess.interval,
        below=below,
        above=above,
        seeds=len(minima),
        runs=runs,
        lr=runs[0].lr if one.whole.has_lrs else None,
    )


def _baselines(one: FittedSweep) -> Iterator[BaselinePoint]:
    """The untied pairs, each against the recommended beta for the planned steps."""
    beta = rule_beta(RECOMMENDED, one.steps)
    mixture = one.mixture(beta) or None
    against = mixture or {one.cells[one.reference]: 1.0}
    cells = {pair: (pair, lr) for pair, lr in one.fit.best_lrs().items() if isinstance(pair, tuple)}
    measured = [pair for pair, cell in cells.items() if cell in one.fit.cells]
    compared = one.fit.compare([({cells[pair]: 1.0}, against) for pair in measured])
    differences = dict(zip(measured, compared, strict=True))
    for pair, cell in sorted(cells.items()):
        runs = tuple(run for run in one.sweep.untied if run.beta == pair)
        difference = differences.get(pair, Difference(math.inf, None))
        yield BaselinePoint(
            name=f"({pair[0]:g}, {pair[1]:g})",
            beta1=pair[0],
            beta2=pair[1],
            against=one.reference if mixture is None or beta is None else beta,
            is_recommended=mixture is not None,
            excess=difference.value,
            interval=difference.interval,
            loss=one.fit.losses.get(cell, math.inf),
            seeds=sum(run.best_loss is not None for run in runs),
            runs=runs,
            lr=cell[1] if one.whole.has_lrs else None,
        )


def side_by_side(given: Sequence[Rule]) -> list[Rule]:
    """The recommended rule, the paper's, then what a person gave beside them."""
    return [*NAMED.values(), *(rule for rule in given if rule not in NAMED.values())]


def rule_cost(one: FittedSweep, rule: Rule, steps: float) -> RuleCost:
    """What the rule's beta for so many steps would have cost in this sweep."""
    beta = rule_beta(rule, steps)
    shares = one.shares(beta)
    if shares is None:
        return RuleCost(rule.name, beta, (), None, None)
    difference = one.excess_at(shares)
    return RuleCost(rule.name, beta, tuple(shares), difference.value, difference.interval)


def rule_beta(rule: Rule, steps: float) -> float | None:
    """The rule's own beta for so many steps; None if it has none.

    >>> rule_beta(NAMED["paper"], 20_000), rule_beta(NAMED["paper"], 500)
    (0.95, None)
    """
    try:
        return rule(steps)
    except ValueError:
        return None
