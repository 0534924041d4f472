"""A run's record on disk: the narrow waist between what trains and what analyses. Standard library only.

    STUDY/runs/EXPERIMENT/beta-0.94377-seed-1/
      run.json      identity, spec and its hash, environment; written first
      curve.jsonl   one JSON object per evaluation: step, val_loss, train_loss (null where not finite); appended
      result.json   status, best loss and step, steps, seconds, reason, the curve's length and checksum; written once
      checkpoint/   only while unfinished; belongs to whatever trains

A run is finished when `result.json` is there, and only then. Every file is plain JSON, in UTF-8, and is compared with
what proves it whole whenever it is read (`oneclock.study.files`). Nothing here is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from oneclock.guards import LARGEST_CURVE, small_file
from oneclock.horizon import Curve
from oneclock.study.claims import check_held
from oneclock.study.files import Damaged, read_json, sweep_asides, write_aside, write_json
from oneclock.study.identity import Identity, differences

Status = Literal["finished", "diverged", "failed"]
"""How a run ended: `finished` its budget, `diverged` (a loss that is not finite), or `failed` (reason says why)."""


@dataclass(frozen=True)
class Result:
    """How a run ended. `best_loss` and `best_step` are None where no validation loss was finite."""

    status: Status
    best_loss: float | None
    best_step: int | None
    steps: int
    seconds: float
    reason: str | None = None

    @property
    def loss(self) -> float:
        """What the run counts for where betas are compared: infinite where it diverged, NaN where it failed."""
        if self.status == "failed":
            return math.nan
        return math.inf if self.status == "diverged" or self.best_loss is None else self.best_loss


@dataclass(frozen=True)
class Point:
    """One evaluation; a loss is None where it was not measured and NaN where it was not finite."""

    step: int
    val_loss: float | None = None
    train_loss: float | None = None


class Run:
    """A run's folder: opened with `start` to write it, with `read` to read it.

    >>> import tempfile
    >>> identity = Identity("digits", beta=0.9, seed=1, budget=200)
    >>> run = Run.start(Path(tempfile.mkdtemp()) / "runs" / identity.folder, identity)
    >>> run.log(100, val_loss=2.0); run.log(200, val_loss=1.5)
    >>> run.finish("finished", seconds=3.0).best_step
    200
    """

    def __init__(self, path: Path, identity: Identity, environment: Mapping[str, Any]) -> None:
        self.path, self.identity, self.environment = path, identity, environment

    @classmethod
    def start(cls, path: Path, identity: Identity, environment: Mapping[str, Any] | None = None) -> Run:
        """Open the folder to write: new, or one of the very same identity to go on with."""
        path = Path(path)
        if (path / "run.json").exists():
            run = cls.read(path)
            if run.identity.hash != identity.hash:
                changed = ", ".join(differences(run.identity.named, identity.named))
                raise ValueError(
                    f"{path} holds a different run ({changed}); choose another folder or the same settings"
                )
            sweep_asides(path)
            _drop_torn_line(path / "curve.jsonl")
            return run
        path.mkdir(parents=True, exist_ok=True)
        sweep_asides(path)
        run = cls(path, identity, dict(environment or {}))
        header = asdict(identity) | {"hash": identity.hash, "environment": run.environment}
        write_json(path / "run.json", header)
        return run

    @classmethod
    def read(cls, path: Path) -> Run:
        """Open the folder to read. A foreign, newer or damaged record is refused in one line."""
        header = read_json(Path(path) / "run.json")
        try:
            beta, rate = header["beta"], header.get("rate")
            identity = Identity(
                experiment=str(header["experiment"]),
                beta=(float(beta[0]), float(beta[1])) if isinstance(beta, list) else float(beta),
                seed=int(header["seed"]),
                budget=int(header["budget"]),
                rate=None if rate is None else float(rate),
                split=str(header["split"]),
                spec=header["spec"],
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"{path}/run.json is not a run of oneclock: {error!r}") from None
        return cls(Path(path), identity, header.get("environment", {}))

    def log(self, step: int, val_loss: float | None = None, train_loss: float | None = None) -> None:
        """Append one evaluation, handed to the disk before this returns; `Held` where another took the run over."""
        losses = {"val_loss": val_loss, "train_loss": train_loss}
        line = {"step": step} | {name: _json_loss(loss) for name, loss in losses.items() if loss is not None}
        with open(self.path / "curve.jsonl", "ab") as file:
            check_held(self.path)  # once it is open: whoever takes over begins with a curve of its own
            file.write((json.dumps(line) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def rewind(self, step: int) -> None:
        """Forget evaluations after `step`: those a resumed run is about to repeat."""
        self.replace([point for point in self.points() if point.step <= step])

    def replace(self, kept: Sequence[Point]) -> None:
        """Have these evaluations, all at once, in place of those that are there."""
        lines = [json.dumps({"step": p.step} | _losses(p)) + "\n" for p in kept]
        write_aside(self.path / "curve.jsonl", "".join(lines))

    def finish(self, status: Status, seconds: float, steps: int | None = None, reason: str | None = None) -> Result:
        """Write the result, once: from here on the run is finished."""
        assert status in get_args(Status)
        data = self._bytes()
        points = _points(data, self.path)
        best_loss, best_step = _best(points)
        last = max((p.step for p in points), default=0)
        result = Result(status, best_loss, best_step, last if steps is None else steps, round(seconds, 3), reason)
        write_json(self.path / "result.json", asdict(result) | {"curve": _proof(data)})
        return result

    @property
    def result(self) -> Result | None:
        """How it ended, or None while it has not. `Damaged` where the curve is not as long as it was then."""
        return self._ended()[0]

    def points(self) -> list[Point]:
        """All evaluations so far, by step; of a step logged twice the later line counts."""
        return _points(self._bytes(), self.path)

    def verified(self) -> list[Point]:
        """The evaluations of a run that has ended, compared with its result: `Damaged` where they do not agree."""
        data, (result, proof) = self._bytes(), self._ended()
        points = _points(data, self.path)
        if result is None:
            return points
        if proof is not None and proof != _proof(data):
            raise Damaged(f"{self.path}/curve.jsonl is damaged: it does not hold what was written")
        if proof is None and (_best(points) != (result.best_loss, result.best_step) or _beyond(points, result)):
            raise Damaged(f"{self.path}/curve.jsonl is damaged: its best loss is not the one in result.json")
        return points

    def curve(self, loss: Literal["val_loss", "train_loss"] = "val_loss") -> Curve | None:
        """The validation (or training) curve, or None where no such loss is finite."""
        pairs = [(p.step, getattr(p, loss)) for p in self.points() if getattr(p, loss) is not None]
        if not any(math.isfinite(value) for _, value in pairs):
            return None
        return Curve([step for step, _ in pairs], [value for _, value in pairs])

    def _ended(self) -> tuple[Result | None, dict[str, Any] | None]:
        """How the run ended, and what proves its curve whole (None in records of schema 1)."""
        if not (self.path / "result.json").exists():
            return None, None
        values = read_json(self.path / "result.json")
        try:
            result = Result(**{name: values[name] for name in Result.__dataclass_fields__})
        except KeyError as error:
            raise ValueError(f"{self.path}/result.json lacks {error}; it was not written by oneclock") from None
        if result.status not in get_args(Status):
            raise Damaged(f"{self.path}/result.json is damaged: {result.status!r} is no way to end")
        proof = values.get("curve")
        if proof is not None and proof["bytes"] != self._length():
            raise Damaged(f"{self.path}/curve.jsonl is damaged: it was {proof['bytes']} bytes long")
        return result, proof

    def _bytes(self) -> bytes:
        path = self.path / "curve.jsonl"
        return small_file(path, LARGEST_CURVE).read_bytes() if path.exists() else b""

    def _length(self) -> int:
        path = self.path / "curve.jsonl"
        return path.stat().st_size if path.exists() else 0


def runs_of(study: Path) -> Iterator[Run]:
    """Every run below a study's folder, finished or not, in a fixed order."""
    for header in sorted(Path(study).glob("runs/*/*/run.json")):
        yield Run.read(header.parent)


