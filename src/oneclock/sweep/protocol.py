"""Which runs are next, given what is finished: pure functions, no files and no training.

A protocol is plain data. `next_step` looks at the losses so far and answers with the runs to do now, or with the
reason why there are none left. Nothing is remembered between calls: after a crash the same losses give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from oneclock import rule
from oneclock.study.identity import Beta
from oneclock.sweep.adaptive import BEGAN, Adaptive
from oneclock.sweep.cells import SEEDS, Cell, Losses, Step, mean, ranked

__all__ = ["SEEDS", "Adaptive", "Beta", "Cell", "Grid", "Losses", "Paper", "Protocol", "Step", "next_step"]


@dataclass(frozen=True)
class Grid:
    """Every beta with every seed, at every rate where rates are given.

    `again` are seeds that come last: every beta and arm runs with them at the rate that was its best with the others,
    so that they have chosen nothing. In all protocols `seeds` left empty are the target's own, and `arms` are untied
    pairs beside the sweep.
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    arms: tuple[tuple[float, float], ...] = ()
    rates: tuple[float, ...] = ()
    again: tuple[int, ...] = ()

    def step(self, losses: Losses, budget: int) -> Step:
        rates = self.rates or (None,)
        cells = [Cell(beta, seed, rate) for seed in self.seeds for rate in rates for beta in self.betas]
        betas: list[Beta] = [*self.betas, *self.arms]
        last = [cell for beta in betas for cell in self._last(beta, losses)]
        later = len(self.again) * len(betas) - len(last)
        return _remaining([*cells, *last], losses, later, f"all {len(cells) + len(last)} runs of the grid have ended")

    def _last(self, beta: Beta, losses: Losses) -> list[Cell]:
        """A beta's runs with the seeds that come again, at the rate of its lowest mean; none while that is open."""
        rates = self.rates or (None,)
        if any(Cell(beta, seed, rate) not in losses for rate in rates for seed in self.seeds):
            return []
        best, *_ = ranked({rate: mean([losses[Cell(beta, seed, rate)] for seed in self.seeds]) for rate in rates})
        return [Cell(beta, seed, best) for seed in self.again]


