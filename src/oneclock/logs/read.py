"""From a path to curves: which reader, which metric, which step, and what the user should know about it."""

from __future__ import annotations

import csv
import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oneclock.guards import plain_file
from oneclock.horizon import Curve
from oneclock.logs import names
from oneclock.logs.arguments import Arguments, understood
from oneclock.logs.diagnose import describe
from oneclock.logs.formats import (
    dvclive,
    json_document,
    json_lines,
    lightning_csv,
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
from oneclock.logs.formats.folder import FolderReader
from oneclock.logs.inputs import Table, as_file
from oneclock.logs.log_warnings import about_curves, about_metric, about_points
from oneclock.logs.series import MetricSeries, placeholders_in
from oneclock.logs.source import Contents, RawRun, Reader, Wanted
from oneclock.logs.step_units import step_unit
from oneclock.logs.timeline import Timeline
from oneclock.metric import LOWER_BY_NAME, Direction, decide
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
    json_document,
    json_lines,
    plain_csv,
    terminal,
)
"""The formats of files, specific ones first: the first whose `sniff` returns True reads the path."""

FOLDERS: tuple[Reader, ...] = (
    own_records,
    trainer_state,
    mlflow_files,
    lightning_csv,
    dvclive,
    wandb_run,
    tensorboard,
    FolderReader(FILES),
)
"""The same for folders."""


class NotFinite(ValueError):
    """A log with a loss that is never finite: the run diverged from the start."""


@dataclass(frozen=True)
class LoggedRun:
    """One run of a log: its curve, and the arguments it was started with where the log has them.

    The curve is to be minimised: where `higher_is_better`, it holds the negated metric.
    """

    name: str
    curve: Curve
    arguments: Arguments
    higher_is_better: bool = False

    @property
    def values(self) -> tuple[float, ...]:
        """The metric as it was logged."""
        return tuple(-loss for loss in self.curve.losses) if self.higher_is_better else self.curve.losses

    @property
    def diverged_at(self) -> float | None:
        """The step after which no loss is finite; None if the last loss is finite."""
        last = max(index for index, loss in enumerate(self.curve.losses) if math.isfinite(loss))
        return self.curve.steps[last + 1] if last + 1 < len(self.curve.steps) else None


