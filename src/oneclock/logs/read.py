"""From a path to curves: which reader, which metric, which step, and what a person should know of the choice."""

from __future__ import annotations

import csv
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from oneclock.horizon import Curve
from oneclock.logs import names
from oneclock.logs.arguments import Arguments, understood
from oneclock.logs.formats import (
    json_lines,
    keras_csv,
    lightning_csv,
    mlflow_database,
    mlflow_files,
    own_records,
    plain_csv,
    tensorboard,
    trackio_database,
    trainer_state,
    wandb_csv,
)
from oneclock.logs.formats.folder import Folder
from oneclock.logs.source import Contents, Found, Reader, Wanted

FILES: tuple[Reader, ...] = (
    own_records,
    tensorboard,
    mlflow_database,
    trackio_database,
    trainer_state,
    wandb_csv,
    lightning_csv,
    keras_csv,
    json_lines,
    plain_csv,
)
"""The formats of files, the more particular first: the first whose `sniff` says yes reads the path."""

FOLDERS: tuple[Reader, ...] = (own_records, trainer_state, mlflow_files, lightning_csv, tensorboard, Folder(FILES))
"""The same for folders."""


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
    return read_as(_reader_of(path), path, Wanted(metric, step), steps_per_epoch)


def read_as(reader: Reader, path: Path, wanted: Wanted, steps_per_epoch: float | None = None) -> Log:
    """Read the path as one format, whatever it looks like: curves, or one ValueError."""
    try:
        source = reader.load(path, wanted)
    except (csv.Error, sqlite3.Error, RecursionError, OverflowError) as error:
        raise ValueError(f"{path} looks like {reader.FORMAT} but cannot be read: {error}") from None
    return _log(path, source, wanted.metric, steps_per_epoch)


def read_curves(path: str | Path, metric: str | None = None, steps_per_epoch: float | None = None) -> list[Curve]:
    """The curves of a log, one per run, in optimizer steps; ValueError where the log does not count steps."""
    log = read(path, metric, steps_per_epoch=steps_per_epoch)
    if log.unit != "steps":
        raise ValueError(f"{path} counts {log.unit}, not steps; log the step too, or give the steps per epoch")
    return log.curves


def _reader_of(path: Path) -> Reader:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is neither a file nor a folder")
    for reader in FOLDERS if path.is_dir() else FILES:
        if reader.sniff(path):
            return reader
    known = ", ".join(dict.fromkeys(reader.FORMAT for reader in (*FILES, *FOLDERS)))
    raise ValueError(f"{path} is no log that can be read; known are: {known}")


def _log(path: Path, source: Contents, named: str | None, steps_per_epoch: float | None) -> Log:
    seen = list(dict.fromkeys(metric for run in source.runs for metric in run.metrics))
    held = {metric for run in source.runs for metric, series in run.series.items() if len(series)}
    if not held:
        raise ValueError(f"{path} ({source.format}) holds no curve; it has: {names.listed(seen)}")
    metric = names.choose_metric(seen, named, path)
    chosen = [run for run in source.runs if len(run.series.get(metric, ()))]
    if not chosen:
        raise ValueError(f"{path} ({source.format}) has no values of {metric!r}; name one of: {names.listed(held)}")
    clock = _clock(source, [run.series[metric].starts_at for run in chosen], steps_per_epoch or _per_epoch(chosen))
    curves = [(run, run.series[metric].curve(clock.scale, clock.offset)) for run in chosen]
    runs = [LoggedRun(run.name, curve, understood(run.arguments)) for run, curve in curves if curve is not None]
    if not runs:
        raise ValueError(f"{path}: {metric!r} has no finite value; name another of: {names.listed(seen)}")
    warnings = [*source.warnings, *clock.warnings, *_about_metric(metric, named, seen), *_about_points(chosen, metric)]
    if len(runs) < len(chosen):
        warnings.append(f"{len(chosen) - len(runs)} runs without a finite {metric!r} were left out")
    return Log(
        path=str(path),
        format=source.format,
        metric=metric,
        metrics=tuple(names.candidates(seen)),
        step=source.step,
        steps=tuple(source.steps),
        unit=clock.unit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
    )


@dataclass(frozen=True)
class _Clock:
    """What the steps of a log count, and how they become optimizer steps: (step + offset) * scale."""

    unit: str
    scale: float = 1.0
    offset: float = 0.0
    warnings: tuple[str, ...] = ()


def _clock(source: Contents, starts: list[float], steps_per_epoch: float | None) -> _Clock:
    if source.step is None:
        return _Clock("evaluations", warnings=("it has no step column: evaluations are counted instead",))
    if not names.is_epoch(source.step):
        return _Clock("steps")
    from_zero = min(starts) == 0
    warnings = ("epochs are counted from 0 there: epoch 0 is taken as one finished epoch",) if from_zero else ()
    if steps_per_epoch is None:
        advice = "it counts epochs, not steps; give the steps per epoch to have it in steps"
        return _Clock("epochs", offset=float(from_zero), warnings=(*warnings, advice))
    told = f"epochs were turned into steps at {steps_per_epoch:g} steps per epoch"
    return _Clock("steps", float(steps_per_epoch), float(from_zero), (*warnings, told))


def _per_epoch(runs: list[Found]) -> float | None:
    """Steps per epoch as the runs' own arguments have it, where they agree."""
    said = {understood(run.arguments).steps_per_epoch for run in runs}
    return said.pop() if len(said) == 1 else None


def _about_metric(metric: str, named: str | None, seen: list[str]) -> list[str]:
    found = []
    if names.is_higher_better(metric):
        found.append(f"of {metric!r} more is better: its negative is read as the loss")
    if named is None and names.is_training(metric):
        found.append(
            f"no validation loss was found: {metric!r} may be a training loss, which says little of the horizon"
        )
    equals = [name for name in seen if name != metric and names.rank(name) == names.rank(metric)]
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
            f"a very long curve was thinned to the lowest of up to {merged} evaluations in a row: "
            f"the best loss is exact, the stop to within {2 * merged} evaluations"
        )
    return found
