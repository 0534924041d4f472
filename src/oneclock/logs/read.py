"""From a path to curves: which reader, which metric, which step, and what the user should know about it."""

from __future__ import annotations

import csv
import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import ModuleType

from oneclock.guards import plain_file
from oneclock.horizon import Curve
from oneclock.logs import names
from oneclock.logs.arguments import Arguments, understood
from oneclock.logs.diagnose import describe
from oneclock.logs.formats import csv_file, json_file, mlflow, own_records, tensorboard, terminal, wandb_run
from oneclock.logs.inputs import Table, as_file
from oneclock.logs.log_warnings import about_curves, about_metric, about_points
from oneclock.logs.series import Timeline
from oneclock.logs.source import Contents, RawRun, Wanted
from oneclock.logs.step_units import StepUnit, step_unit
from oneclock.metric import Direction, decide
from oneclock.plain_text import printable

READERS: tuple[ModuleType, ...] = (own_records, mlflow, wandb_run, tensorboard, json_file, csv_file, terminal)
"""The formats, specific ones first: the first whose `sniff` returns True reads the path."""
_MOST_FILES = 1000  # of a folder that is looked through for the one log in it
_LOWER_BY_NAME = Direction(higher_is_better=False, source="name")
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".log", ".txt", ".out", ".db", ".sqlite")


class NotFinite(ValueError):
    """A log with a loss that is never finite: the run diverged from the start."""


@dataclass(frozen=True)
class LoggedRun:
    """One run of a log: its curve, and the arguments it was started with where the log has them.

    The curve is to be minimised: where `higher_is_better`, it has the negated metric.
    """

    name: str
    curve: Curve
    arguments: Arguments = field(default_factory=Arguments)
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
    direction: Direction = _LOWER_BY_NAME

    @property
    def curves(self) -> list[Curve]:
        """One curve per run, to be minimised."""
        return [run.curve for run in self.runs]

    @property
    def is_training(self) -> bool:
        """Whether the metric seems to be a loss on the training data."""
        return names.is_training(self.metric)

    def require_loss(self) -> None:
        """ValueError unless the metric is known to be better when lower, as a comparison of several runs needs it."""
        if self.direction.higher_is_better:
            raise ValueError(f"{self.path}: higher {self.metric!r} is better; log a loss instead, such as 1 - accuracy")
        if self.direction.source == "curve":  # that of a diverged run has the opposite shape
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
        path: A file or a folder of any format in docs/advise.md, recognised by its content. A table in memory is read
            too: a DataFrame, or a mapping of column names to columns.
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
    with as_file(path) as (file, name):
        reader, log_file = (csv_file, plain_file(file)) if columns is not None else _reader_of(file)
        return replace(read_as(reader, log_file, wanted), path=name)


def read_text(path: str | Path) -> Log:
    """The curve so far in a run's terminal output, captured in a file. One line with a step and a loss is enough."""
    return read_as(terminal, Path(path), Wanted())


def read_as(reader: ModuleType, path: Path, wanted: Wanted) -> Log:
    """Read the path as one format, whatever it looks like. Every problem is a ValueError with one plain line."""
    try:
        return _log(path, reader.load(path, wanted), wanted)
    except ValueError as error:
        raise (NotFinite if isinstance(error, NotFinite) else ValueError)(printable(str(error))) from None
    except (csv.Error, sqlite3.Error, RecursionError, OverflowError) as error:
        raise ValueError(printable(f"{path} looks like {reader.FORMAT} but cannot be read: {error}")) from None


