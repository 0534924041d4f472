"""The adaptive protocol: few runs to the best beta, or to the best pair of beta and learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oneclock import rule
from oneclock.sweep.cells import Cell, Losses, Step, mean, ranked
from oneclock.sweep.surface import FEW, Pair, block, bracketing, climb, own_rate

BEGIN = "bent:6000,0.2"
"""Where the climb of a new study begins: at what is recommended, as one types it."""

BEGAN = "bent:6000,0"
"""What was recommended when studies did not say where theirs began."""

ARM_RATES = 2
"""Rates of an untied pair that get every seed, at most."""


@dataclass(frozen=True)
class Adaptive:
    """Find the best beta with few runs: climb from the rule's choice until bracketed, then seeds for the best three.

    With `rates` it climbs over both axes to the best pair, from the user's own rate; `sweep/surface.py` says how. It
    stops when one more seed would change the choice with a chance of less than about one in a hundred, when the seeds
    are spent, or at `max_runs` (10, with rates 36). `begin` is the rule whose beta it starts from, as one types it: a
    study keeps its own when the recommendation changes.
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    max_runs: int | None = None
    arms: tuple[tuple[float, float], ...] = ()
    rates: tuple[float, ...] = ()
    begin: str = BEGIN

    @property
    def limit(self) -> int:
        """How many tied runs it may spend."""
        return self.max_runs or (36 if self.rates else 10)

    def start(self, budget: int) -> float:
        """Where the climb begins: the beta that is recommended for `budget` steps, or was when the study began."""
        return rule.nearest_beta(rule.rule_from(self.begin)(budget), self.betas)

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
            found = {pair: first[pair] for pair in seen}
            own = ranked({pair: loss for pair, loss in found.items() if pair[0] == start[0]})[:1]
            few = [pair for pair in dict.fromkeys(ranked(found)[:FEW] + own) if math.isfinite(found[pair])]
            turn = self._turn(losses, found, few)
            around = {*block(self.betas, self.rates, turn.best)}
            if turn.cells or around <= seen:
                return turn.cells, self._bracketed(turn, len(losses))
            wanted = sorted(around - {*first})
            seen |= around
        return [Cell(beta, seed, rate) for beta, rate in wanted], ""

    def _turn(self, losses: Losses, first: Mapping[Pair, float], few: list[Pair]) -> _Turn:
        """The next seed for a `few` of the pairs in `first`, until one more would not change the choice.

        A pair whose first seed lies below the best mean joins them: what has one seed only might be the better one.
        """
        for count, after in enumerate((*self.seeds[1:], None), start=1):
            spent = {(beta, rate): [losses[Cell(beta, s, rate)] for s in self.seeds[:count]] for beta, rate in few}
            means = {pair: mean(values) for pair, values in spent.items()}
            best = ranked(means)[0]
            if after is None or (count >= 2 and settled(list(spent.values()))):
                break
            wanted = [Cell(beta, after, rate) for beta, rate in few]
            if any(cell not in losses for cell in wanted):
                return _Turn(wanted, best, len(few), False)
        below = [pair for pair in ranked(first) if pair not in few and first[pair] < means[best]]
        return self._turn(losses, first, few + below) if below else _Turn([], best, len(few), after is None)

    def _bracketed(self, turn: _Turn, runs: int) -> str:
        """Why there is nothing left to run."""
        beyond, whole = self._beyond(turn.best), len(self.betas) * len(self.rates) * len(self.seeds)
        found = "no pair beside the best is better" if beyond else "the best pair is bracketed"
        every = f"{turn.few} pairs have run with every seed"
        enough = every if turn.every_seed else "one more seed would not change it"
        return f"{found}, and {enough}; {runs} runs where the whole grid has {whole}{beyond}"

    def _beyond(self, pair: tuple[float, float]) -> str:
        """Words where the best pair of the climb has the smallest or the largest rate."""
        if pair[1] not in (min(self.rates), max(self.rates)):
            return ""
        which = "largest" if pair[1] == max(self.rates) else "smallest"
        return f"; the best pair has the {which} rate, and the best may lie beyond it (--extend with more --rates)"

    def arms_next(self, losses: Losses) -> tuple[list[Cell], int]:
        """The runs of untied pairs, and at most how many are left."""
        found = [self._arm_next(arm, losses) for arm in self.arms]
        return [cell for cells, _ in found for cell in cells], sum(left for _, left in found)

    def _arm_next(self, arm: tuple[float, float], losses: Losses) -> tuple[list[Cell], int]:
        """A climb over the rates with the first seed, then the other seeds for its best.

        And for a second rate, where its first seed lies below the mean of the best.
        """
        seed, *others = self.seeds
        first = {rate: losses[Cell(arm, seed, rate)] for rate in self.rates if Cell(arm, seed, rate) in losses}
        rates, best = bracketing(self.rates, own_rate(self.rates), first)
        if rates:
            return [Cell(arm, seed, one) for one in rates], len(self.rates) - len(first) + ARM_RATES * len(others)
        few, cells = [best], [Cell(arm, one, best) for one in others]
        if all(cell in losses for cell in cells):
            lowest = mean([first[best], *(losses[cell] for cell in cells)])
            few += [rate for rate in ranked(first) if rate != best and first[rate] < lowest][: ARM_RATES - 1]
            cells = [Cell(arm, one, rate) for rate in few for one in others]
        waiting = [cell for cell in cells if cell not in losses]
        more = (ARM_RATES - 1) * len(others) if len(few) == 1 and waiting else 0
        return waiting, len(waiting) + more


class _Turn(NamedTuple):
    """Runs that some pairs need now, the best of them so far, how many they are, and whether every seed is spent."""

    cells: list[Cell]
    best: Pair
    few: int
    every_seed: bool


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
