"""oneclock's own records: a run's folder or any file of it, or a study's."""

from __future__ import annotations

from pathlib import Path

from oneclock import guards
from oneclock.logs.source import Contents, RawRun, Wanted
from oneclock.runs.files import PACKED, read_json, unsealed
from oneclock.runs.folder import RunFolder, runs_of

FORMAT = "oneclock record"
_FILES = ("run.json", "curve.jsonl", "result.json", PACKED)
_HEADERS = ("run.json", "*/run.json", "runs/*/*/run.json")  # of a run, an experiment in a study, a study


def sniff(path: Path) -> bool:
    folder = path.parent if path.name in _FILES else path
    headers = (header for pattern in _HEADERS for header in folder.glob(pattern))
    return _is_packed(folder / PACKED) or any(map(_is_record, headers))


def load(path: Path, wanted: Wanted) -> Contents:
    folder = path.parent if path.name in _FILES else path
    packed = _is_packed(folder / PACKED)
    headers = next((files for pattern in _HEADERS if (files := sorted(folder.glob(pattern)))), [])
    runs = list(runs_of(folder)) if packed else [RunFolder.read(header.parent) for header in headers]
    experiments = sorted({run.key.experiment for run in runs})
    if len(experiments) > 1:
        way = "unpack it with `oneclock lab unpack` and " if packed else ""
        listed = ", ".join(experiments)
        raise ValueError(f"{folder} holds the experiments {listed}; {way}name the folder of one, in runs/")
    return Contents(FORMAT, [_run(run, wanted) for run in runs])


def _run(run: RunFolder, wanted: Wanted) -> RawRun:
    beta = run.key.beta
    pair = beta if isinstance(beta, tuple) else (beta, beta)
    raw = RawRun(run.key.folder, {"betas": pair, "max_steps": run.key.budget})
    for point in run.points():
        for metric, loss in (("val_loss", point.val_loss), ("train_loss", point.train_loss)):
            if loss is not None:
                raw.add(metric, point.step, loss, wanted)
    return raw


def _is_packed(path: Path) -> bool:
    """Whether it is the file of a packed study; other files may have the same name."""
    try:
        with open(guards.plain_file(path), "rb") as file:
            return "runs" in unsealed(file.readline(guards.LONGEST_LINE), path)
    except (ValueError, OSError):
        return False


def _is_record(path: Path) -> bool:
    try:
        return "budget" in read_json(path)
    except (ValueError, OSError):
        return False
