"""From a path to curves: which reader, which metric, which step, and what a person should know of the choice."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oneclock.guards import plain_file
from oneclock.horizon import Curve
from oneclock.logs import names
from oneclock.logs.arguments import Arguments, understood
from oneclock.logs.clock import Rates, clock
from oneclock.logs.formats import (
    dvclive,
    json_document,
    json_lines,
    keras_csv,
    lightning_csv,
    long_csv,
    mlflow_database,
    mlflow_files,
    own_records,
    plain_csv,
    tensorboard,
    terminal,
    trackio_database,
    trainer_state,
    wandb_csv,
    wandb_run,
)
from oneclock.logs.formats.folder import Folder
from oneclock.logs.seeming import seems
from oneclock.logs.source import Contents, Found, Reader, Wanted
from oneclock.plain_text import printable

FILES: tuple[Reader, ...] = (
    own_records,
    tensorboard,
    wandb_run,
    mlflow_database,
    trackio_database,
    trainer_state,
    wandb_csv,
    lightning_csv,
    keras_csv,
    json_document,
    json_lines,
    long_csv,
    plain_csv,
    terminal,
)
"""The formats of files, the more particular first: the first whose `sniff` says yes reads the path."""

FOLDERS: tuple[Reader, ...] = (
    own_records,
    trainer_state,
    mlflow_files,
    lightning_csv,
    dvclive,
    wandb_run,
    tensorboard,
    Folder(FILES),
)
"""The same for folders."""


class NotFinite(ValueError):
    """A log whose loss is there and never finite: of a run that diverged from the start."""


@dataclass(frozen=True)
class LoggedRun:
    """One run of a log: its curve, and the arguments it was started with where the log has them."""

    name: str
    curve: Curve
    arguments: Arguments


@dataclass(frozen=True)
class Log:
    """What was read: `runs`, the metric and step columns taken and those there were, and `warnings`.

    `unit` is what the curves count: steps, or where those cannot be had epochs, tokens, samples or evaluations.
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


def read_log(
    path: str | Path,
    metric: str | None = None,
    step: str | None = None,
    *,
    steps_per_epoch: float | None = None,
    tokens_per_step: float | None = None,
    columns: Sequence[str] | None = None,
) -> Log:
    """Read a log or a folder of logs, whatever wrote it.

    Args:
        path: A file or a folder of any format in docs/advise.md; it is found by looking inside.
        metric: The validation loss; guessed from the names where it is not given.
        step: The column or key that counts steps, epochs or tokens; guessed likewise.
        steps_per_epoch: Turns a log of epochs into steps.
        tokens_per_step: Turns a log of tokens or samples into steps.
        columns: The names of the columns of a CSV file that has no header.

    Returns:
        The runs with their curves and arguments, what was chosen, and in `warnings` all that was left out.

    Raises:
        FileNotFoundError: There is nothing at the path.
        ValueError: It holds no curve; the message says what it seems to be and what to do.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("step,loss,val_loss\\n100,2.1,2.0\\n200,1.4,1.5\\n")
    >>> log = read_log(path)
    >>> log.format, log.metric, log.step, log.curves
    ('CSV', 'val_loss', 'step', [Curve(steps=(100, 200), losses=(2.0, 1.5))])
    """
    rates = Rates(steps_per_epoch, tokens_per_step)
    path, wanted = Path(path), Wanted(metric, step, None if columns is None else tuple(columns))
    return read_as(plain_csv if columns is not None else _reader_of(path), path, wanted, rates)


