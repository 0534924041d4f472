"""What `advise` is given, as runs that it can judge: logs are read, and curves without an answer are refused."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oneclock.horizon import Curve
from oneclock.logs.arguments import Arguments
from oneclock.logs.inputs import Table, is_table
from oneclock.logs.read import Log, LoggedRun, read_log

Source = Log | LoggedRun | Curve | str | os.PathLike[str] | Table
"""A log, its path, a table (a DataFrame, or a mapping of columns), a run, or a curve over steps."""


@dataclass(frozen=True)
class Material:
    """The logs that were read, all runs up to where they diverged, what they count, and whether any diverged.

    Where `higher_is_better`, the runs' curves hold the negated metric.
    """

    logs: tuple[Log, ...]
    runs: tuple[LoggedRun, ...]
    unit: str
    higher_is_better: bool
    diverged: bool


def read_sources(source: Source | Sequence[Source], **options: Any) -> Material:
    """Read the sources; `options` are those of `read_log`. ValueError if they are not runs of one kind."""
    sources = [source] if _is_one(source) else _each(source)
    sources = [LoggedRun("curve", one, Arguments()) if isinstance(one, Curve) else one for one in sources]
    bare = [one for one in sources if isinstance(one, LoggedRun)]
    others = [one for one in sources if not isinstance(one, LoggedRun)]
    logs = tuple(one if isinstance(one, Log) else read_log(one, **options) for one in others)
    runs = [run for log in logs for run in log.runs] + bare
    if not runs:
        raise ValueError("advice needs at least one run")
    units = sorted({log.unit for log in logs} | ({"steps"} if bare else set()))
    if len(units) > 1:
        raise ValueError(
            f"the logs count different things, {' and '.join(units)}; name the step column (step, --step) "
            "or convert epochs to steps (steps_per_epoch, --steps-per-epoch)"
        )
    _refuse_two_directions(logs, runs)
    _refuse_constant(runs)
    diverged = any(run.diverged_at is not None for run in runs)
    return Material(logs, tuple(map(_until_divergence, runs)), units[0], runs[0].higher_is_better, diverged)


def _is_one(source: object) -> bool:
    return isinstance(source, Log | LoggedRun | Curve | str | os.PathLike) or is_table(source)


def _each(source: Any) -> list[Any]:
    sources = list(source) if isinstance(source, Iterable) else [source]
    strange = next((one for one in sources if not _is_one(one)), None)
    if strange is not None:
        raise ValueError(
            f"advise takes paths of logs, tables, runs or curves, got {type(strange).__name__} {strange!r}; "
            'for losses in memory give a table: {"step": [..], "val_loss": [..]}'
        )
    return sources


def _refuse_two_directions(logs: Sequence[Log], runs: Sequence[LoggedRun]) -> None:
    if len({run.higher_is_better for run in runs}) > 1:
        metrics = ", ".join(
            f"{log.metric!r} ({'higher' if log.direction.higher_is_better else 'lower'} is better)" for log in logs
        )
        raise ValueError(f"higher is better in one log and lower in another: {metrics}; name one metric for all")


def _refuse_constant(runs: Sequence[LoggedRun]) -> None:
    """A curve that never changes has an early stop like any other, but it says nothing about training."""
    values = [[value for value in run.values if math.isfinite(value)] for run in runs]
    if all(len(one) > 1 and min(one) == max(one) for one in values):
        raise ValueError(f"every evaluation is {values[0][0]:g}: such a log has no horizon; name another metric")


def _until_divergence(run: LoggedRun) -> LoggedRun:
    """The run up to its last finite loss, without its plan, which it did not reach."""
    if run.diverged_at is None:
        return run
    end = run.curve.steps.index(run.diverged_at)
    curve = Curve(run.curve.steps[:end], run.curve.losses[:end])
    return replace(run, curve=curve, arguments=replace(run.arguments, max_steps=None, epochs=None))
