"""The adaptive protocol: few runs to the best beta, or to the best pair of beta and learning rate.

The first seed climbs: the neighbours of the best pair so far run, and the climb moves to a better one. If none is
better, the diagonal neighbours run too, because the best beta moves with the learning rate. The best pair is bracketed
when all around it are worse, or the grid ends there. Then the best few get the other seeds.

Over learning rates, two kinds of pairs join the best few: the best pair of the recommended beta, because people ask
what that beta costs, and every pair whose first seed is below the best mean, because it might be better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

from oneclock.rule import nearest_beta, resolve_rule
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import KINDS, Losses, Protocol, Step, finite_or_inf, mean, protocol_from, ranked

Pair = tuple[Any, Any]
"""(beta, learning rate); the learning rate is None where none are swept."""

FEW_BETAS, FEW_PAIRS = 3, 4
"""How many get more seeds: the best ones of the first seed."""

BEGIN, BEGAN = "sqrt:7", "piecewise:6000,0"
"""The rules at whose beta a new study begins to climb, and an older one, which did not record where it began."""


@dataclass(frozen=True)
class Adaptive(Protocol):
    """Find the best beta with few runs: climb from the recommended beta until the best is bracketed, then more seeds.

    It stops when one more seed would change the choice with a chance of less than about one in a hundred, when the
    seeds are spent, or at `max_runs`.

    Args:
        max_runs: How many tied runs it may spend; by default 10, with learning rates 36.
        learning_rates: Learning rates, or factors on an experiment's own: it then looks for the best pair.
        begin: The rule that gives the first beta, in its text form. A study keeps its own rule.
        extra_betas: Betas that were added to the study: each runs with the first seed before the climb.
    """

    max_runs: int | None = None
    learning_rates: tuple[float, ...] = ()
    begin: str = BEGIN
    extra_betas: tuple[float, ...] = ()

    kind: ClassVar[str] = "adaptive"

    def start(self, budget: int) -> float:
        """Where the climb begins: the beta that is recommended for `budget` steps, or was when the study began."""
        return nearest_beta(resolve_rule(self.begin)(budget), self.betas)

    def step(self, losses: Losses, base: RunKey) -> Step:
        tied = {key: loss for key, loss in losses.items() if isinstance(key.beta, float)}
        limit = (self.max_runs or (36 if self.learning_rates else 10)) + len(self.extra_betas)
        left, lr = limit - len(tied), own_lr(self.lrs)
        if extra := [key for beta in self.extra_betas if (key := base.at(beta, self.seeds[0], lr)) not in tied]:
            return Step(tuple(extra), max(left, len(extra)))
        wanted, reason = self._next(tied, base, (self.start(base.budget), lr))
        keys = [key for key in wanted if key not in tied][: max(left, 0)]
        if keys:
            return Step(tuple(keys), left)
        return Step((), 0, reason if not wanted else f"{limit} runs are spent (max_runs)")

    def _next(self, losses: Losses, base: RunKey, start: Pair) -> tuple[list[RunKey], str]:
        """The runs that bracket the best pair with the first seed; then seeds for the best few, and what these ask for.

        The neighbours of the best pair count all together or not at all: the order in which runs end changes nothing.
        """
        seed = self.seeds[0]
        first = {(key.beta, key.lr): loss for key, loss in losses.items() if key.seed == seed}
        extra = [(beta, start[1]) for beta in self.extra_betas]
        wanted, path, seen = climb(self.betas, self.lrs, start, first, extra)
        if not wanted and not math.isfinite(first[path[-1]]):
            return [], f"none of {len(first)} runs around the start ended with a finite loss"
        while not wanted:
            by_pair = {pair: first[pair] for pair in seen}
            few = ranked(by_pair)[: FEW_PAIRS if self.learning_rates else FEW_BETAS]
            if self.learning_rates:
                few += ranked({pair: loss for pair, loss in by_pair.items() if pair[0] == start[0]})[:1]
            few = [pair for pair in dict.fromkeys(few) if math.isfinite(first[pair])]
            turn = self._turn(losses, by_pair, few, base)
            around = {*block(self.betas, self.lrs, turn.best)} if self.learning_rates else set()
            if turn.keys or around <= seen:
                return turn.keys, self._reason(turn, len(losses))
            wanted = sorted(around - {*first})
            seen |= around
        return [base.at(beta, seed, lr) for beta, lr in wanted], ""

    def _turn(self, losses: Losses, first: Mapping[Pair, float], few: list[Pair], base: RunKey) -> _Turn:
        """The next seed for a `few` of the pairs in `first`, until one more would not change the choice."""
        for count, after in enumerate((*self.seeds[1:], None), start=1):
            spent = {pair: [losses[base.at(pair[0], s, pair[1])] for s in self.seeds[:count]] for pair in few}
            means = {pair: mean(values) for pair, values in spent.items()}
            best, *_ = order = ranked(means)
            if after is None or (count >= 2 and settled(list(spent.values()))):
                break
            wanted = [base.at(beta, after, lr) for beta, lr in order]
            if any(key not in losses for key in wanted):
                return _Turn(wanted, best, len(few), False)
        below = [pair for pair in ranked(first) if pair not in few and first[pair] < means[best]]
        if below and self.learning_rates:
            return self._turn(losses, first, few + below, base)
        return _Turn([], best, len(few), after is None)

    def _reason(self, turn: _Turn, runs: int) -> str:
        """Why there is nothing left to run."""
        state, beyond, lr = "the best is bracketed", "", turn.best[1]
        if self.learning_rates and lr in (min(self.learning_rates), max(self.learning_rates)):
            which = "largest" if lr == max(self.learning_rates) else "smallest"
            state = "no neighbour of the best is better"
            beyond = f"; the best has the {which} learning rate: extend the study by more, the best may lie beyond"
        every = f"the best {turn.few} have run with every seed"
        grid = len(self.betas) * len(self.lrs) * len(self.seeds)
        enough = every if turn.every_seed else "one more seed would not change it"
        return f"{state}, and {enough}; {runs} runs where the whole grid has {grid}{beyond}"

    def baselines_step(self, losses: Losses, base: RunKey) -> tuple[list[RunKey], int]:
        if not self.learning_rates:
            return super().baselines_step(losses, base)
        steps = [self._baseline_step(pair, losses, base) for pair in self.baselines]
        return [key for keys, _ in steps for key in keys], sum(left for _, left in steps)

    def _baseline_step(self, baseline: tuple[float, float], losses: Losses, base: RunKey) -> tuple[list[RunKey], int]:
        """A climb over the learning rates with the first seed, then the other seeds for its best.

        And for a second learning rate, where its first seed lies below the mean of the best.
        """
        seed, *others = self.seeds
        first = {key.lr: loss for key, loss in losses.items() if (key.beta, key.seed) == (baseline, seed)}
        known = {(baseline, lr): loss for lr, loss in first.items()}
        wanted, path, _ = climb((baseline,), self.lrs, (baseline, own_lr(self.lrs)), known)
        if wanted:
            return [base.at(baseline, seed, lr) for _, lr in wanted], len(self.lrs) - len(first) + 2 * len(others)
        best = path[-1][1]
        keys = [base.at(baseline, one, best) for one in others]
        second: list[float | None] = []
        if all(key in losses for key in keys):
            lowest = mean([first[best], *(losses[key] for key in keys)])
            second = [lr for lr in ranked(first) if lr != best and first[lr] < lowest][:1]
            keys += [base.at(baseline, one, lr) for lr in second for one in others]
        waiting = [key for key in keys if key not in losses]
        return waiting, len(waiting) + (len(others) if waiting and not second else 0)


def recorded_protocol(values: Mapping[str, Any]) -> Protocol:
    """The protocol in a `study.json`."""
    began = {"begin": BEGAN} if values.get("kind") == "adaptive" else {}
    return protocol_from(**began | dict(values))


class _Turn(NamedTuple):
    """The runs that some pairs need now, the best pair so far, the number of pairs, and whether every seed was used."""

    keys: list[RunKey]
    best: Pair
    few: int
    every_seed: bool


def settled(losses: Sequence[Sequence[float]]) -> bool:
    """Whether one more seed for each beta (a row of `losses`) would leave the best one best.

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


