"""One experiment's result: its best beta, every beta beside it, the baselines, and what rules would have cost.

All differences are paired by seed and measured from one reference: the best beta (`oneclock.runs.best`). Rules are
judged at the planned steps, at their own beta, interpolated between the swept ones. Baselines are compared with the
recommended beta, which no loss of this sweep has picked. The paper's own gaps, measured from its oracle, are `gap`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from oneclock.rule import RECOMMENDED, Refresh, Rule
from oneclock.runs.best import Best, cell_runs, judge, with_missing, without_result
from oneclock.runs.noise import Cell
from oneclock.runs.paired import Difference, Interval, PairedSweep, between
from oneclock.runs.sweeps import TARGET, Losses, Sweep, error_bars, losses_of, steps_to_target
from oneclock.stats.results import BaselinePoint, BetaPoint, RuleCost, TimeToTarget


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


def fitted(whole: Sweep, sweep: Sweep, steps: float) -> FittedSweep:
    """Fit a sweep once, for everything that is said about it."""
    fit = PairedSweep(cell_runs(whole.runs))
    return FittedSweep(whole, sweep, fit, with_missing(judge(fit), whole.runs), steps)


def sweep_points(one: FittedSweep, losses: Losses) -> tuple[BetaPoint, ...]:
    """Every tied beta of a sweep; `losses` are its plain means, as the paper has them."""
    sweep, cells, excess = one.sweep, one.cells, one.excess
    oracle = int(losses.oracle[0])
    train = losses_of([sweep], "min_train_loss").loss[0]
    by_beta = {beta: [run for run in sweep.tied if run.beta == beta] for beta in sweep.betas}
    times = {beta: steps_to_target(runs, TARGET * float(losses.loss[0, oracle])) for beta, runs in by_beta.items()}
    points = []
    for index, (beta, runs) in enumerate(by_beta.items()):
        minima = [run.best_loss for run in runs if run.best_loss is not None]
        below, above = error_bars(minima) or (None, None)
        points.append(
            BetaPoint(
                beta=beta,
                loss=one.fit.losses[cells[beta]] if beta in cells else math.inf,
                excess=excess[beta].value if beta in excess else math.inf,
                interval=excess[beta].interval if beta in excess else None,
                mean_loss=float(losses.loss[0, index]),
                gap=float(losses.gaps[0, index]),
                below=below,
                above=above,
                seeds=len(minima),
                train_loss=_finite(train[index]),
                target=_target(times[beta], times[sweep.betas[oracle]]),
                runs=tuple(runs),
                lr=runs[0].lr if one.whole.has_lrs else None,
            )
        )
    return tuple(points)


def baseline_points(one: FittedSweep, recommended: Rule = RECOMMENDED) -> Iterator[BaselinePoint]:
    """The untied pairs, each against the recommended beta for the planned steps."""
    lrs = one.fit.best_lrs()
    beta = rule_beta(recommended, one.steps)
    mixture = one.mixture(beta) or None
    against = mixture or {one.reference: 1.0}
    pairs = [pair for pair in lrs if isinstance(pair, tuple)]
    fitted = [pair for pair in pairs if (pair, lrs[pair]) in one.fit.cells]
    compared = one.fit.compare([({(pair, lrs[pair]): 1.0}, against) for pair in fitted])
    differences = dict(zip(fitted, compared, strict=True))
    for pair in sorted(pairs):
        runs = [run for run in one.sweep.untied if run.beta == pair]
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
            runs=tuple(runs),
            lr=lrs[pair] if one.whole.has_lrs else None,
        )


def named_rules(rule: Refresh, given: Sequence[Rule]) -> list[tuple[str, Rule]]:
    """The recommendation and the paper's rule by these names, then what a person asked for by its own."""
    always: list[tuple[str, Rule]] = [("recommended", RECOMMENDED), ("paper", Refresh())]
    return always + [(one.name, one) for one in (rule, *given) if one not in (RECOMMENDED, Refresh())]


def rule_costs(one: FittedSweep, rules: Sequence[tuple[str, Rule]]) -> tuple[RuleCost, ...]:
    """What each rule would have cost at the planned steps. The CIs hold together, and with those of the betas."""
    return tuple(rule_cost(one, name, rule, one.steps) for name, rule in rules)


def rule_cost(one: FittedSweep, name: str, rule: Rule, steps: float) -> RuleCost:
    """What the rule's beta for so many steps would have cost in this sweep."""
    beta = rule_beta(rule, steps)
    shares = one.shares(beta)
    if shares is None:
        return RuleCost(name, beta, (), None, None)
    difference = one.excess_at(shares)
    return RuleCost(name, beta, tuple(shares), difference.value, difference.interval)


def _mixed(parts: Iterable[tuple[float, float]]) -> float:
    """A mean of shares of a loss, on the log scale."""
    return math.expm1(math.fsum(share * math.log1p(value) for share, value in parts))


def rule_beta(rule: Rule, steps: float) -> float | None:
    """The rule's own beta for so many steps; None if it has none.

    >>> rule_beta(Refresh(), 20_000), rule_beta(Refresh(), 500)
    (0.95, None)
    """
    try:
        return rule(steps)
    except ValueError:
        return None


def _target(times: Sequence[float] | None, base: Sequence[float] | None) -> TimeToTarget | None:
    if times is None or base is None:
        return None
    steps, own = statistics.median_high(times), statistics.median_high(base)
    ratio = steps / own if math.isfinite(steps) and math.isfinite(own) and own > 0 else None
    return TimeToTarget(_finite(steps), ratio, sum(map(math.isfinite, times)), len(times))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
