"""The adaptive protocol: few runs to the best beta, or to the best pair of beta and learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oneclock import rule
from oneclock.sweep.cells import Cell, Losses, Step, mean, ranked
from oneclock.sweep.surface import FEW, Pair, block, bracketing, climb, own_rate


@dataclass(frozen=True)
class Adaptive:
    """Find the best beta with few runs: climb from the rule's choice until bracketed, then seeds for the best three.

    With `rates` it climbs over both axes to the best pair, from the user's own rate. Stops when one more seed would
    change the choice with a chance of less than about one in a hundred, when the seeds are spent, or at `max_runs`
    (10, with rates 30).
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    max_runs: int | None = None
    arms: tuple[tuple[float, float], ...] = ()
    rates: tuple[float, ...] = ()

    @property
    def limit(self) -> int:
        """How many tied runs it may spend."""
        return self.max_runs or (30 if self.rates else 10)

    def start(self, budget: int) -> float:
        """Where the climb begins: the beta that is recommended for `budget` steps."""
        return rule.nearest_beta(rule.beta_for(budget), self.betas)

    def step(self, losses: Losses, budget: int) -> Step:
        tied = {cell: loss for cell, loss in losses.items() if isinstance(cell.beta, float)}
        left = self.limit - len(tied)
        if self.rates:
            wanted, reason = self._step_pairs(tied, budget)
        else:
            wanted, reason = self._climb(tied, budget) or self._repeat(tied)
        cells = [cell for cell in wanted if cell not in tied][: max(left, 0)]
        if cells:
            return Step(tuple(cells), left)
        return Step((), 0, reason if not wanted else f"{self.limit} runs are spent (max_runs)")

    def _climb(self, losses: Losses, budget: int) -> tuple[list[Cell], str] | None:
        """The runs that bracket the best beta with the first seed, or None once it is bracketed."""
        betas, seed = sorted(self.betas), self.seeds[0]
        first = {beta: losses[Cell(beta, seed)] for beta in betas if Cell(beta, seed) in losses}
        start = self.start(budget)
        around: Sequence[float] = sorted(_neighbours(betas, start), key=lambda beta: (beta != start, beta))
        if all(beta in first for beta in around):  # only then is there a slope to follow, however the runs came in
            if not any(map(math.isfinite, first.values())):
                return [], f"none of {len(first)} betas around the rule's choice ended with a finite loss"
            around = _neighbours(betas, ranked(first)[0])
        return ([Cell(beta, seed) for beta in around], "") if any(beta not in first for beta in around) else None

    def _repeat(self, losses: Losses) -> tuple[list[Cell], str]:
        """The next seed for the best three, until more seeds would not change the choice."""
        first = {cell.beta: loss for cell, loss in losses.items() if cell.seed == self.seeds[0]}
        three = [beta for beta in ranked(first)[:3] if math.isfinite(first[beta])]
        for index, seed in enumerate(self.seeds[1:], start=1):
            spent = {beta: [losses[Cell(beta, s)] for s in self.seeds[:index]] for beta in three}
            if index >= 2 and settled(list(spent.values())):
                return [], f"one more seed would not change the choice ({index} seeds for each of the best three)"
            wanted = [Cell(beta, seed) for beta in ranked({beta: mean(values) for beta, values in spent.items()})]
            if any(cell not in losses for cell in wanted):
                return wanted, ""
        return [], f"the best is bracketed and the best {len(three)} have run with every seed"

    def _step_pairs(self, losses: Losses, budget: int) -> tuple[list[Cell], str]:
        """The runs that bracket the best pair with the first seed; then seeds for the best few, and what these ask for.

        What lies around the best is looked at all or not at all, so that the order in which runs end changes nothing.
        """
        seed, start = self.seeds[0], (self.start(budget), own_rate(self.rates))
        first = _pairs(losses, seed)
        wanted, path, seen = climb(self.betas, self.rates, start, first)
        if not wanted and not math.isfinite(first[path[-1]]):
            return [], f"none of {len(first)} pairs around the start ended with a finite loss"
        while not wanted:
            cells, reason, best = self._repeat_pairs(losses, {pair: first[pair] for pair in seen})
            around = {*block(self.betas, self.rates, best)}
            if cells or around <= seen:
                return cells, reason
            wanted = sorted(around - {*first})
            seen |= around
        return [Cell(beta, seed, rate) for beta, rate in wanted], ""

    def _repeat_pairs(self, losses: Losses, first: Mapping[Pair, float]) -> tuple[list[Cell], str, Pair]:
        """The next seed for the best few pairs, or why they need no more; and the best of them by now."""
        few = [pair for pair in ranked(first)[:FEW] if math.isfinite(first[pair])]
        for count, after in enumerate((*self.seeds[1:], None), start=1):
            spent = {(beta, rate): [losses[Cell(beta, s, rate)] for s in self.seeds[:count]] for beta, rate in few}
            best = ranked({pair: mean(values) for pair, values in spent.items()})[0]
            if count >= 2 and settled(list(spent.values())):
                break
            wanted = [] if after is None else [Cell(beta, after, rate) for beta, rate in few]
            if any(cell not in losses for cell in wanted):
                return wanted, "", best
        beyond, whole = self._beyond(best), len(self.betas) * len(self.rates) * len(self.seeds)
        found = "no pair beside the best is better" if beyond else "the best pair is bracketed"
        enough = (
            f"the best {len(few)} have run with every seed" if after is None else "one more seed would not change it"
        )
        return [], f"{found}, and {enough}; {len(losses)} runs where the whole grid has {whole}{beyond}", best

    def _beyond(self, pair: tuple[float, float]) -> str:
        """Words where the best pair of the climb has the smallest or the largest rate."""
        if pair[1] not in (min(self.rates), max(self.rates)):
            return ""
        which = "largest" if pair[1] == max(self.rates) else "smallest"
        return f"; the best pair has the {which} rate, and the best may lie beyond it (--extend with more --rates)"

    def arms_next(self, losses: Losses) -> tuple[list[Cell], int]:
        """The runs of untied pairs: each climbs over the rates with the first seed, then its best has the others.

        Also at most how many are left.
        """
        wanted, left = [], 0
        for arm in self.arms:
            own = {cell: loss for cell, loss in losses.items() if cell.beta == arm and cell.seed == self.seeds[0]}
            first = {cell.rate: loss for cell, loss in own.items() if cell.rate is not None}
            rates, best = bracketing(self.rates, own_rate(self.rates), first)
            again = [Cell(arm, seed, best) for seed in self.seeds[1:]]
            waiting = [cell for cell in again if cell not in losses]
            wanted += [Cell(arm, self.seeds[0], rate) for rate in rates] or waiting
            left += len(self.rates) - len(first) + len(again) if rates else len(waiting)
        return wanted, left


