"""oneclock's own records: a run's folder or any file of it, or a study's."""

from __future__ import annotations

from pathlib import Path

from oneclock.logs.source import Contents, Found, Wanted
from oneclock.study.files import read_json
from oneclock.study.records import Run

FORMAT = "oneclock record"
_LARGEST = 2**26  # bytes of a curve, which is read whole
_FILES = ("run.json", "curve.jsonl", "result.json")
_HEADERS = ("run.json", "*/run.json", "runs/*/*/run.json")  # of a run, an experiment in a study, a study


def sniff(path: Path) -> bool:
    folder = path.parent if path.name in _FILES else path
    return any(_is_record(header) for pattern in _HEADERS for header in folder.glob(pattern))


def load(path: Path, wanted: Wanted) -> Contents:
    folder = path.parent if path.name in _FILES else path
    runs = []
    for run in _runs(folder):
        if (run.path / "curve.jsonl").exists() and (run.path / "curve.jsonl").stat().st_size > _LARGEST:
            raise ValueError(
                f"{run.path}/curve.jsonl has more than {_LARGEST // 2**20} MB; it is not an evaluation record"
            )
        beta = run.identity.beta
        pair = beta if isinstance(beta, tuple) else (beta, beta)
        found = Found(run.identity.folder, {"betas": pair, "max_steps": run.identity.budget})
        for point in run.points():
            for metric, loss in (("val_loss", point.val_loss), ("train_loss", point.train_loss)):
                if loss is not None:
                    found.add(metric, point.step, loss, wanted)
        runs.append(found)
    return Contents(FORMAT, runs)


def _runs(folder: Path) -> list[Run]:
    headers = next(found for pattern in _HEADERS if (found := sorted(folder.glob(pattern))) or pattern == _HEADERS[-1])
    runs = [Run.read(header.parent) for header in headers]
    experiments = sorted({run.identity.experiment for run in runs})
    if len(experiments) > 1:
        raise ValueError(f"{folder} holds the experiments {', '.join(experiments)}; name the folder of one, in runs/")
    return runs


def _is_record(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        return "budget" in read_json(path)
    except (ValueError, RecursionError):
        return False
