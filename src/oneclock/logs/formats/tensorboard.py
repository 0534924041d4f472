"""TensorBoard event files, or a folder of them, read without tensorboard: every point, without sampling."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.formats import event, tfrecord
from oneclock.logs.source import Contents, RawRun, Wanted
from oneclock.metric import words as metric_words

FORMAT = "TensorBoard events"
_MOST_FILES = 4096
_PARTS = frozenset({"train", "training", "val", "valid", "validation", "eval", "evaluation", "dev", "test"})


def sniff(path: Path) -> bool:
    return next(_event_files(path), None) is not None if path.is_dir() else _is_event_file(path)


def load(path: Path, wanted: Wanted) -> Contents:
    """Event files of one folder are one run, merged in the order they were begun; subfolders are further runs.

    Folders named after a part of the data (`validation`, `loss_val`) belong to the run above them.
    """
    files = sorted(islice(_event_files(path), _MOST_FILES + 1)) if path.is_dir() else [path]
    if len(files) > _MOST_FILES:
        raise ValueError(f"{path} holds more than {_MOST_FILES} event files; name the folder of one run")
    runs: dict[Path, RawRun] = {}
    warnings = []
    for file in files:
        folder, prefix = file.parent, ""
        if folder != path and path.is_dir() and metric_words(folder.name) & _PARTS:
            folder, prefix = folder.parent, f"{folder.name}/"
        run = runs.setdefault(folder, RawRun(_label(folder, path)))
        warnings += [f"{file.name}: {warning}" for warning in _read_file(file, run, prefix, wanted)]
    seen = [metric for run in runs.values() for metric in run.metrics]
    if not seen:
        raise ValueError(f"{path} holds no scalars" + "".join(f"; {warning}" for warning in warnings))
    metric = names.choose_metric(seen, wanted.metric, path)
    _hand_up_arguments(runs, metric)
    # Keras logs `epoch_loss` over epochs; everyone else logs over steps.
    step = "epoch" if metric.split("/")[-1].startswith("epoch_") else "step"
    return Contents(FORMAT, list(runs.values()), step, [step], warnings)


def _is_event_file(path: Path) -> bool:
    if not tfrecord.starts_with_record(path):
        return False
    first = next(iter(tfrecord.Records(path)), None)
    return first is None or b"brain.Event:" in first.data[:64]


def _event_files(folder: Path) -> Iterator[Path]:
    return (path for path in guards.files(folder) if "tfevents" in path.name and _is_event_file(path))


def _label(folder: Path, path: Path) -> str:
    relative = folder.relative_to(path) if path.is_dir() and folder != path else Path()
    return str(relative) if relative.parts else folder.name


def _read_file(path: Path, run: RawRun, prefix: str, wanted: Wanted) -> list[str]:
    """Add an event file's values to the run; returns warnings."""
    records = tfrecord.Records(path)
    damaged = sum(not _add_event(record, run, prefix, wanted) for record in records)
    warnings = [records.damage] if records.damage else []
    if damaged:
        warnings.append(f"{damaged:,} damaged records were left out")
    return warnings


def _add_event(record: tfrecord.Record, run: RawRun, prefix: str, wanted: Wanted) -> bool:
    """Add the content of one event; returns whether its record is intact. Only kept values are checked."""
    try:
        parsed = event.parse(record.data)
        if parsed.restarts and parsed.step > 0:  # with purge: later values are dropped
            record.check()
            for series in run.series.values():
                series.forget_from(parsed.step)
        for tag, value in event.values(parsed.summary):
            name, scalar = prefix + tag.decode(errors="replace"), event.number_in(value)
            if scalar is not None and run.holds(name, wanted):
                record.check()
                run.series[name].add(parsed.step, scalar)
            elif scalar is None and (arguments := event.arguments(tag, value)):
                record.check()
                run.arguments.update(arguments)
    except ValueError:
        return False
    return True


def _hand_up_arguments(runs: dict[Path, RawRun], metric: str) -> None:
    """Hyperparameters that torch's SummaryWriter puts into a folder of their own belong to the run above it."""
    for folder, run in runs.items():
        if run.arguments and metric not in run.series:
            above = next((runs[parent] for parent in folder.parents if metric in _series(runs, parent)), None)
            if above is not None:
                above.arguments = run.arguments | above.arguments


def _series(runs: dict[Path, RawRun], folder: Path) -> Collection[str]:
    return runs[folder].series if folder in runs else ()
