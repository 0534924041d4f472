"""One experiment's result: its best beta, every beta beside it, the baselines, and what rules would have cost.

All differences are paired by seed and measured from one reference: the best beta (`oneclock.runs.best`). Rules are
judged at the planned steps, at their own beta, interpolated between the swept ones. Baselines are compared with the
recommended beta, which no loss of this sweep has picked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from oneclock.rule import NAMED, RECOMMENDED, Rule
from oneclock.runs.best import Best, at_best_lrs, cell_runs, judge, with_missing, without_result
from oneclock.runs.noise import Cell
from oneclock.runs.paired import Difference, Interval, PairedSweep, between
from oneclock.runs.sweeps import Sweep, error_bars, refuse_negative
from oneclock.stats.exponents import Profiles, planned_steps, profiles_of, series_name, surface_of
from oneclock.stats.results import BaselinePoint, BetaPoint, ExperimentResult, RuleCost


@dataclass(frozen=True, eq=False)
class FittedSweep:
    """A sweep with its paired fit and its verdict: what rules and baselines are measured on.

    `whole` has all learning rates, `sweep` each beta at its own best one.
    """

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
            beta: (beta, lr) for beta, lr in lrs.items() if not isinstance(beta, tuple) and (beta, lr) in self.fit.cells
        }

    @property
    def not_measured(self) -> tuple[float, ...]:
        """Tied betas of which no run has a result, though some were started."""
        betas = {run.tied_beta for run in self.whole.without_result if run.key.is_tied}
        return tuple(sorted(betas - set(self.whole.betas)))

    @cached_property
    def profiles(self) -> Profiles | None:
        """The fitted lowest point, where learning rates were swept or the sweep is one of a series."""
        return profiles_of(self.whole) if self.whole.has_lrs or series_name(self.whole) else None

    @cached_property
    def reference(self) -> Cell:
        """What excess losses are measured from: the best beta, or the lowest one where no beta is best."""
        cells = self.cells
        if self.best.beta is not None:
            return cells[self.best.beta]
        return min(cells.values(), key=lambda cell: (self.fit.losses[cell], cell[0]))

    def shares(self, beta: float | None) -> dict[float, float] | None:
        """A beta as shares of its swept neighbours; None if none are near, or a missing result may change them.

        That is so where a beta between the neighbours has no result, and where a neighbour lacks one at a learning rate
        next to its best one.
        """
        shares = None if beta is None else between(beta, self.sweep.betas)
        if shares is None:
            return None
        unsure = set(without_result(self.fit)) - {self.reference[0]}
        return None if any(min(shares) <= one <= max(shares) for one in unsure) else shares

    @cached_property
    def excess(self) -> dict[float, Difference]:
        """Each beta against the best, with simultaneous CIs: the same comparisons that the verdict's ties come from."""
        cells, reference = self.cells, self.reference
        others = {beta: cell for beta, cell in cells.items() if cell != reference}
        pairs = [({cell: 1.0}, {reference: 1.0}) for cell in others.values()]
        differences = dict(zip(others, self.fit.compare(pairs, list(cells.values())), strict=True))
        return differences | {beta: Difference(0.0, None) for beta, cell in cells.items() if cell == reference}

    def excess_at(self, shares: Mapping[float, float]) -> Difference:
        """A beta between swept ones against the best: between their differences and the ends of their CIs.

        So a beta between the best one and one that is tied with it is tied too.
        """
        if not shares.keys() <= self.excess.keys():
            return Difference(math.inf, None)
        parts = [(share, self.excess[beta]) for beta, share in shares.items()]
        value = _mixed((share, one.value) for share, one in parts)
        away = [(share, one) for share, one in parts if one.value or one.interval]
        with_interval = [(share, one.interval) for share, one in away if one.interval is not None]
        if not away or len(with_interval) < len(away):
            return Difference(value, None)
        ends = (_mixed((share, getattr(one, end)) for share, one in with_interval) for end in ("lower", "upper"))
        return Difference(value, Interval(*ends))

    def mixture(self, beta: float | None) -> dict[Cell, float] | None:
        """A beta as a mixture of its swept neighbours; None if none are near enough, empty if one diverged."""
        shares = self.shares(beta)
        if shares is None:
            return None
        return {self.cells[one]: share for one, share in shares.items()} if shares.keys() <= self.cells.keys() else {}


def fitted(whole: Sweep) -> FittedSweep:
    """Fit a sweep once, for everything that is said about it."""
    refuse_negative(whole)
    fit, steps = PairedSweep(cell_runs(whole.runs)), planned_steps(whole) or whole.t_es
    if steps is None:
        raise ValueError(
            f"{whole.name}: its length is not known; give budget or t_es, or curves with step and val_loss"
        )
    return FittedSweep(whole, at_best_lrs(whole), fit, with_missing(judge(fit), whole.runs), steps)


def result_of(one: FittedSweep, given: Sequence[Rule] = ()) -> ExperimentResult:
    """Everything about one experiment, also by the rules that a person gave."""
    return ExperimentResult(
        name=one.whole.name,
        steps=one.steps,
        best=one.best,
        not_measured=one.not_measured,
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
    lrs = one.fit.best_lrs()
    beta = rule_beta(RECOMMENDED, one.steps)
    mixture = one.mixture(beta) or None
    against = mixture or {one.reference: 1.0}
    pairs = [pair for pair in lrs if isinstance(pair, tuple)]
    measured = [pair for pair in pairs if (pair, lrs[pair]) in one.fit.cells]
    compared = one.fit.compare([({(pair, lrs[pair]): 1.0}, against) for pair in measured])
    differences = dict(zip(measured, compared, strict=True))
    for pair in sorted(pairs):
        runs = tuple(run for run in one.sweep.untied if run.beta == pair)
        difference = differences.get(pair, Difference(math.inf, None))
        yield BaselinePoint(
            name=f"({pair[0]:g}, {pair[1]:g})",
            beta1=pair[0],
            beta2=pair[1],
            against=float(one.reference[0]) if mixture is None or beta is None else beta,  # type: ignore[arg-type]
            is_recommended=mixture is not None,
            excess=difference.value,
            interval=difference.interval,
            loss=one.fit.losses.get((pair, lrs[pair]), math.inf),
            seeds=sum(run.best_loss is not None for run in runs),
            runs=runs,
            lr=lrs[pair] if one.whole.has_lrs else None,
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


def _mixed(parts: Iterable[tuple[float, float]]) -> float:
    """A mean of shares of a loss, on the log scale."""
    return math.expm1(math.fsum(share * math.log1p(value) for share, value in parts))


def rule_beta(rule: Rule, steps: float) -> float | None:
    """The rule's own beta for so many steps; None if it has none.

    >>> rule_beta(NAMED["paper"], 20_000), rule_beta(NAMED["paper"], 500)
    (0.95, None)
    """
    try:
        return rule(steps)
    except ValueError:
        return None
