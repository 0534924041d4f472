"""The exported parts of a run: its name, settings, evaluations and result. Plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from oneclock.runs.folder import Point, RunFolder, runs_of
from oneclock.runs.record import RunRecord
from oneclock.runs.store import Study


@dataclass(frozen=True)
class Exported:
    """A run that has ended. `name` is unique in its experiment; `ended` is when, in seconds since 1970."""

    experiment: str
    name: str
    given: dict[str, float]
    points: tuple[Point, ...]
    result: RunRecord
    ended: float

    def time_of(self, step: int) -> float:
        """The approximate time of a step, from the run's end and duration."""
        share = min(step / self.result.steps, 1.0) if self.result.steps else 1.0
        return self.ended - (self.result.seconds or 0.0) * (1 - share)

    def losses(self, point: Point) -> dict[str, float]:
        """The losses of an evaluation by name; a loss that is not finite is NaN."""
        named = {"val_loss": point.val_loss, "train_loss": point.train_loss}
        return {name: loss for name, loss in named.items() if loss is not None}


def ended_runs(study: str | Path) -> list[Exported]:
    """The ended runs of a study, checked against their results."""
    path = Study.open(study).path
    ended = [_exported(run, result) for run in runs_of(path) if (result := run.result) is not None]
    if not ended:
        raise ValueError(f"no run of {study} has ended, so there is nothing to export")
    return ended


def _exported(run: RunFolder, result: RunRecord) -> Exported:
    key = run.key
    given: dict[str, float] = (
        {"beta": key.tied_beta} if key.is_tied else dict(zip(("beta1", "beta2"), key.betas, strict=True))
    )
    given |= {"seed": key.seed, "budget": key.budget}
    if key.lr is not None:
        given["lr"] = key.lr
    name = key.folder.partition("/")[2]
    ended = next(path for path in (run.path / "result.json", *run.path.parents) if path.exists()).stat().st_mtime
    return Exported(key.experiment, name, given, tuple(run.whole()[1]), result, ended)


def is_well(run: Exported) -> bool:
    """Whether the run counts with a finite loss."""
    return math.isfinite(run.result.loss)
