"""Which runs are next, given what is finished: pure functions, no files and no training.

A protocol is plain data. `next_step` looks at the losses so far and answers with the runs to do now, or with the
reason why there are none left. Nothing is remembered between calls: after a crash the same losses give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from oneclock import rule
from oneclock.study.identity import Beta

SEEDS = (1, 2, 3)
"""The seeds of a target that does not say its own."""


@dataclass(frozen=True)
class Cell:
    """One run of a protocol: a tied beta (or an untied pair, a baseline arm), a seed, and a rate where it is swept."""

    beta: Beta
    seed: int
    rate: float | None = None


Losses = Mapping[Cell, float]
"""Best validation loss of every run that ended, lower is better: inf where it diverged, NaN where it failed."""


@dataclass(frozen=True)
class Step:
    """What to do now: `runs`, or none and the `reason` why the protocol is done.

    `at_most` bounds how many runs are left, these included.
    """

    runs: tuple[Cell, ...]
    at_most: int
    reason: str | None = None


@dataclass(frozen=True)
class Grid:
    """Every beta with every seed, at every rate where rates are given.

    In all protocols `seeds` left empty are the target's own, and `arms` are untied pairs beside the sweep.
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    arms: tuple[tuple[float, float], ...] = ()
    rates: tuple[float, ...] = ()

    def step(self, losses: Losses, budget: int) -> Step:
        rates = self.rates or (None,)
        cells = [Cell(beta, seed, rate) for seed in self.seeds for rate in rates for beta in self.betas]
        return _remaining(cells, losses, 0, f"all {len(cells)} runs of the grid have ended")