def damage(path: Path) -> str | None:
    """Why a run's record cannot be relied on, or None where it can or is not there yet."""
    try:
        if (path / "run.json").exists():
            Run.read(path).verified()
        elif (path / "result.json").exists():
            return f"{path}/result.json has no run.json beside it"
    except (ValueError, TypeError) as error:
        return str(error)
    return None


_decode = json.JSONDecoder().decode
"""As `json.loads`, without looking at every line for its encoding, which takes as long as reading it."""


def _points(data: bytes, path: Path) -> list[Point]:
    points = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):  # what follows the last newline is a torn line
        try:
            point = _point(_decode(line.decode()))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise Damaged(f"{path}/curve.jsonl, line {number} is not an evaluation: {error!r}") from None
        points[point.step] = point
    return [points[step] for step in sorted(points)]


def _best(points: list[Point]) -> tuple[float | None, int | None]:
    finite = [(p.val_loss, p.step) for p in points if p.val_loss is not None and math.isfinite(p.val_loss)]
    return min(finite) if finite else (None, None)


def _beyond(points: list[Point], result: Result) -> bool:
    return bool(points) and points[-1].step > result.steps


def _proof(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        data = path.read_bytes()
        if not data.endswith(b"\n") and data:
            os.truncate(path, data.rfind(b"\n") + 1)


def _json_loss(loss: float) -> float | None:
    return float(loss) if math.isfinite(loss) else None


def _losses(point: Point) -> dict[str, float | None]:
    measured = {"val_loss": point.val_loss, "train_loss": point.train_loss}
    return {name: _json_loss(loss) for name, loss in measured.items() if loss is not None}


def _point(values: Mapping[str, Any]) -> Point:
    losses = {
        name: math.nan if values[name] is None else float(values[name])
        for name in ("val_loss", "train_loss")
        if name in values
    }
    if not 0 <= values["step"] < 2**63:
        raise ValueError(f"step {values['step']} is not a step")
    return Point(step=int(values["step"]), **losses)
