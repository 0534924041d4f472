"""The adaptive protocol: few runs to the best beta, or to the best pair of beta and learning rate.

With two axes the first seed climbs. The four neighbours of the best pair so far run; the climb moves to a better one
and continues. If none is better, the four diagonal neighbours run too: the best beta moves with the learning rate, so a
valley may lie diagonally. The best pair is bracketed when all eight around it are worse, or the grid ends there. Then
the best few pairs get the other seeds, until one more would not change the choice. Two kinds of pairs join them: the
best pair of the recommended beta, because people ask what that beta costs, and every pair whose first seed is below the
best mean, because it has had one seed only and might be better. If the choice moves to a pair whose eight neighbours
have not all run, the missing ones run too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

from oneclock.rule import nearest_beta, rule_from
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import KINDS, Losses, Protocol, Step, mean, protocol_from, ranked

Pair = tuple[float, float]
"""(beta, learning rate)."""

FEW = 4
"""How many pairs get more seeds: the best ones of the first seed."""

BEGIN = "sqrt:7"
"""The rule at whose beta a new study begins to climb, in its text form."""

BEGAN = "piecewise:6000,0"
"""The rule for older studies, which did not record where they began."""

BASELINE_LRS = 2
"""At most this many learning rates of an untied pair get every seed."""


@dataclass(frozen=True)
class Adaptive(Protocol):
    """Find the best beta with few runs: climb from the recommended beta until the best is bracketed, then more seeds.

    It stops when one more seed would change the choice with a chance of less than about one in a hundred, when the
    seeds are spent, or at `max_runs`.

    Args:
        max_runs: How many tied runs it may spend; by default 10, with learning rates 36.
        learning_rates: Learning rates, or factors on an experiment's own: it then looks for the best pair.
        begin: The rule that gives the first beta, in its text form. A study keeps its own rule.
        extra_betas: Betas that were added to the study: each runs with the first seed, independent of the climb.
    """

    max_runs: int | None = None
    learning_rates: tuple[float, ...] = ()
    begin: str = BEGIN
    extra_betas: tuple[float, ...] = ()

    kind: ClassVar[str] = "adaptive"

    @property
    def limit(self) -> int:
        """How many tied runs it may use."""
        return (self.max_runs or (36 if self.learning_rates else 10)) + len(self.extra_betas)

    def start(self, budget: int) -> float:
        """Where the climb begins: the beta that is recommended for `budget` steps, or was when the study began."""
        return nearest_beta(rule_from(self.begin)(budget), self.betas)

    def step(self, losses: Losses, base: RunKey) -> Step:
        tied = {key: loss for key, loss in losses.items() if isinstance(key.beta, float)}
        left = self.limit - len(tied)
        lr = own_lr(self.learning_rates) if self.learning_rates else None
        if extra := [key for beta in self.extra_betas if (key := base.at(beta, self.seeds[0], lr)) not in tied]:
            return Step(tuple(extra), max(left, len(extra)))
        if self.learning_rates:
            wanted, reason = self._step_pairs(tied, base)
        else:
            wanted, reason = self._climb(tied, base) or self._repeat(tied, base)
        keys = [key for key in wanted if key not in tied][: max(left, 0)]
        if keys:
            return Step(tuple(keys), left)
        return Step((), 0, reason if not wanted else f"{self.limit} runs are spent (max_runs)")

    def _climb(self, losses: Losses, base: RunKey) -> tuple[list[RunKey], str] | None:
        """The runs that bracket the best beta with the first seed, or None once it is bracketed."""
        betas, seed = sorted(self.betas), self.seeds[0]
        first = {beta: losses[base.at(beta, seed)] for beta in betas if base.at(beta, seed) in losses}
        start = self.start(base.budget)
        around: Sequence[float] = sorted(_near(betas, start), key=lambda beta: (beta != start, beta))
        if all(
            beta in first for beta in around
        ):  # the slope is known only then, whatever the order in which runs ended
            if not any(map(math.isfinite, first.values())):
                return [], f"none of {len(first)} betas around the rule's choice ended with a finite loss"
            around = _near(betas, ranked(first)[0])
        return ([base.at(beta, seed) for beta in around], "") if any(beta not in first for beta in around) else None

    def _repeat(self, losses: Losses, base: RunKey) -> tuple[list[RunKey], str]:
        """The next seed for the best three, until more seeds would not change the choice."""
        first = {key.beta: loss for key, loss in losses.items() if key.seed == self.seeds[0]}
        three = [beta for beta in ranked(first)[:3] if math.isfinite(first[beta])]
        for index, seed in enumerate(self.seeds[1:], start=1):
            spent = {beta: [losses[base.at(beta, s)] for s in self.seeds[:index]] for beta in three}
            if index >= 2 and settled(list(spent.values())):
                return [], f"one more seed would not change the choice ({index} seeds for each of the best three)"
            wanted = [base.at(beta, seed) for beta in ranked({beta: mean(values) for beta, values in spent.items()})]
            if any(key not in losses for key in wanted):
                return wanted, ""
        return [], f"the best is bracketed and the best {len(three)} have run with every seed"

    def _step_pairs(self, losses: Losses, base: RunKey) -> tuple[list[RunKey], str]:
        """The runs that bracket the best pair with the first seed; then seeds for the best few, and what these ask for.

        The neighbours of the best pair are used all together or not at all, so that the order in which runs end changes
        nothing.
        """
        seed, start = self.seeds[0], (self.start(base.budget), own_lr(self.learning_rates))
        first = _pairs(losses, seed)
        wanted, path, seen = climb(self.betas, self.learning_rates, start, first)
        if not wanted and not math.isfinite(first[path[-1]]):
            return [], f"none of {len(first)} pairs around the start ended with a finite loss"
        while not wanted:
            seen_losses = {pair: first[pair] for pair in seen}
            own = ranked({pair: loss for pair, loss in seen_losses.items() if pair[0] == start[0]})[:1]
            few = [pair for pair in dict.fromkeys(ranked(seen_losses)[:FEW] + own) if math.isfinite(seen_losses[pair])]
            turn = self._turn(losses, seen_losses, few, base)
            around = {*block(self.betas, self.learning_rates, turn.best)}
            if turn.keys or around <= seen:
                return turn.keys, self._bracketed(turn, len(losses))
            wanted = sorted(around - {*first})
            seen |= around
        return [base.at(beta, seed, lr) for beta, lr in wanted], ""

    def _turn(self, losses: Losses, first: Mapping[Pair, float], few: list[Pair], base: RunKey) -> _Turn:
        """The next seed for a `few` of the pairs in `first`, until one more would not change the choice.

        A pair whose first seed lies below the best mean joins them, because with more seeds it might be the best.
        """
        for count, after in enumerate((*self.seeds[1:], None), start=1):
            spent = {(beta, lr): [losses[base.at(beta, s, lr)] for s in self.seeds[:count]] for beta, lr in few}
            means = {pair: mean(values) for pair, values in spent.items()}
            best = ranked(means)[0]
            if after is None or (count >= 2 and settled(list(spent.values()))):
                break
            wanted = [base.at(beta, after, lr) for beta, lr in few]
            if any(key not in losses for key in wanted):
                return _Turn(wanted, best, len(few), False)
        below = [pair for pair in ranked(first) if pair not in few and first[pair] < means[best]]
        return self._turn(losses, first, few + below, base) if below else _Turn([], best, len(few), after is None)

    def _bracketed(self, turn: _Turn, runs: int) -> str:
        """Why there is nothing left to run."""
        beyond, whole = self._beyond(turn.best), len(self.betas) * len(self.learning_rates) * len(self.seeds)
        state = "no pair beside the best is better" if beyond else "the best pair is bracketed"
        every = f"{turn.few} pairs have run with every seed"
        enough = every if turn.every_seed else "one more seed would not change it"
        return f"{state}, and {enough}; {runs} runs where the whole grid has {whole}{beyond}"

    def _beyond(self, pair: tuple[float, float]) -> str:
        """A note if the best pair of the climb has the smallest or the largest learning rate."""
        if pair[1] not in (min(self.learning_rates), max(self.learning_rates)):
            return ""
        which = "largest" if pair[1] == max(self.learning_rates) else "smallest"
        return f"; the best pair has the {which} learning rate: extend the study by more, the best may lie beyond"

    def baselines_step(self, losses: Losses, base: RunKey) -> tuple[list[RunKey], int]:
        if not self.learning_rates:
            return super().baselines_step(losses, base)
        steps = [self._baseline_step(pair, losses, base) for pair in self.baselines]
        return [key for keys, _ in steps for key in keys], sum(left for _, left in steps)

    def as_data(self) -> dict[str, Any]:
        data = super().as_data()
        return {name: value for name, value in data.items() if (name, value) != ("begin", BEGAN)}

    def _baseline_step(self, baseline: tuple[float, float], losses: Losses, base: RunKey) -> tuple[list[RunKey], int]:
        """A climb over the learning rates with the first seed, then the other seeds for its best.

        And for a second learning rate, where its first seed lies below the mean of the best.
        """
        seed, *others = self.seeds
        first = {
            lr: losses[base.at(baseline, seed, lr)]
            for lr in self.learning_rates
            if base.at(baseline, seed, lr) in losses
        }
        lrs, best = bracketing(self.learning_rates, own_lr(self.learning_rates), first)
        if lrs:
            left = len(self.learning_rates) - len(first) + BASELINE_LRS * len(others)
            return [base.at(baseline, seed, one) for one in lrs], left
        few, keys = [best], [base.at(baseline, one, best) for one in others]
        if all(key in losses for key in keys):
            lowest = mean([first[best], *(losses[key] for key in keys)])
            few += [lr for lr in ranked(first) if lr != best and first[lr] < lowest][: BASELINE_LRS - 1]
            keys = [base.at(baseline, one, lr) for lr in few for one in others]
        waiting = [key for key in keys if key not in losses]
        more = (BASELINE_LRS - 1) * len(others) if len(few) == 1 and waiting else 0
        return waiting, len(waiting) + more


def recorded_protocol(values: Mapping[str, Any]) -> Protocol:
    """The protocol in a `study.json`; older versions did not record where the adaptive one began."""
    began = {"begin": BEGAN} if values.get("kind") == "adaptive" else {}
    return protocol_from(**began | dict(values))


class _Turn(NamedTuple):
    """The runs that some pairs need now, the best pair so far, the number of pairs, and whether every seed was used."""

    keys: list[RunKey]
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
    """The losses of one seed by (beta, learning rate)."""
    own = [(key, loss) for key, loss in losses.items() if key.seed == seed]
    return {(c.beta, c.lr): loss for c, loss in own if isinstance(c.beta, float) and c.lr is not None}


class Climb(NamedTuple):
    """The pairs to run next with the first seed (none once the best is bracketed), the path so far, and all requested
    pairs.
    """

    wanted: list[Pair]
    path: list[Pair]
    seen: set[Pair]


def climb(betas: Sequence[float], lrs: Sequence[float], start: Pair, losses: Mapping[Pair, float]) -> Climb:
    """How far the climb has come, by the losses of the first seed.

    The path moves only when all requested pairs have run, so it does not depend on the order in which runs end.

    >>> bowl = lambda pair: (pair[0] - 0.9) ** 2 + (pair[1] - 2) ** 2
    >>> losses, wanted = {}, [(0.5, 1)]
    >>> while wanted:
    ...     wanted, path, _ = climb([0.5, 0.9, 0.99], [1, 2, 4], (0.5, 1), losses)
    ...     losses |= {pair: bowl(pair) for pair in wanted}
    >>> path
    [(0.5, 1), (0.5, 2), (0.9, 2)]
    """
    path, seen = [start], {start}
    while True:
        for around in (_cross, block):
            seen |= {*around(betas, lrs, path[-1])}
            missing = sorted((pair for pair in seen if pair not in losses), key=lambda pair: (pair != start, pair))
            if missing:
                return Climb(missing, path, seen)
            best = min(seen, key=lambda pair: (_rank(losses[pair]), pair))
            if _rank(losses[best]) < _rank(losses[path[-1]]):
                path.append(best)
                break
        else:
            return Climb([], path, seen)


def bracketing(lrs: Sequence[float], start: float, losses: Mapping[float, float]) -> tuple[list[float], float]:
    """(the learning rates to run next, the best so far) for an untied pair of betas: the same climb over one axis.

    >>> bracketing([0.25, 0.5, 1, 2, 4], 1, {0.5: 3.0, 1: 2.0, 2: 1.0})
    ([4], 2)
    """
    wanted, path, _ = climb((0.0,), lrs, (0.0, start), {(0.0, lr): loss for lr, loss in losses.items()})
    return [lr for _, lr in wanted], path[-1][1]


def own_lr(lrs: Sequence[float]) -> float:
    """The user's own learning rate: a factor of 1 if it is among them, else the middle one.

    >>> own_lr([0.25, 0.5, 1.0, 2.0]), own_lr([1e-4, 3e-4, 1e-3])
    (1.0, 0.0003)
    """
    return 1.0 if 1.0 in lrs else sorted(lrs)[len(lrs) // 2]


def _cross(betas: Sequence[float], lrs: Sequence[float], pair: Pair) -> list[Pair]:
    beta, lr = pair
    return [(one, lr) for one in _near(betas, beta)] + [(beta, one) for one in _near(lrs, lr) if one != lr]


def block(betas: Sequence[float], lrs: Sequence[float], pair: Pair) -> list[Pair]:
    """The pair and all that are next to it, across both axes too.

    >>> block([0.5, 0.9, 0.99], [1, 2, 4], (0.5, 1))
    [(0.5, 1), (0.5, 2), (0.9, 1), (0.9, 2)]
    """
    return list(product(_near(betas, pair[0]), _near(lrs, pair[1])))


def _near(values: Sequence[float], value: float) -> Sequence[float]:
    """The value and its neighbours on either side."""
    ordered = sorted(values)
    index = ordered.index(value)
    return ordered[max(index - 1, 0) : index + 2]


def _rank(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


KINDS[Adaptive.kind] = Adaptive