@dataclass(frozen=True)
class Paper:
    """The paper's sweep: every beta with the first seed, then `keep` betas with the other seeds.

    `second` says which: `top_k`, those with the best first-seed losses, or `window`, contiguous values around the best.
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    second: Literal["top_k", "window"] = "top_k"
    keep: int = 5
    arms: tuple[tuple[float, float], ...] = ()

    def step(self, losses: Losses, budget: int) -> Step:
        first = [Cell(beta, self.seeds[0]) for beta in self.betas]
        repeats = min(self.keep, len(self.betas)) * (len(self.seeds) - 1)
        if any(cell not in losses for cell in first):
            return _remaining(first, losses, repeats, "")
        kept = self.kept({cell.beta: losses[cell] for cell in first if isinstance(cell.beta, float)})
        second = [Cell(beta, seed) for seed in self.seeds[1:] for beta in kept]
        return _remaining(second, losses, 0, f"{len(first)} betas have run, the best {len(kept)} with every seed")

    def kept(self, first: Mapping[float, float]) -> list[float]:
        """The betas that get the other seeds, from the first seed's losses."""
        ranked = [beta for beta in _ranked(first) if math.isfinite(first[beta])]
        if self.second == "top_k" or not ranked:
            return ranked[: self.keep]
        betas = sorted(self.betas)
        lowest = min(betas.index(ranked[0]) - self.keep // 2, len(betas) - self.keep)
        return betas[max(lowest, 0) :][: self.keep]


@dataclass(frozen=True)
class Adaptive:
    """Find the best beta with few runs: climb from the rule's choice until bracketed, then seeds for the best three.

    Stops when one more seed would change the choice with a chance of less than about one in a hundred, when the seeds
    are spent, or at `max_runs`.
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    max_runs: int = 10
    arms: tuple[tuple[float, float], ...] = ()

    def start(self, budget: int) -> float:
        """Where the climb begins: the beta that is recommended for `budget` steps."""
        return rule.nearest_beta(rule.beta_for(budget), self.betas)

    def step(self, losses: Losses, budget: int) -> Step:
        tied = {cell: loss for cell, loss in losses.items() if isinstance(cell.beta, float)}
        left = self.max_runs - len(tied)
        wanted, reason = self._climb(tied, budget) or self._repeat(tied)
        cells = [cell for cell in wanted if cell not in tied][: max(left, 0)]
        if cells:
            return Step(tuple(cells), left)
        return Step((), 0, reason if not wanted else f"{self.max_runs} runs are spent (max_runs)")

    def _climb(self, losses: Losses, budget: int) -> tuple[list[Cell], str] | None:
        """The runs that bracket the best beta with the first seed, or None once it is bracketed."""
        betas, seed = sorted(self.betas), self.seeds[0]
        first = {beta: losses[Cell(beta, seed)] for beta in betas if Cell(beta, seed) in losses}
        around = _neighbours(betas, self.start(budget))
        if all(beta in first for beta in around):  # only then is there a slope to follow, however the runs came in
            if not any(map(math.isfinite, first.values())):
                return [], f"none of {len(first)} betas around the rule's choice ended with a finite loss"
            around = _neighbours(betas, _ranked(first)[0])
        return ([Cell(beta, seed) for beta in around], "") if any(beta not in first for beta in around) else None

    def _repeat(self, losses: Losses) -> tuple[list[Cell], str]:
        """The next seed for the best three, until more seeds would not change the choice."""
        first = {cell.beta: loss for cell, loss in losses.items() if cell.seed == self.seeds[0]}
        three = [beta for beta in _ranked(first)[:3] if math.isfinite(first[beta])]
        for index, seed in enumerate(self.seeds[1:], start=1):
            spent = {beta: [losses[Cell(beta, s)] for s in self.seeds[:index]] for beta in three}
            if index >= 2 and settled(list(spent.values())):
                return [], f"one more seed would not change the choice ({index} seeds for each of the best three)"
            wanted = [Cell(beta, seed) for beta in _ranked({beta: _mean(values) for beta, values in spent.items()})]
            if any(cell not in losses for cell in wanted):
                return wanted, ""
        return [], f"the best is bracketed and the best {len(three)} have run with every seed"


Protocol = Paper | Grid | Adaptive
KINDS: dict[str, type[Paper] | type[Grid] | type[Adaptive]] = {"paper": Paper, "grid": Grid, "adaptive": Adaptive}


def next_step(protocol: Protocol, losses: Losses, budget: int) -> Step:
    """The runs to do now, those of the untied arms first, or the reason why none are left.

    >>> step = next_step(Paper(), {}, budget=20_000)
    >>> len(step.runs), step.at_most
    (13, 23)
    >>> [cell.beta for cell in next_step(Adaptive(), {}, budget=20_000).runs]
    [0.9, 0.94377, 0.96838]
    """
    protocol = protocol if protocol.seeds else replace(protocol, seeds=SEEDS)
    rates = (protocol.rates if isinstance(protocol, Grid) else ()) or (None,)
    arms = [Cell(arm, seed, rate) for arm in protocol.arms for rate in rates for seed in protocol.seeds]
    waiting = tuple(cell for cell in arms if cell not in losses)
    step = protocol.step(losses, budget)
    if not waiting:
        return step
    return Step(waiting + step.runs, len(waiting) + step.at_most)


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
    spread = math.fsum((loss - _mean(row)) ** 2 for row in rows for loss in row) / (len(rows) * (seeds - 1))
    best, second = sorted(map(_mean, rows))[:2]
    return (seeds + 1) * (second - best) >= 4.54 * math.sqrt(2 * spread)


def protocol_from(kind: str, **values: Any) -> Protocol:
    """The protocol of that name, its values checked.

    >>> protocol_from("adaptive", max_runs=7).max_runs
    7
    """
    if kind not in KINDS:
        raise ValueError(f"there is no protocol {kind!r}; choose one of {', '.join(KINDS)}")
    known = KINDS[kind].__dataclass_fields__
    foreign = [name for name in values if name not in known]
    if foreign:
        raise ValueError(f"protocol {kind!r} has no {', '.join(foreign)}; it has {', '.join(known)}")
    if "arms" in values:
        values["arms"] = tuple((rule.checked_beta(one), rule.checked_beta(two)) for one, two in values["arms"])
    for name in {"betas", "seeds", "rates"} & set(values):
        values[name] = tuple(values[name])
    protocol = KINDS[kind](**values)
    if not protocol.betas or values.get("seeds") == ():
        raise ValueError("a protocol needs at least one beta and one seed")
    for name in ("betas", "seeds", "arms", "rates"):
        given = getattr(protocol, name, ())
        if len(set(given)) != len(given):
            raise ValueError(f"{name} holds a value twice: {given}")
    if not all(0 < rate < math.inf for rate in getattr(protocol, "rates", ())):
        raise ValueError(f"rates are finite numbers above 0, got {getattr(protocol, 'rates', ())}")
    _check_counts(protocol)
    return KINDS[kind](**values | {"betas": tuple(rule.checked_beta(beta) for beta in protocol.betas)})


def as_data(protocol: Protocol) -> dict[str, Any]:
    """The protocol as plain data, with its kind; `protocol_from(**as_data(p)) == p`.

    >>> protocol_from(**as_data(Paper())) == Paper()
    True
    """
    kind = next(name for name, cls in KINDS.items() if isinstance(protocol, cls))
    unset = ("seeds", "rates")  # left out where they are left open
    return {"kind": kind} | {name: value for name, value in asdict(protocol).items() if value or name not in unset}


def joined(before: Mapping[str, Any], protocol: Protocol) -> Protocol:
    """The protocol with the betas, seeds, arms and rates that a study had `before`, as data, besides its own.

    >>> joined(as_data(Grid(betas=(0.9,))), Grid(betas=(0.992,))).betas
    (0.9, 0.992)
    """
    more: dict[str, Any] = {}
    for name in {"betas", "seeds", "arms", "rates"} & set(asdict(protocol)):
        had = [tuple(one) if isinstance(one, list) else one for one in before.get(name) or ()]
        if had:
            own = () if name == "betas" and protocol.betas == rule.GRID else getattr(protocol, name)
            more[name] = tuple(sorted({*had, *own}))
    return replace(protocol, **more)


def _check_counts(protocol: Protocol) -> None:
    for name in ("keep", "max_runs"):
        if getattr(protocol, name, 1) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(protocol, name)}")
    if getattr(protocol, "second", "top_k") not in ("top_k", "window"):
        raise ValueError(f"second must be 'top_k' or 'window', got {protocol.second!r}")  # type: ignore[union-attr]


def _remaining(cells: Collection[Cell], losses: Losses, later: int, reason: str) -> Step:
    runs = tuple(cell for cell in cells if cell not in losses)
    return Step(runs, len(runs) + later, None if runs or later else reason)


def _neighbours(betas: Sequence[float], beta: float) -> Sequence[float]:
    """`beta` and the value on either side of it, where the grid has one."""
    middle = betas.index(beta)
    return betas[max(middle - 1, 0) : middle + 2]


def _ranked(losses: Mapping[Any, float]) -> list[Any]:
    """Betas from the best loss to the worst; what has no finite loss comes last, a tie goes to the smaller beta."""
    return sorted(losses, key=lambda beta: (losses[beta] if math.isfinite(losses[beta]) else math.inf, beta))


def _mean(values: Sequence[float]) -> float:
    kept = [value for value in values if not math.isnan(value)]
    return math.fsum(kept) / len(kept) if kept else math.nan
