"""Which runs are next, given the losses of the ended ones: pure functions, without files or training.

Nothing is remembered between calls: after a crash the same losses give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeVar

from oneclock.rule import GRID, checked_beta
from oneclock.runs.key import Beta, RunKey, plain_float, plain_int

SEEDS = (1, 2, 3)
"""The seeds of a target without seeds of its own."""

BASELINES = ((0.9, 0.999), (0.9, 0.95))
"""What people use today: torch's default betas, and the usual betas of language models."""

Losses = Mapping[RunKey, float]
"""Best validation loss of every run that ended, lower is better: inf if it diverged, NaN if it failed."""

OLD_NAMES = dict(arms="baselines", rates="learning_rates", again="held_out_seeds", second="second_stage", keep="top_k")
"""Names in the files of older studies -> their present names."""


@dataclass(frozen=True)
class Step:
    """The `runs` to do now, or none and the `reason` why; at most `at_most` are left, these included."""

    runs: tuple[RunKey, ...]
    at_most: int
    reason: str | None = None


@dataclass(frozen=True)
class Protocol:
    """What all protocols have: the betas, the seeds, and the baselines beside them.

    Args:
        betas: The tied betas to sweep.
        seeds: The seeds; left empty, the target's own.
        baselines: Untied pairs (beta1, beta2) that run beside the sweep with every seed.
    """

    betas: tuple[float, ...] = GRID
    seeds: tuple[int, ...] = ()
    baselines: tuple[tuple[float, float], ...] = ()

    kind: ClassVar[str]

    def step(self, losses: Losses, base: RunKey) -> Step:
        """The tied runs to do now; `base` gives their experiment and budget."""
        raise NotImplementedError

    @property
    def lrs(self) -> Sequence[float | None]:
        """The learning rates; a None stands for the experiment's own."""
        return getattr(self, "learning_rates", ()) or (None,)

    def baselines_step(self, losses: Losses, base: RunKey) -> tuple[list[RunKey], int]:
        """The runs of baselines to do now, and at most how many are left of them."""
        every = [base.at(pair, seed, lr) for pair in self.baselines for lr in self.lrs for seed in self.seeds]
        waiting = [key for key in every if key not in losses]
        return waiting, len(waiting)

    def as_data(self) -> dict[str, Any]:
        """The protocol as plain data, with its kind; `protocol_from(**p.as_data()) == p`."""
        unset = ("seeds", "learning_rates", "held_out_seeds", "max_runs", "extra_betas")  # left out unless chosen
        return {"kind": self.kind} | {name: one for name, one in asdict(self).items() if one or name not in unset}


@dataclass(frozen=True)
class Grid(Protocol):
    """Every beta with every seed, at every learning rate where `learning_rates` are given.

    Args:
        learning_rates: What to cross the betas with: learning rates, or factors on an experiment's own.
        held_out_seeds: Seeds that run last: every beta and baseline runs with them at the learning rate that was its
            best with the other seeds. They were not used to select anything.
    """

    learning_rates: tuple[float, ...] = ()
    held_out_seeds: tuple[int, ...] = ()

    kind: ClassVar[str] = "grid"

    def step(self, losses: Losses, base: RunKey) -> Step:
        betas: list[Beta] = [*self.betas, *self.baselines]
        last = [key for beta in betas for key in self._held_out(beta, losses, base)]
        keys = [base.at(beta, seed, lr) for seed in self.seeds for lr in self.lrs for beta in self.betas] + last
        later = len(self.held_out_seeds) * len(betas) - len(last)
        return _remaining(keys, losses, later, f"all {len(keys)} runs of the grid have ended")

    def _held_out(self, beta: Beta, losses: Losses, base: RunKey) -> list[RunKey]:
        """A beta's runs with the held-out seeds, at its best learning rate; none until that is known."""
        if any(base.at(beta, seed, lr) not in losses for lr in self.lrs for seed in self.seeds):
            return []
        best, *_ = ranked({lr: mean([losses[base.at(beta, seed, lr)] for seed in self.seeds]) for lr in self.lrs})
        return [base.at(beta, seed, best) for seed in self.held_out_seeds]


