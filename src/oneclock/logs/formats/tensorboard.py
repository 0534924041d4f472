"""TensorBoard event files, or a folder of them, read without tensorboard: every point, none sampled."""

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
_BATCH = 4096  # records
_BATCH_BYTES = 2**22
_MOST_TAGS = 2**14
_PARTS = frozenset({"train", "training", "val", "valid", "validation", "eval", "evaluation", "dev", "test"})


def sniff(path: Path) -> bool:
    return next(_event_files(path), None) is not None if path.is_dir() else _is_event_file(path)


def load(path: Path, wanted: Wanted) -> Contents:
    """Event files of one folder are one run, merged in the order they were begun; subfolders are further runs.

    Folders called after a part of the data (`validation`, `loss_val`) belong to the run above them.
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
    records = tfrecord.Records(path)
    batch = _Batch(run, prefix, wanted)
    for record in records:
        batch.take(record)
    batch.flush()
    warnings = [records.damage] if records.damage else []
    if batch.damaged:
        warnings.append(f"{batch.damaged:,} damaged records were left out")
    return warnings


class _Batch:
    """Values on their way into a run: their records' checksums are verified many at a time."""

    def __init__(self, run: RawRun, prefix: str, wanted: Wanted) -> None:
        self._run, self._prefix, self._wanted = run, prefix, wanted
        self._records: list[tfrecord.Record] = []
        self._points: list[tuple[int, str, int, float]] = []  # of which record, metric, step, value
        self._bytes = 0
        self._kept: dict[bytes, str | None] = {}
        self.damaged = 0

    def take(self, record: tfrecord.Record) -> None:
        self._records.append(record)
        self._bytes += len(record.data)
        plain = event.one_scalar(record.data)
        try:
            if plain is not None:
                self._put(plain[1], plain[0], plain[2])
            else:
                self._open(record)
        except ValueError:
            self.damaged += 1
        if len(self._records) >= _BATCH or self._bytes >= _BATCH_BYTES:
            self.flush()

    def _open(self, record: tfrecord.Record) -> None:
        parsed = event.parse(record.data)
        if parsed.restarts and parsed.step > 0 and tfrecord.intact([record])[0]:
            self._restart(parsed.step)
        for tag, value in event.values(parsed.summary):
            scalar = event.scalar(value)
            if scalar is not None:
                self._put(tag, parsed.step, scalar)
            elif (arguments := event.arguments(tag, value)) and tfrecord.intact([record])[0]:
                self._run.arguments.update(arguments)

    def _put(self, tag: bytes, step: int, number: float) -> None:
        name = self._name(tag)
        if name is not None:
            self._points.append((len(self._records) - 1, name, step, number))

    def _name(self, tag: bytes) -> str | None:
        """What the tag is called among the run's metrics, None where it is not kept."""
        if tag not in self._kept:
            name = self._prefix + tag.decode(errors="replace")
            kept = name if self._run.holds(name, self._wanted) else None
            if len(self._kept) >= _MOST_TAGS:
                return kept
            self._kept[tag] = kept
        return self._kept[tag]

    def _restart(self, step: int) -> None:
        """A run restarted at `step` with purge: what it had logged from there on is forgotten."""
        latest = self._records.pop()
        self.flush()
        self._records.append(latest)
        for series in self._run.series.values():
            series.forget_from(step)

    def flush(self) -> None:
        """Hand over what is whole. Of a batch only the records with points in it are worth a checksum."""
        held = sorted({index for index, *_ in self._points})
        whole = dict(zip(held, tfrecord.intact([self._records[index] for index in held]), strict=True))
        for index, name, step, number in self._points:
            if whole[index]:
                self._run.series[name].add(step, number)
        self.damaged += len(whole) - sum(whole.values())
        self._records.clear()
        self._points.clear()
        self._bytes = 0


def _hand_up_arguments(runs: dict[Path, RawRun], metric: str) -> None:
    """Hyperparameters that torch's SummaryWriter puts into a folder of their own belong to the run above it."""
    for folder, run in runs.items():
        if run.arguments and metric not in run.series:
            above = next((runs[parent] for parent in folder.parents if metric in _series(runs, parent)), None)
            if above is not None:
                above.arguments = run.arguments | above.arguments


def _series(runs: dict[Path, RawRun], folder: Path) -> Collection[str]:
    return runs[folder].series if folder in runs else ()
