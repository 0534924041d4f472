"""What a reader is asked for, and what it hands over: the values between the formats and `oneclock.logs.read`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from oneclock.logs import names
from oneclock.logs.gathering import Gathered

MOST_RUNS = 256
"""Runs that one log may hold."""

_MOST_HELD = 64  # metrics of one run whose values are kept
_MOST_SEEN = 4096  # metrics of one run whose names are kept


@dataclass(frozen=True)
class Wanted:
    """The columns a person named; None where they are to be guessed. `columns` are those of a file without a header."""

    metric: str | None = None
    step: str | None = None
    columns: tuple[str, ...] | None = None


class Found:
    """One run in a log: its metrics by name, and the arguments it was started with.

    A format that knows its metrics only at the end offers each value; what cannot be the answer is not kept.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.series: dict[str, Gathered] = {}
        self.arguments: dict[str, Any] = dict(arguments or {})
        self._seen: dict[str, None] = {}

    @property
    def metrics(self) -> list[str]:
        """Every metric's name, in the order met."""
        return list(self._seen)

    def saw(self, metrics: Iterable[str]) -> None:
        """Note names without values."""
        for metric in metrics:
            if len(self._seen) < _MOST_SEEN:
                self._seen.setdefault(metric)

    def holds(self, metric: str, wanted: Wanted) -> bool:
        """Whether values of the metric are kept: of the one named, or of those that look like a loss."""
        if metric in self.series:
            return True
        if metric in self._seen or len(self.series) >= _MOST_HELD or len(self._seen) >= _MOST_SEEN:
            return False
        first = not self._seen
        self.saw([metric])
        if wanted.metric is None:
            kept = first or names.rank(metric) is not None  # a first metric of any name may stay the only one
        else:
            kept = metric.lower() == wanted.metric.lower()
        if kept:
            self.keep(metric)
        return kept

    def keep(self, metric: str) -> Gathered:
        """Begin the series of a metric."""
        self.saw([metric])
        self.series[metric] = Gathered(sign=-1.0 if names.is_higher_better(metric) else 1.0)
        return self.series[metric]

    def add(self, metric: str, step: float, value: float, wanted: Wanted) -> None:
        """Keep one value, if the metric's are kept."""
        if self.holds(metric, wanted):
            self.series[metric].add(step, value)


class Runs:
    """The runs of one log, each met by its key; a log of very many is not of one experiment.

    >>> runs = Runs("log.csv")
    >>> runs.of(("seed", 1), "seed 1") is runs.of(("seed", 1), "seed 1")
    True
    """

    def __init__(self, where: object) -> None:
        self._where = where
        self._runs: dict[Hashable, Found] = {}

    def of(self, key: Hashable, name: str) -> Found:
        """The run of that key, begun where it is new."""
        run = self._runs.get(key)
        if run is None:
            if len(self._runs) >= MOST_RUNS:
                raise ValueError(f"{self._where} holds more than {MOST_RUNS} runs; read those of one experiment alone")
            run = self._runs[key] = Found(name)
        return run

    def known(self, key: Hashable) -> Found | None:
        """The run of that key, if it was met."""
        return self._runs.get(key)

    def all(self) -> list[Found]:
        """Every run, in the order met."""
        return list(self._runs.values())


@dataclass
class Contents:
    """All a reader found: runs, the step column taken and those there were, and what a person should know."""

    format: str
    runs: list[Found]
    step: str | None = "step"
    steps: list[str] = field(default_factory=lambda: ["step"])
    warnings: list[str] = field(default_factory=list)


class Reader(Protocol):
    """One format: a module with these names."""

    FORMAT: str

    def sniff(self, path: Path) -> bool:
        """Whether the path holds this format, by looking inside; it never raises over what it finds."""

    def load(self, path: Path, wanted: Wanted) -> Contents:
        """Read it, in bounded memory; ValueError where it cannot be read."""


def number(value: object) -> float | None:
    """A logged value as a float, or None where it is not a number.

    >>> number("1.5"), number(True), number("fast"), number(10**400)
    (1.5, None, None, inf)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return None


def parted(pairs: Mapping[str, Any]) -> str:
    """What to put before the metrics of a row whose own cell says of which part of the data it is, or nothing.

    >>> parted({"step": 5, "split": "val", "loss": 2.0}), parted({"step": 5, "loss": 2.0})
    ('val/', '')
    """
    return next((f"{part}/" for key, cell in pairs.items() if (part := names.part(key, cell))), "")


def flat(values: Mapping[str, Any], prefix: str = "", depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Nested mappings as `outer/inner` pairs, to a bounded depth.

    >>> dict(flat({"step": 1, "val": {"loss": 2.0}}))
    {'step': 1, 'val/loss': 2.0}
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            if depth:
                yield from flat(value, f"{prefix}{key}/", depth - 1)
        else:
            yield f"{prefix}{key}", value