def read_text(path: str | Path, metric: str | None = None, *, steps_per_epoch: float | None = None) -> Log:
    """Read what a run printed to the terminal, captured in a file; the run may still go on.

    Args:
        path: The captured output, with anything between the lines of the curve.
        metric: As printed, words joined by `_`; guessed where it is not given.
        steps_per_epoch: Turns output that names only epochs into steps.

    Returns:
        The curve so far. To read each line only once while a run goes on, see `Followed`.

    Raises:
        ValueError: No line names a step and a loss.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "output.log"
    >>> _ = path.write_text("hello\\nstep 0: train loss 4.2, val loss 4.3\\nstep 250: train loss 2.4, val loss 2.5\\n")
    >>> read_text(path).curves
    [Curve(steps=(0, 250), losses=(4.3, 2.5))]
    """
    return read_as(terminal, Path(path), Wanted(metric), Rates(steps_per_epoch))


def read_as(reader: Reader, path: Path, wanted: Wanted, rates: Rates | None = None) -> Log:
    """Read the path as one format, whatever it looks like: curves, or one ValueError, a plain line."""
    try:
        return _log(path, reader.load(path, wanted), wanted.metric, rates or Rates())
    except NotFinite as error:
        raise NotFinite(printable(str(error))) from None
    except ValueError as error:
        raise ValueError(printable(str(error))) from None
    except (csv.Error, sqlite3.Error, RecursionError, OverflowError) as error:
        raise ValueError(printable(f"{path} looks like {reader.FORMAT} but cannot be read: {error}")) from None


def read_curves(path: str | Path, metric: str | None = None, steps_per_epoch: float | None = None) -> list[Curve]:
    """The curves of a log, one per run, in optimizer steps; ValueError where the log does not count steps."""
    log = read_log(path, metric, steps_per_epoch=steps_per_epoch)
    if log.unit != "steps":
        raise ValueError(f"{path} counts {log.unit}, not steps; log the step too, or give the steps per epoch")
    return log.curves


def _reader_of(path: Path) -> Reader:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_dir():
        plain_file(path)
    for reader in FOLDERS if path.is_dir() else FILES:
        if reader.sniff(path):
            return reader
    raise ValueError(printable(f"{path} is no log that can be read; {seems(path)}"))


def _log(path: Path, source: Contents, named: str | None, rates: Rates) -> Log:
    seen = list(dict.fromkeys(metric for run in source.runs for metric in run.metrics))
    held = {metric for run in source.runs for metric, series in run.series.items() if len(series)}
    if not seen or (named is None and not held):
        why = _off_the_clock(source.runs)
        raise ValueError(f"{path} ({source.format}) holds no curve{why}; it has: {names.listed(seen)}")
    metric = names.choose_metric(seen, named, path)
    chosen = [run for run in source.runs if len(run.series.get(metric, ()))]
    if not chosen:
        why = _off_the_clock(source.runs) or f"; name one of: {names.listed(held)}"
        raise ValueError(f"{path} ({source.format}) has no values of {metric!r}{why}")
    ticks = clock(source, chosen, [run.series[metric].starts_at for run in chosen], rates)
    curves = [(run, run.series[metric].curve(ticks.times, ticks.per, ticks.offset)) for run in chosen]
    runs = [LoggedRun(run.name, curve, understood(run.arguments)) for run, curve in curves if curve is not None]
    if not runs:
        others = [name for name in seen if name != metric]
        way = f"; name another of: {names.listed(others)}" if others else ""
        raise NotFinite(f"{path}: {metric!r} has no finite value, all of them are NaN or infinite{way}")
    warnings = [*source.warnings, *ticks.warnings, *_about_metric(metric, named, seen), *_about_points(chosen, metric)]
    if len(runs) < len(chosen):
        warnings.append(f"{len(chosen) - len(runs)} runs without a finite {metric!r} were left out")
    return Log(
        path=str(path),
        format=source.format,
        metric=metric,
        metrics=tuple(names.candidates(seen)),
        step=source.step,
        steps=tuple(source.steps),
        unit=ticks.unit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _off_the_clock(runs: list[Found]) -> str:
    """Why there is no point of a curve where values were logged all the same, or nothing."""
    left_out = sum(series.ignored for run in runs for series in run.series.values())
    return f": what it logged ({left_out:,} values) lies at negative or impossible steps" if left_out else ""


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
