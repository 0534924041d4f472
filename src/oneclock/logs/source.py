"""The values between the readers and `oneclock.logs.read`: what a reader is asked for, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oneclock.logs import names
from oneclock.logs.arguments import LoggedArgument
from oneclock.logs.series import MetricSeries

MOST_RUNS = 256  # that one log may hold
_MOST_HELD = 64  # metrics of one run whose values are kept
_MOST_SEEN = 4096  # metrics of one run whose names are kept


@dataclass(frozen=True)
class Wanted:
    """The user's choices for a log; None is guessed. `columns` are for a file without a header."""

    metric: str | None = None
    step: str | None = None
    columns: tuple[str, ...] | None = None
    higher_is_better: bool | None = None
    steps_per_epoch: float | None = None
    tokens_per_step: float | None = None

    def __post_init__(self) -> None:
        for name in ("steps_per_epoch", "tokens_per_step"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 2**53:
                raise ValueError(f"{name.replace('_', ' ')} must be a number above 0, got {value!r}")


class RawRun:
    """One run in a log: its metrics by name, the arguments it was started with, and those it logged while it ran."""

    def __init__(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.series: dict[str, MetricSeries] = {}
        self.arguments: dict[str, Any] = dict(arguments or {})
        self.logged_arguments: dict[str, LoggedArgument] = {}
        self.metrics: dict[str, None] = {}  # every metric's name, in order of appearance

    def note(self, metrics: Iterable[str]) -> None:
        """Note names without values."""
        for metric in metrics:
            if len(self.metrics) < _MOST_SEEN:
                self.metrics.setdefault(metric)

    def holds(self, metric: str, wanted: Wanted) -> bool:
        """Whether values of the metric are kept: of the one requested, or of those that look like a loss."""
        if metric in self.series:
            return True
        if metric in self.metrics or len(self.series) >= _MOST_HELD or len(self.metrics) >= _MOST_SEEN:
            return False
        self.metrics[metric] = None
        if wanted.metric is not None:
            kept = metric.lower() == wanted.metric.lower()
        else:  # the first metric may be the only one
            kept = names.rank(metric) is not None or not any(map(names.is_metric, self.series))
        if kept:
            self.series[metric] = MetricSeries()
        return kept

    def add(self, metric: str, step: float, value: float, wanted: Wanted) -> None:
        """Keep one value, if the metric's are kept."""
        if self.holds(metric, wanted):
            self.series[metric].add(step, value)


@dataclass
class Contents:
    """What a reader returns: runs, the step column and its alternatives, and warnings."""

    format: str
    runs: list[RawRun]
    step: str | None = "step"
    steps: list[str] = field(default_factory=lambda: ["step"])
    warnings: list[str] = field(default_factory=list)


def together(sources: Sequence[Contents], path: Path) -> Contents:
    """The runs of several files as one log; ValueError if there is none, or they count different things."""
    steps = sorted({str(source.step) for source in sources})
    if len(steps) != 1:
        problem = f"its runs count {' and '.join(steps)}: read them one by one" if steps else "it holds no run"
        raise ValueError(f"{path}: {problem}")
    runs = [run for source in sources for run in source.runs]
    return replace(sources[0], runs=runs, warnings=[warning for source in sources for warning in source.warnings])