@dataclass(frozen=True)
class Paper:
    """The paper's sweep: every beta with the first seed, then `keep` betas with the other seeds.

    `second` says which: `top_k`, those with the best first-seed losses; `window`, contiguous values around the best; or
    `neighbours`, the contiguous values whose first-seed losses have the smallest sum, which are those that the paper's
    published losses have.
    """

    betas: tuple[float, ...] = rule.GRID
    seeds: tuple[int, ...] = ()
    second: Literal["top_k", "window", "neighbours"] = "top_k"
    keep: int = 5
    arms: tuple[tuple[float, float], ...] = ()

    def step(self, losses: Losses, budget: int) -> Step:
        first = [Cell(beta, self.seeds[0]) for beta in self.betas]
        found = {cell.beta: losses[cell] for cell in first if cell in losses and isinstance(cell.beta, float)}
        missing = len(first) - len(found)
        kept = self.kept(found) if not missing else self._certain(found, missing)
        second = [Cell(beta, seed) for seed in self.seeds[1:] for beta in kept]
        if missing:
            repeats = min(self.keep, len(self.betas)) * (len(self.seeds) - 1)
            done = sum(cell in losses for cell in second)
            runs = tuple(cell for cell in [*first, *second] if cell not in losses)
            return Step(runs, missing + repeats - done)
        return _remaining(second, losses, 0, f"{len(first)} betas have run, the best {len(kept)} with every seed")

    def _certain(self, found: Mapping[float, float], missing: int) -> list[float]:
        """The betas that get the other seeds whatever the runs still missing say: no worker need wait for those."""
        return self.kept(found)[: max(self.keep - missing, 0)] if self.second == "top_k" else []

    def kept(self, first: Mapping[float, float]) -> list[float]:
        """The betas that get the other seeds, from the first seed's losses."""
        best = [beta for beta in ranked(first) if math.isfinite(first[beta])]
        if self.second == "top_k" or not best:
            return best[: self.keep]
        betas = sorted(self.betas)
        lowest = max(min(betas.index(best[0]) - self.keep // 2, len(betas) - self.keep), 0)
        if self.second == "neighbours":
            sums = {at: math.fsum(first[beta] for beta in betas[at : at + self.keep]) for at in self._starts(first)}
            lowest = min(sums, key=sums.__getitem__, default=lowest)
        return betas[lowest:][: self.keep]

    def _starts(self, first: Mapping[float, float]) -> list[int]:
        """Where `keep` neighbours begin that all have a finite loss."""
        finite = [math.isfinite(first[beta]) for beta in sorted(self.betas)]
        return [at for at in range(len(finite) - self.keep + 1) if all(finite[at : at + self.keep])]


Protocol = Paper | Grid | Adaptive
KINDS: dict[str, type[Paper] | type[Grid] | type[Adaptive]] = {"paper": Paper, "grid": Grid, "adaptive": Adaptive}


def next_step(protocol: Protocol, losses: Losses, budget: int) -> Step:
    """The runs to do now, those of the untied arms first, or the reason why none are left.

    >>> step = next_step(Paper(), {}, budget=20_000)
    >>> len(step.runs), step.at_most
    (13, 23)
    >>> [cell.beta for cell in next_step(Adaptive(), {}, budget=20_000).runs]
    [0.94377, 0.9, 0.96838]
    """
    protocol = protocol if protocol.seeds else replace(protocol, seeds=SEEDS)
    rates = (protocol.rates if isinstance(protocol, Grid) else ()) or (None,)
    if isinstance(protocol, Adaptive) and protocol.rates:
        waiting, arms_at_most = protocol.arms_next(losses)
    else:
        arms = [Cell(arm, seed, rate) for arm in protocol.arms for rate in rates for seed in protocol.seeds]
        waiting = [cell for cell in arms if cell not in losses]
        arms_at_most = len(waiting)
    step = protocol.step(losses, budget)
    if not waiting:
        return step
    return Step((*waiting, *step.runs), arms_at_most + step.at_most)


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
        able = [name for name, one in KINDS.items() if {*foreign} <= {*one.__dataclass_fields__}]
        way = f"; use --protocol {' or '.join(able)}" if able else ""
        raise ValueError(f"protocol {kind!r} has no {', '.join(foreign)}; it has {', '.join(known)}{way}")
    if "arms" in values:
        values["arms"] = tuple((rule.checked_beta(one), rule.checked_beta(two)) for one, two in values["arms"])
    for name in {"betas", "seeds", "rates", "again"} & set(values):
        values[name] = tuple(values[name])
    protocol = KINDS[kind](**values)
    if not protocol.betas or values.get("seeds") == ():
        raise ValueError("a protocol needs at least one beta and one seed")
    _check_lists(protocol)
    _check_counts(protocol)
    return KINDS[kind](**values | {"betas": tuple(rule.checked_beta(beta) for beta in protocol.betas)})


def as_data(protocol: Protocol) -> dict[str, Any]:
    """The protocol as plain data, with its kind; `protocol_from(**as_data(p)) == p`.

    >>> protocol_from(**as_data(Paper())) == Paper()
    True
    """
    kind = next(name for name, cls in KINDS.items() if isinstance(protocol, cls))
    unset = ("seeds", "rates", "again", "max_runs")  # left out where they are left open
    plain = {name: value for name, value in asdict(protocol).items() if value or name not in unset}
    if plain.get("begin") == BEGAN:  # as studies have it that were begun before they said so
        del plain["begin"]
    return {"kind": kind} | plain


def joined(before: Mapping[str, Any], protocol: Protocol) -> Protocol:
    """The protocol with the betas, seeds, arms and rates that a study had `before`, as data, besides its own.

    >>> joined(as_data(Grid(betas=(0.9,))), Grid(betas=(0.992,))).betas
    (0.9, 0.992)
    """
    more: dict[str, Any] = {}
    for name in {"betas", "seeds", "arms", "rates", "again"} & set(asdict(protocol)):
        had = [tuple(one) if isinstance(one, list) else one for one in before.get(name) or ()]
        if had:
            own = () if name == "betas" and protocol.betas == rule.GRID else getattr(protocol, name)
            more[name] = tuple(sorted({*had, *own}))
    return replace(protocol, **more)


def _check_lists(protocol: Protocol) -> None:
    for name in ("betas", "seeds", "arms", "rates", "again"):
        given = getattr(protocol, name, ())
        if len(set(given)) != len(given):
            raise ValueError(f"{name} holds a value twice: {given}")
    if twice := set(protocol.seeds or SEEDS) & set(getattr(protocol, "again", ())):
        raise ValueError(f"seeds that come again must be others, got {sorted(twice)} twice")
    if not all(0 < rate < math.inf for rate in getattr(protocol, "rates", ())):
        raise ValueError(f"rates are finite numbers above 0, got {getattr(protocol, 'rates', ())}")


def _check_counts(protocol: Protocol) -> None:
    for name in ("keep", "max_runs"):
        if (getattr(protocol, name, None) or 1) < 1 or getattr(protocol, name, None) == 0:
            raise ValueError(f"{name} must be at least 1, got {getattr(protocol, name)}")
    if getattr(protocol, "second", "top_k") not in ("top_k", "window", "neighbours"):
        second = protocol.second  # type: ignore[union-attr]
        raise ValueError(f"second must be 'top_k', 'window' or 'neighbours', got {second!r}")


def _remaining(cells: Collection[Cell], losses: Losses, later: int, reason: str) -> Step:
    runs = tuple(cell for cell in cells if cell not in losses)
    return Step(runs, len(runs) + later, None if runs or later else reason)
