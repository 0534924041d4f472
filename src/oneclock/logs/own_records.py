"""oneclock's own records: a run's folder or any file of it, or a study's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oneclock.logs.source import Found, Source, Wanted
from oneclock.records import Run, read_json, runs_of

FORMAT = "oneclock record"
_LARGEST = 2**26  # bytes of a curve, which is read whole
_FILES = ("run.json", "curve.jsonl", "result.json")


def sniff(path: Path) -> bool:
    folder = path.parent if path.name in _FILES else path
    return _is_record(folder / "run.json") or any(map(_is_record, folder.glob("runs/*/*/run.json")))


def load(path: Path, wanted: Wanted) -> Source:
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
    return Source(FORMAT, runs)


def _runs(folder: Path) -> Iterator[Run]:
    if (folder / "run.json").exists():
        yield Run.read(folder)
    else:
        yield from runs_of(folder)


def _is_record(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        return "budget" in read_json(path)
    except (ValueError, RecursionError):
        return False