@dataclass(frozen=True)
class Paper(Protocol):
    """The paper's sweep: every beta with the first seed, then `top_k` betas with the other seeds.

    Args:
        second_stage: Which betas get the other seeds. `top_k`: those with the best losses of the first seed. `window`:
            neighbours around the best.
        top_k: How many betas get the other seeds.
    """

    second_stage: Literal["top_k", "window"] = "top_k"
    top_k: int = 5

    kind: ClassVar[str] = "paper"

    def step(self, losses: Losses, base: RunKey) -> Step:
        first = [base.at(beta, self.seeds[0]) for beta in self.betas]
        by_beta = {key.tied_beta: losses[key] for key in first if key in losses}
        missing, kept = len(first) - len(by_beta), self.kept(by_beta)
        if missing:  # workers need not wait for betas that get the other seeds whatever the missing losses are
            kept = kept[: max(self.top_k - missing, 0)] if self.second_stage == "top_k" else []
        second = [base.at(beta, seed) for seed in self.seeds[1:] for beta in kept]
        repeats = min(self.top_k, len(self.betas)) * (len(self.seeds) - 1) - len(second) if missing else 0
        why = f"{len(first)} betas have run, the best {len(kept)} with every seed"
        return _remaining([*first, *second], losses, repeats, why)

    def kept(self, first: Mapping[float, float]) -> list[float]:
        """The betas that get the other seeds, from the first seed's losses."""
        best = [beta for beta in ranked(first) if math.isfinite(first[beta])]
        if self.second_stage == "top_k" or not best:
            return best[: self.top_k]
        betas = sorted(self.betas)
        lowest = max(min(betas.index(best[0]) - self.top_k // 2, len(betas) - self.top_k), 0)
        return betas[lowest:][: self.top_k]


AnyProtocol = TypeVar("AnyProtocol", bound=Protocol)
KINDS: dict[str, type[Protocol]] = {"paper": Paper, "grid": Grid}


def next_step(protocol: Protocol, losses: Losses, base: RunKey) -> Step:
    """The runs to do now, those of the baselines first, or the reason why none are left; `base` is as in `step`.

    >>> step = next_step(Paper(), {}, RunKey("digits", 0.9, 1, budget=20_000))
    >>> len(step.runs), step.at_most
    (13, 23)
    """
    protocol = protocol if protocol.seeds else replace(protocol, seeds=SEEDS)
    waiting, left = protocol.baselines_step(losses, base)
    step = protocol.step(losses, base)
    return Step((*waiting, *step.runs), left + step.at_most) if waiting else step


def protocol_from(kind: str, **values: Any) -> Protocol:
    """The protocol of that name with checked values; names of older studies are accepted.

    >>> protocol_from("paper", betas=[0.9, 0.99], keep=2)
    Paper(betas=(0.9, 0.99), seeds=(), baselines=(), second_stage='top_k', top_k=2)
    """
    if kind not in KINDS:
        raise ValueError(f"there is no protocol {kind!r}; choose one of {', '.join(KINDS)}")
    values = {OLD_NAMES.get(name, name): value for name, value in values.items()}
    names = {name: [one.name for one in fields(made)] for name, made in KINDS.items()}
    if foreign := [name for name in values if name not in names[kind]]:
        able = [name for name, accepted in names.items() if {*foreign} <= {*accepted}]
        way = f"; the protocol {' or '.join(able)} has" if able else ""
        raise ValueError(f"protocol {kind!r} has no {', '.join(foreign)}; it has {', '.join(names[kind])}{way}")
    protocol = KINDS[kind](**{name: _plain(value, name) for name, value in values.items()})
    if not protocol.betas or ("seeds" in values and not protocol.seeds):
        raise ValueError("a protocol needs at least one beta and one seed")
    _check(protocol)
    return protocol


def all_keys(protocol: Protocol, base: RunKey) -> list[RunKey]:
    """The key of every run that the protocol may need."""
    betas: list[Beta] = [*protocol.betas, *protocol.baselines]
    seeds = (*protocol.seeds, *getattr(protocol, "held_out_seeds", ()))
    return [base.at(beta, seed, lr) for beta in betas for lr in protocol.lrs for seed in seeds]


def extended(before: Mapping[str, Any], protocol: AnyProtocol) -> AnyProtocol:
    """The protocol, extended by the betas, seeds, baselines and learning rates that the study had `before` (as data).

    >>> extended(Grid(betas=(0.9,)).as_data(), Grid(betas=(0.992,))).betas
    (0.9, 0.992)
    """
    former = {OLD_NAMES.get(name, name): value for name, value in before.items()}
    more: dict[str, Any] = {}
    for name in {*LISTS} & {*asdict(protocol)}:
        if earlier := [tuple(one) if isinstance(one, list) else one for one in former.get(name) or ()]:
            own = () if name == "betas" and protocol.betas == GRID else getattr(protocol, name)
            more[name] = tuple(sorted({*earlier, *own}))
            if name == "betas" and hasattr(protocol, "extra_betas"):
                more["extra_betas"] = tuple(sorted({*former.get("extra_betas", ()), *({*own} - {*earlier})}))
    return replace(protocol, **more)


def ranked(losses: Mapping[Any, float]) -> list[Any]:
    """Betas from the best loss to the worst, those without a finite loss last; a tie goes to the smaller beta."""
    return sorted(losses, key=lambda beta: (finite_or_inf(losses[beta]), beta))


def finite_or_inf(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


def mean(values: Sequence[float]) -> float:
    """The mean of those that are not NaN."""
    kept = [value for value in values if not math.isnan(value)]
    return math.fsum(kept) / len(kept) if kept else math.nan


def _beta(value: Any, name: str) -> float:
    return checked_beta(plain_float(value, name))


def _pair(value: Any, name: str) -> tuple[float, ...]:
    pair = _list(value, name, _beta)
    if len(pair) != 2:
        raise ValueError(f"{name} must be pairs (beta1, beta2), such as {_KINDS[name][1]}, got {value!r}")
    return pair


_KINDS: dict[str, tuple[Callable[[Any, str], Any], str]] = {
    "betas": (_beta, "[0.9, 0.99]"),
    "seeds": (plain_int, "[1, 2, 3]"),
    "baselines": (_pair, "[(0.9, 0.999)]"),
    "learning_rates": (plain_float, "[0.001, 0.003]"),
    "held_out_seeds": (plain_int, "[4, 5]"),
    "extra_betas": (_beta, "[0.95]"),
}
"""What each list holds, and what it looks like."""

LISTS = [name for name in _KINDS if name != "extra_betas"]
"""The lists by which a study can be extended."""

_COUNTS = ("top_k", "max_runs")


def _plain(value: Any, name: str) -> Any:
    """A value of a protocol as plain tuples, floats and ints; ValueError for anything else."""
    if name in _KINDS:
        return _list(value, name, _KINDS[name][0])
    return plain_int(value, name) if name in _COUNTS and value is not None else value


def _list(value: Any, name: str, plain: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list, such as {_KINDS[name][1]}, got {value!r}")
    return tuple(plain(one, name) for one in value)


def _check(protocol: Protocol) -> None:
    """ValueError if values of a protocol exclude each other, or are out of range."""
    given = {one.name: getattr(protocol, one.name) for one in fields(protocol)}
    for name in LISTS:
        values = given.get(name, ())
        if len({*values}) != len(values):
            raise ValueError(f"{name} holds a value twice: {', '.join(map(str, values))}")
    if twice := {*(protocol.seeds or SEEDS)} & {*given.get("held_out_seeds", ())}:
        raise ValueError(f"held_out_seeds must differ from the seeds, got {sorted(twice)} in both")
    lrs = given.get("learning_rates", ())
    if not all(0 < lr < math.inf for lr in lrs):
        raise ValueError(f"learning_rates must be finite numbers above 0, got {', '.join(map(str, lrs))}")
    for name in _COUNTS:
        if (count := given.get(name)) is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    if (stage := given.get("second_stage", "top_k")) not in ("top_k", "window"):
        raise ValueError(f"second_stage must be top_k or window, got {stage!r}")


def _remaining(keys: Collection[RunKey], losses: Losses, later: int, reason: str) -> Step:
    runs = tuple(key for key in keys if key not in losses)
    return Step(runs, len(runs) + later, None if runs or later else reason)
