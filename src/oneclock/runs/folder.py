"""The folder of a run, which training code writes and analysis code reads; docs/records.md describes its files.

A run has ended if and only if `result.json` exists. In the curve, text after the last newline is an incomplete line of
a crash, and is dropped. Any other line that is not an evaluation is damage.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from oneclock.guards import LARGEST_CURVE
from oneclock.horizon import Curve
from oneclock.runs.files import Damaged, Files, files_of_runs, sweep_asides, unsealed, write_aside, write_json
from oneclock.runs.key import RunKey, differences
from oneclock.runs.lock import check_held
from oneclock.runs.record import ENDS, End, RunRecord, Status


class Point(NamedTuple):
    """One evaluation; a loss is None if it was not measured and NaN if it was not finite."""

    step: int
    val_loss: float | None = None
    train_loss: float | None = None


def points_of(data: bytes, path: str | Path) -> list[Point]:
    """All evaluations in the bytes of a curve, by step; if a step was logged twice, the later line counts.

    >>> points_of(b'{"step": 100, "val_loss": 2.5}\\n{"step": 200, "val_loss": null}\\n', "run")
    [Point(step=100, val_loss=2.5, train_loss=None), Point(step=200, val_loss=nan, train_loss=None)]
    """
    points = (_point(line, number, path) for number, line in enumerate(data.split(b"\n")[:-1], start=1))
    by_step = {point.step: point for point in points}
    return [by_step[step] for step in sorted(by_step)]


def _point(line: bytes, number: int, path: str | Path) -> Point:
    try:
        row = json.loads(line.decode())
        losses = {name: _loss(row[name]) for name in ("val_loss", "train_loss") if name in row}
        return Point(whole_step(row["step"]), **losses)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise Damaged(f"{path}/curve.jsonl, line {number} is not an evaluation: {error!r}") from None


def _loss(value: Any) -> float:
    return math.nan if value is None else float(value)


def _curve(points: Sequence[Point], name: str) -> Curve | None:
    """The curve of one loss where it was measured; None if no loss is finite."""
    losses = {point.step: loss for point in points if (loss := getattr(point, name)) is not None}
    return Curve([*losses], [*losses.values()]) if any(map(math.isfinite, losses.values())) else None


def _best(points: Sequence[Point]) -> tuple[float | None, int | None]:
    """The smallest finite validation loss and its first step; None if there is none."""
    finite = [(p.val_loss, p.step) for p in points if p.val_loss is not None and math.isfinite(p.val_loss)]
    return min(finite, default=(None, None))


def whole_step(step: Any) -> int:
    """The step as a whole number; ValueError for any other."""
    if not 0 <= step < 2**63 or step != int(step):
        raise ValueError(f"step {step} is not a step: steps are whole numbers from 0")
    return int(step)


_RESULT = ("status", "best_loss", "best_step", "steps", "seconds", "reason")
"""The fields of result.json, besides the checksum of the curve."""


class RunFolder:
    """The folder of a run: open it with `start` to write, with `read` to read.

    >>> import tempfile
    >>> key = RunKey("digits", beta=0.9, seed=1, budget=200)
    >>> run = RunFolder.start(Path(tempfile.mkdtemp()) / "runs" / key.folder, key)
    >>> run.log(100, val_loss=2.0); run.log(200, val_loss=1.5)
    >>> run.finish("finished", seconds=3.0).best_step
    200
    """

    def __init__(
        self, path: str | Path, key: RunKey, environment: Mapping[str, Any], files: Files | None = None
    ) -> None:
        self.path, self.key, self.environment = Path(path), key, environment
        self._files = files or Files(path)
        self._process = os.getpid()

    @classmethod
    def start(cls, path: Path, key: RunKey, environment: Mapping[str, Any] | None = None) -> RunFolder:
        """Open the folder to write: a new one, or one of the same run to continue."""
        path = Path(path)
        if (path / "run.json").exists():
            run = cls.read(path)
            if run.key.hash != key.hash:
                other = f"a different run ({', '.join(differences(run.key.content, key.content))})"
                raise ValueError(f"{path} holds {other}; choose another folder or the same settings")
            check_held(path)
            sweep_asides(path)
            if not (data := run._bytes()).endswith(b"\n") and data:  # an incomplete line of a crash
                os.truncate(path / "curve.jsonl", data.rfind(b"\n") + 1)
            return run
        path.mkdir(parents=True, exist_ok=True)
        sweep_asides(path)
        run = cls(path, key, dict(environment or {}))
        header = {name: getattr(key, name) for name in ("experiment", "beta", "seed", "budget", "split", "spec")}
        header |= {"rate": key.lr, "hash": key.hash, "environment": run.environment}
        write_json(path / "run.json", header)
        return run

    @classmethod
    def read(cls, path: str | Path, files: Files | None = None) -> RunFolder:
        """Open the folder (or `files` instead of it) to read. ValueError if it is damaged or not of oneclock."""
        files = files or Files(path)
        data = files.read("run.json")
        if data is None:
            raise ValueError(f"{path}/run.json is missing: this is not a record of oneclock")
        header = unsealed(data, f"{path}/run.json")
        try:
            name, split = str(header["experiment"]), str(header["split"])
            beta, seed, budget, spec = (header[one] for one in ("beta", "seed", "budget", "spec"))
            key = RunKey(name, beta, seed, budget, header.get("rate"), split, spec)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"{path}/run.json is not a run of oneclock: {error!r}") from None
        return cls(path, key, header.get("environment", {}), files)

    def log(
        self,
        step: int,
        val_loss: float | None = None,
        train_loss: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Append one evaluation and flush it to the disk; `metrics` are not used to compare runs.

        `Held` if another process has taken the run over.
        """
        line = _line(whole_step(step), val_loss, train_loss)
        if metrics:
            line["metrics"] = _json(metrics)
        with open(self.path / "curve.jsonl", "ab") as file:
            check_held(self.path)  # after opening it: a process that takes over starts a new curve file
            file.write((json.dumps(line) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def rewind(self, step: int) -> None:
        """Drop evaluations after `step`, which a resumed run will repeat."""
        lines = [line for line in self._bytes().split(b"\n")[:-1] if json.loads(line)["step"] <= step]
        write_aside(self.path / "curve.jsonl", "".join(f"{line.decode()}\n" for line in lines))

    def replace(self, kept: Sequence[Point]) -> None:
        """Replace all evaluations by these, at once."""
        write_aside(self.path / "curve.jsonl", "".join(json.dumps(_line(*point)) + "\n" for point in kept))

    def finish(self, status: End, seconds: float, steps: int | None = None, reason: str | None = None) -> RunRecord:
        """Write the result, once: the run has now ended."""
        assert status in ENDS
        if os.getpid() != self._process:
            raise RuntimeError(f"{self.path} was opened by another process: a forked child cannot end its parent's run")
        data = self._bytes()
        points = points_of(data, self.path)
        best_loss, best_step = _best(points)
        result = {
            "status": status,
            "best_loss": best_loss,
            "best_step": best_step,
            "steps": (points[-1].step if points else 0) if steps is None else steps,
            "seconds": round(seconds, 3),
            "reason": reason,
        }
        write_json(self.path / "result.json", result | {"curve": _proof(data)})
        return self._ended(result)

    @property
    def result(self) -> RunRecord | None:
        """How it ended, or None while it has not. `Damaged` if the curve has another length than at the end."""
        return None if (values := self._result()) is None else self._ended(values)

    def _ended(self, values: Mapping[str, Any]) -> RunRecord:
        return RunRecord(self.key, **{name: values[name] for name in _RESULT}, environment=self.environment)

    def _result(self) -> dict[str, Any] | None:
        """The checked content of result.json; None if it is missing."""
        if (data := self._files.read("result.json")) is None:
            return None
        values = unsealed(data, f"{self.path}/result.json")
        if absent := [name for name in _RESULT if name not in values]:
            raise ValueError(f"{self.path}/result.json lacks {absent[0]!r}; it was not written by oneclock")
        if values["status"] not in ENDS:
            raise Damaged(f"{self.path}/result.json is damaged: {values['status']!r} is not a final status")
        proof = values.get("curve")
        if proof is not None and proof["bytes"] != (self._files.length("curve.jsonl") or 0):
            raise Damaged(f"{self.path}/curve.jsonl is damaged: it was {proof['bytes']} bytes long")
        return values

    def points(self) -> list[Point]:
        """All evaluations so far, by step."""
        return points_of(self._bytes(), self.path)

    def whole(self) -> tuple[RunRecord | None, list[Point]]:
        """Its result and its evaluations, checked against each other: `Damaged` if they do not agree."""
        values = self._result()  # read before the curve: after a run has ended, its curve does not change
        data = self._bytes()
        points = points_of(data, self.path)
        if values is None:
            return None, points
        proof = values.get("curve")
        if proof is not None and proof != _proof(data):
            raise Damaged(f"{self.path}/curve.jsonl is damaged: it has changed since it was written")
        beyond = bool(points) and points[-1].step > values["steps"]
        if proof is None and (beyond or _best(points) != (values["best_loss"], values["best_step"])):  # of schema 1
            raise Damaged(f"{self.path}/curve.jsonl is damaged: its best loss is not the one in result.json")
        return self._ended(values), points

    def record(self) -> RunRecord | None:
        """Its record with its curves; None while it has not ended. `Damaged` if its files do not agree."""
        result, points = self.whole()
        if result is None or result.status == "failed":
            return result
        val, train = _curve(points, "val_loss"), _curve(points, "train_loss")
        return replace(result, best_train_loss=None if train is None else train.best_loss, val=val, train=train)

    def state(self, status: Status) -> RunRecord:
        """Its record so far, while it has not ended."""
        points = self.points()
        return RunRecord(self.key, status, points[-1].step if points else 0, *_best(points))

    def _bytes(self) -> bytes:
        return self._files.read("curve.jsonl", LARGEST_CURVE) or b""


def runs_of(study: Path) -> Iterator[RunFolder]:
    """Every run of a study, ended or not, in a fixed order; runs of a packed study have no folder."""
    for folder, files in files_of_runs(study):
        if files.length("run.json") is not None:
            yield RunFolder.read(f"{study}/runs/{folder}", files)


def damage(path: Path) -> str | None:
    """Why a run's record cannot be trusted; None if it can, or does not exist yet."""
    try:
        if (path / "run.json").exists():
            RunFolder.read(path).whole()
        elif (path / "result.json").exists():
            return f"{path}/result.json has no run.json beside it"
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _proof(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _line(step: int, val_loss: float | None, train_loss: float | None) -> dict[str, Any]:
    return {"step": step} | _json({"val_loss": val_loss, "train_loss": train_loss})


def _json(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Measured values for JSON, which has no NaN and no infinity."""
    return {name: float(one) if math.isfinite(one) else None for name, one in values.items() if one is not None}
