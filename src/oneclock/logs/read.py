"""From a path to curves: which reader, which metric, which step, and what a person should know of the choice."""

from __future__ import annotations

import csv
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from oneclock.horizon import Curve
from oneclock.logs import json_lines, names, plain_csv
from oneclock.logs.arguments import Arguments, understood
from oneclock.logs.source import Found, Reader, Source, Wanted

READERS: tuple[Reader, ...] = (json_lines, plain_csv)
"""Every format, the more particular first: the first whose `sniff` says yes reads the path."""


@dataclass(frozen=True)
class LoggedRun:
    """One run of a log: its curve, and the arguments it was started with where the log has them."""

    name: str
    curve: Curve
    arguments: Arguments


@dataclass(frozen=True)
class Log:
    """What was read: `runs`, the metric and step columns taken and those there were, and `warnings`.

    `unit` is what the curves count: steps, epochs (steps per epoch unknown), or evaluations (no step column).
    """

    path: str
    format: str
    metric: str
    metrics: tuple[str, ...]
    step: str | None
    steps: tuple[str, ...]
    unit: str
    runs: tuple[LoggedRun, ...]
    warnings: tuple[str, ...]

    @property
    def curves(self) -> list[Curve]:
        """One curve per run."""
        return [run.curve for run in self.runs]


def read(
    path: str | Path, metric: str | None = None, step: str | None = None, steps_per_epoch: float | None = None
) -> Log:
    """Read a log or a folder of logs, whatever wrote it; metric and step are guessed where they are not named.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("step,loss,val_loss\\n100,2.1,2.0\\n200,1.4,1.5\\n")
    >>> log = read(path)
    >>> log.format, log.metric, log.step, log.curves
    ('CSV', 'val_loss', 'step', [Curve(steps=(100, 200), losses=(2.0, 1.5))])
    """
    if steps_per_epoch is not None and not 0 < steps_per_epoch < 2**53:
        raise ValueError(f"steps per epoch must be a number above 0, got {steps_per_epoch!r}")
    path = Path(path)
    reader = _reader_of(path)
    try:
        source = reader.load(path, Wanted(metric, step))
    except (csv.Error, sqlite3.Error, RecursionError, OverflowError) as error:
        raise ValueError(f"{path} looks like {reader.FORMAT} but cannot be read: {error}") from None
    return _log(path, source, metric, steps_per_epoch)


def read_curves(path: str | Path, metric: str | None = None, steps_per_epoch: float | None = None) -> list[Curve]:
    """The curves of a log, one per run, in optimizer steps; ValueError where the log does not count steps."""
    log = read(path, metric, steps_per_epoch=steps_per_epoch)
    if log.unit != "steps":
        raise ValueError(f"{path} counts {log.unit}, not steps; log the step too, or give the steps per epoch")
    return log.curves


def _reader_of(path: Path) -> Reader:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    for reader in READERS:
        if reader.sniff(path):
            return reader
    known = ", ".join(reader.FORMAT for reader in READERS)
    raise ValueError(f"{path} is no log that can be read; known are {known}")


def _log(path: Path, source: Source, named: str | None, steps_per_epoch: float | None) -> Log:
    seen = [metric for run in source.runs for metric in run.metrics]
    held = [metric for run in source.runs for metric, series in run.series.items() if len(series)]
    if not held:
        raise ValueError(f"{path} ({source.format}) holds no curve; it has: {names.listed(dict.fromkeys(seen))}")
    metric = names.choose_metric(held, named, path)
    warnings = list(source.warnings)
    in_epochs = source.step is not None and names.is_epoch(source.step)
    unit = "evaluations" if source.step is None else "epochs" if in_epochs else "steps"
    chosen = [run for run in source.runs if metric in run.series]
    scale, offset = 1.0, 0.0
    if in_epochs:
        given = steps_per_epoch or next((s for run in chosen if (s := understood(run.arguments).steps_per_epoch)), None)
        if min(run.series[metric].starts_at for run in chosen if len(run.series[metric])) == 0:
            offset = 1.0
            warnings.append("epochs are counted from 0 there: epoch 0 is taken as one finished epoch")
        if given is None:
            warnings.append("it counts epochs, not steps; give the steps per epoch to have it in steps")
        else:
            scale, unit = float(given), "steps"
            warnings.append(f"epochs were turned into steps at {given:g} steps per epoch")
    if source.step is None:
        warnings.append("it has no step column: evaluations are counted instead")
    sign = -1.0 if names.is_higher_better(metric) else 1.0
    runs = []
    for run in chosen:
        series = run.series[metric]
        curve = series.curve(scale, offset, sign)
        if curve is not None:
            runs.append(LoggedRun(run.name, curve, understood(run.arguments)))
    if not runs:
        raise ValueError(
            f"{path}: {metric!r} has no finite value; name another of: {names.listed(dict.fromkeys(seen))}"
        )
    warnings += _about_metric(metric, named, held) + _about_points(chosen, metric)
    return Log(
        path=str(path),
        format=source.format,
        metric=metric,
        metrics=tuple(names.candidates(dict.fromkeys([*held, *seen]))),
        step=source.step,
        steps=tuple(source.steps),
        unit=unit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _about_metric(metric: str, named: str | None, held: list[str]) -> list[str]:
    found = []
    if names.is_higher_better(metric):
        found.append(f"of {metric!r} more is better: its negative is read as the loss")
    if named is None and names.is_training(metric):
        found.append(
            f"no validation loss was found: {metric!r} may be a training loss, which says little of the horizon"
        )
    equals = [name for name in dict.fromkeys(held) if name != metric and names.rank(name) == names.rank(metric)]
    if named is None and equals:
        found.append(f"{names.listed(equals)} would do as well as {metric!r}; name the metric to choose")
    return found


def _about_points(runs: list[Found], metric: str) -> list[str]:
    found = []
    series = [run.series[metric] for run in runs]
    if ignored := sum(one.ignored for one in series):
        found.append(f"{ignored:,} values at negative or impossible steps were left out")
    if duplicates := sum(one.duplicates for one in series):
        found.append(f"{duplicates:,} steps were logged more than once: the last value counts")
    if (merged := max(one.merged for one in series)) > 1:
        found.append(
            f"a very long curve was thinned to the lowest of every {merged} evaluations: the best loss is exact, "
            f"the stop to {merged} evaluations"
        )
    return found