def settled(losses: Sequence[Sequence[float]]) -> bool:
    """Whether one more seed for each beta would leave the best one best; `losses` has one row of seeds per beta.

    The seeds' spread is pooled over the betas; 4.54 is Student's 99 % point for three betas with two seeds.

    >>> settled([[1.00, 1.01], [1.30, 1.31]]), settled([[1.00, 1.20], [1.05, 1.15]])
    (True, False)
    """
    rows = [row for row in losses if all(map(math.isfinite, row))]
    if len(rows) < 2:
        return True
    seeds = len(rows[0])
    spread = math.fsum((loss - mean(row)) ** 2 for row in rows for loss in row) / (len(rows) * (seeds - 1))
    best, second = sorted(map(mean, rows))[:2]
    return (seeds + 1) * (second - best) >= 4.54 * math.sqrt(2 * spread)


def _pairs(losses: Losses, seed: int) -> dict[Pair, float]:
    """The losses of one seed by (beta, rate)."""
    own = [(cell, loss) for cell, loss in losses.items() if cell.seed == seed]
    return {(c.beta, c.rate): loss for c, loss in own if isinstance(c.beta, float) and c.rate is not None}


def _neighbours(betas: Sequence[float], beta: float) -> Sequence[float]:
    """`beta` and the value on either side of it, where the grid has one."""
    middle = betas.index(beta)
    return betas[max(middle - 1, 0) : middle + 2]