def _reader_of(path: Path) -> tuple[ModuleType, Path]:
    """The reader of a file or folder; of a folder with one log in it, that of the log. ValueError if there is none."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    logs = _logs_among([path if path.is_dir() else plain_file(path)])
    if not logs and path.is_dir():
        files = sorted(islice(path.iterdir(), _MOST_FILES))
        logs = _logs_among(file for file in files if file.is_file() and file.suffix in _SUFFIXES)
    if len(logs) > 1:
        listed = ", ".join(file.name for _, file in logs[:12])
        raise ValueError(printable(f"{path} holds {len(logs)} logs: {listed}; name the one you mean"))
    if not logs:
        raise ValueError(printable(f"{path} is not a log that can be read; it seems to be {describe(path)}"))
    return logs[0]


def _logs_among(paths: Iterable[Path]) -> list[tuple[ModuleType, Path]]:
    return [(reader, path) for path in paths for reader in islice((one for one in READERS if one.sniff(path)), 1)]


def _log(path: Path, source: Contents, wanted: Wanted) -> Log:
    seen = list(dict.fromkeys(metric for run in source.runs for metric in run.metrics))
    metric, chosen = _choose(path, source, wanted, seen)
    series = [run.series[metric] for run in chosen]
    lines = [Timeline(one) for one in series]
    direction = decide(metric, [line.values for line in lines], wanted.higher_is_better)
    if direction is None:
        raise ValueError(
            f"{path}: it is not clear whether higher or lower values of {metric!r} are better; "
            "say it (--higher-is-better or --lower-is-better; in Python higher_is_better=True or False)"
        )
    if direction.higher_is_better:  # 0 and -1 may then be real values
        lines = [Timeline(one, has_placeholders=False) for one in series]
    unit = step_unit(source, chosen, min(line.steps[0] for line in lines) == 0, wanted)
    runs = [
        _run(run, line, unit, direction)
        for run, line in zip(chosen, lines, strict=True)
        if any(map(math.isfinite, line.values))
    ]
    if not runs:
        others = [name for name in seen if name != metric]
        way = f"; name another of: {names.name_list(others)}" if others else ""
        raise NotFinite(f"{path}: {metric!r} has no finite value, all of them are NaN or infinite{way}")
    fraction = next((step for run in runs for step in run.curve.steps if step % 1), None)
    if fraction is not None and unit.unit == "steps" and unit.times == unit.per == 1:
        # It counts thousands, epochs or hours, and would give a wrong beta.
        raise ValueError(
            f"{path} has the step {fraction:g}, but optimizer steps are whole numbers; "
            "name the column that counts them (step, --step), or write the steps out"
        )
    warnings = [
        *source.warnings,
        *unit.warnings,
        *about_metric(metric, direction, seen, requested=wanted.metric is not None),
        *about_points(series, lines, metric),
        *about_curves(runs, metric, unit.unit),
    ]
    if len(runs) < len(chosen):
        warnings.append(f"left out: {names.counted(len(chosen) - len(runs), 'run')} without a finite {metric!r}")
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


def _run(run: RawRun, line: Timeline, unit: StepUnit, direction: Direction) -> LoggedRun:
    losses = [-value for value in line.values] if direction.higher_is_better else line.values
    arguments = understood(run.arguments, run.logged_arguments)
    return LoggedRun(run.name, Curve(unit.steps_of(line.steps), losses), arguments, direction.higher_is_better)


def _choose(path: Path, source: Contents, wanted: Wanted, seen: list[str]) -> tuple[str, list[RawRun]]:
    """The metric to read and the runs that have values of it; ValueError if there are none."""
    held = {metric for run in source.runs for metric, series in run.series.items() if len(series)}
    left_out = sum(series.ignored for run in source.runs for series in run.series.values())
    why = f": its {left_out:,} values are at negative or impossible steps" if left_out else ""
    if not seen or (wanted.metric is None and not held):
        raise ValueError(f"{path} ({source.format}) holds no curve{why}; it has: {names.name_list(seen)}")
    metric = names.choose_metric(seen, wanted.metric, path)
    runs = [run for run in source.runs if len(run.series.get(metric, ()))]
    if not runs:
        why = why or f"; name one of: {names.name_list(held)}"
        raise ValueError(f"{path} ({source.format}) has no values of {metric!r}{why}")
    return metric, runs