@dataclass(frozen=True)
class Log:
    """What was read: `runs`, the chosen metric and step column with their alternatives, and `warnings`.

    `unit` is what the curves count: steps or, if these are not known, epochs, tokens, samples or evaluations.
    `direction` says which way the metric improves, and how that is known.
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
    direction: Direction = LOWER_BY_NAME

    @property
    def curves(self) -> list[Curve]:
        """One curve per run, to be minimised."""
        return [run.curve for run in self.runs]

    @property
    def is_training(self) -> bool:
        """Whether the metric seems to be a loss on the training data."""
        return names.is_training(self.metric)

    def require_loss(self) -> None:
        """ValueError unless the metric is known to be better when lower, as a comparison of several runs needs it.

        A guess from the curve is not enough here: the curve of a diverged run has the opposite shape.
        """
        if self.direction.higher_is_better:
            raise ValueError(f"{self.path}: higher {self.metric!r} is better; log a loss instead, such as 1 - accuracy")
        if self.direction.source == "curve":
            raise ValueError(f"{self.path}: it is not known that lower {self.metric!r} is better; rename it as a loss")


def read_log(
    path: str | Path | Table,
    metric: str | None = None,
    step: str | None = None,
    *,
    steps_per_epoch: float | None = None,
    tokens_per_step: float | None = None,
    columns: Sequence[str] | None = None,
    higher_is_better: bool | None = None,
) -> Log:
    """Read a log or a folder of logs, whatever wrote it.

    Args:
        path: A file or a folder of any format in docs/advise.md, recognised by its content. A file may be compressed
            with gzip. A table in memory is read too: a DataFrame, or a mapping of column names to columns.
        metric: The validation loss or another metric; guessed from the names by default.
        step: The column or key that counts steps, epochs or tokens; guessed from the names by default.
        steps_per_epoch: Converts a log of epochs to steps.
        tokens_per_step: Converts a log of tokens or samples to steps.
        columns: The names of the columns of a CSV file that has no header.
        higher_is_better: Which way the metric improves. By default its name decides (`oneclock.metric`), else its
            curve, with a warning.

    Returns:
        The runs with their curves and arguments, what was chosen, and in `warnings` what was left out or is doubtful.

    Raises:
        FileNotFoundError: There is nothing at the path.
        ValueError: It holds no curve, or the direction of its metric is unclear; the message says what to do.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("step,loss,val_loss\\n100,2.1,2.0\\n200,1.4,1.5\\n")
    >>> log = read_log(path)
    >>> log.format, log.metric, log.step, log.curves
    ('CSV', 'val_loss', 'step', [Curve(steps=(100, 200), losses=(2.0, 1.5))])
    """
    named = None if columns is None else tuple(columns)
    wanted = Wanted(metric, step, named, higher_is_better, steps_per_epoch, tokens_per_step)
    with as_file(path) as (file, called):
        try:
            log = read_as(plain_csv if columns is not None else _reader_of(file), file, wanted)
        except NotFinite as error:
            raise NotFinite(str(error).replace(str(file), called)) from None
        except ValueError as error:
            raise ValueError(str(error).replace(str(file), called)) from None
    return replace(log, path=called)


def read_text(path: str | Path, metric: str | None = None, *, steps_per_epoch: float | None = None) -> Log:
    """Read the terminal output of a run, captured in a file. The run may still go on.

    Args:
        path: The captured output, with anything between the lines of the curve.
        metric: As printed, words joined by `_`; guessed by default.
        steps_per_epoch: Converts output that names only epochs to steps.

    Returns:
        The curve so far.

    Raises:
        ValueError: No line names a step and a loss.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "output.log"
    >>> _ = path.write_text("hello\\nstep 0: train loss 4.2, val loss 4.3\\nstep 250: train loss 2.4, val loss 2.5\\n")
    >>> read_text(path).curves
    [Curve(steps=(0, 250), losses=(4.3, 2.5))]
    """
    return read_as(terminal, Path(path), Wanted(metric, steps_per_epoch=steps_per_epoch))


def read_as(reader: Reader, path: Path, wanted: Wanted) -> Log:
    """Read the path as one format, whatever it looks like. Every problem is a ValueError with one plain line."""
    try:
        return _log(path, reader.load(path, wanted), wanted)
    except NotFinite as error:
        raise NotFinite(printable(str(error))) from None
    except ValueError as error:
        raise ValueError(printable(str(error))) from None
    except (csv.Error, sqlite3.Error, RecursionError, OverflowError) as error:
        raise ValueError(printable(f"{path} looks like {reader.FORMAT} but cannot be read: {error}")) from None


def _reader_of(path: Path) -> Reader:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_dir():
        plain_file(path)
    for reader in FOLDERS if path.is_dir() else FILES:
        if reader.sniff(path):
            return reader
    raise ValueError(printable(f"{path} is not a log that can be read; {describe(path)}"))


def _log(path: Path, source: Contents, wanted: Wanted) -> Log:
    seen = list(dict.fromkeys(metric for run in source.runs for metric in run.metrics))
    metric, chosen = _chosen(path, source, wanted, seen)
    series = [run.series[metric] for run in chosen]
    direction, lines, left_out = _timelines(path, metric, series, wanted)
    unit = step_unit(source, chosen, min(line.steps[0] for line in lines) == 0, wanted)
    sign = -1 if direction.higher_is_better else 1
    runs = [
        LoggedRun(
            run.name,
            Curve(unit.steps_of(line.steps), [sign * value for value in line.values]),
            understood(run.arguments, run.logged_arguments),
            direction.higher_is_better,
        )
        for run, line in zip(chosen, lines, strict=True)
        if any(map(math.isfinite, line.values))
    ]
    if unit.unit == "steps" and unit.times == unit.per == 1:
        _refuse_fractions(path, [run.curve for run in runs])
    if not runs:
        raise _not_finite(path, metric, seen)
    warnings = [
        *source.warnings,
        *unit.warnings,
        *about_metric(metric, direction, seen, requested=wanted.metric is not None),
        *about_points(series, lines, left_out, metric),
        *about_curves(runs, metric, unit.unit),
    ]
    if len(runs) < len(chosen):
        warnings.append(f"{len(chosen) - len(runs)} runs without a finite {metric!r} were left out")
    return Log(
        path=str(path),
        format=source.format,
        metric=metric,
        metrics=tuple(names.candidates(seen)),
        step=source.step,
        steps=tuple(source.steps),
        unit=unit.unit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
        direction=direction,
    )


def _timelines(
    path: Path, metric: str, series: list[MetricSeries], wanted: Wanted
) -> tuple[Direction, list[Timeline], Counter[float]]:
    """The direction of the metric, its values in the order of their steps, and the placeholders that were left out."""
    placeholders = [placeholders_in(one.points()[1]) for one in series]
    lines = [Timeline(*one.points(without)) for one, without in zip(series, placeholders, strict=True)]
    direction = _direction(path, metric, [line.values for line in lines], wanted)
    if direction.higher_is_better:  # 0 and -1 may then be real values
        return direction, [Timeline(*one.points()) for one in series], Counter()
    left_out = Counter[float]()
    for one, without in zip(series, placeholders, strict=True):
        left_out += Counter(value for value in one.points()[1] if value in without)
    return direction, lines, left_out


def _not_finite(path: Path, metric: str, seen: list[str]) -> NotFinite:
    others = [name for name in seen if name != metric]
    way = f"; name another of: {names.name_list(others)}" if others else ""
    return NotFinite(f"{path}: {metric!r} has no finite value, all of them are NaN or infinite{way}")


def _chosen(path: Path, source: Contents, wanted: Wanted, seen: list[str]) -> tuple[str, list[RawRun]]:
    """The metric to read and the runs that have values of it; ValueError if there are none."""
    held = {metric for run in source.runs for metric, series in run.series.items() if len(series)}
    if not seen or (wanted.metric is None and not held):
        why = _no_valid_step(source.runs)
        raise ValueError(f"{path} ({source.format}) holds no curve{why}; it has: {names.name_list(seen)}")
    metric = names.choose_metric(seen, wanted.metric, path)
    runs = [run for run in source.runs if len(run.series.get(metric, ()))]
    if not runs:
        why = _no_valid_step(source.runs) or f"; name one of: {names.name_list(held)}"
        raise ValueError(f"{path} ({source.format}) has no values of {metric!r}{why}")
    return metric, runs


def _direction(path: Path, metric: str, curves: list[Sequence[float]], wanted: Wanted) -> Direction:
    """Which way the metric improves; ValueError if neither the user, nor the name, nor the curves say it."""
    direction = decide(metric, curves, wanted.higher_is_better)
    if direction is None:
        raise ValueError(
            f"{path}: it is not clear whether higher or lower values of {metric!r} are better; "
            "say it (--higher-is-better or --lower-is-better; in Python higher_is_better=True or False)"
        )
    return direction


def _refuse_fractions(path: Path, curves: list[Curve]) -> None:
    """ValueError for a step such as 0.5: it counts thousands, epochs or hours, and would give a wrong beta."""
    fraction = next((step for curve in curves for step in curve.steps if step % 1), None)
    if fraction is not None:
        raise ValueError(
            f"{path} has the step {fraction:g}, but optimizer steps are whole numbers; "
            "name the column that counts them (step, --step), or write the steps out"
        )


def _no_valid_step(runs: list[RawRun]) -> str:
    """Why no point of a curve is left although values were logged; empty if there is no reason."""
    left_out = sum(series.ignored for run in runs for series in run.series.values())
    return f": its {left_out:,} values are at negative or impossible steps" if left_out else ""