class Climb(NamedTuple):
    """The pairs to run next (none once the best is bracketed), the path so far, and all requested pairs."""

    wanted: list[Pair]
    path: list[Pair]
    seen: set[Pair]


def climb(
    betas: Sequence[Any], lrs: Sequence[Any], start: Pair, losses: Mapping[Pair, float], extra: Iterable[Pair] = ()
) -> Climb:
    """How far the climb has come, by the losses of the first seed; pairs in `extra` have run, and count from the start.

    The path moves only when all requested pairs have run, so it does not depend on the order in which runs end.
    """
    path, seen = [start], {start, *extra}
    while True:
        whole = block(betas, lrs, path[-1])
        for around in ([pair for pair in whole if pair[0] == path[-1][0] or pair[1] == path[-1][1]], whole):
            seen |= {*around}
            missing = sorted((pair for pair in seen if pair not in losses), key=lambda pair: (pair != start, pair))
            if missing:
                return Climb(missing, path, seen)
            best, *_ = ranked({pair: losses[pair] for pair in seen})
            if finite_or_inf(losses[best]) < finite_or_inf(losses[path[-1]]):
                path.append(best)
                break
        else:
            return Climb([], path, seen)


def own_lr(lrs: Sequence[Any]) -> float | None:
    """The user's own learning rate: a factor of 1 if it is among them, else the middle one."""
    return 1.0 if 1.0 in lrs else sorted(lrs)[len(lrs) // 2]


def block(betas: Sequence[Any], lrs: Sequence[Any], pair: Pair) -> list[Pair]:
    """The pair and all that are next to it, across both axes too.

    >>> block([0.5, 0.9, 0.99], [1, 2, 4], (0.5, 1))
    [(0.5, 1), (0.5, 2), (0.9, 1), (0.9, 2)]
    """
    return list(product(_near(betas, pair[0]), _near(lrs, pair[1])))


def _near(values: Sequence[Any], value: Any) -> list[Any]:
    ordered = sorted(values)
    index = ordered.index(value)
    return ordered[max(index - 1, 0) : index + 2]


KINDS[Adaptive.kind] = Adaptive
