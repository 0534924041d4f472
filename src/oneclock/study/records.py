"""A run's record on disk: the narrow waist between what trains and what analyses. Standard library only.

    STUDY/runs/EXPERIMENT/beta-0.94377-seed-1/
      run.json      identity, spec and its hash, environment; written first
      curve.jsonl   one JSON object per evaluation: step, val_loss, train_loss (null where not finite); appended
      result.json   status, best loss and step, steps, seconds, reason; written aside and moved, once, at the end
      checkpoint/   only while unfinished; belongs to whatever trains

A run is finished when `result.json` is there, and only then. Every file is plain JSON, in UTF-8; `schema` in
`run.json` and `result.json` is the version of this layout. Nothing here is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from oneclock.horizon import Curve

SCHEMA = 1

Status = Literal["finished", "diverged", "failed"]
"""How a run ended: `finished` its budget, `diverged` (a loss that is not finite), or `failed` (reason says why)."""


@dataclass(frozen=True)
class Identity:
    """What names a run. `beta` is the tied beta; an untied pair (a baseline arm) is a tuple (beta1, beta2)."""

    experiment: str
    beta: float | tuple[float, float]
    seed: int
    budget: int
    split: str = "development"
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """EXPERIMENT/beta-0.94377-seed-1, below the study's `runs`."""
        beta = f"betas-{self.beta[0]!r}-{self.beta[1]!r}" if isinstance(self.beta, tuple) else f"beta-{self.beta!r}"
        return f"{safe_name(self.experiment)}/{beta}-seed-{self.seed}"

    @property
    def hash(self) -> str:
        """Of all of it: two runs with the same hash are the same run."""
        return hash_of(asdict(self))


@dataclass(frozen=True)
class Result:
    """How a run ended. `best_loss` and `best_step` are None where no validation loss was finite."""

    status: Status
    best_loss: float | None
    best_step: int | None
    steps: int
    seconds: float
    reason: str | None = None


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
                changed = ", ".join(differences(asdict(run.identity), asdict(identity)))
                raise ValueError(
                    f"{path} holds a different run ({changed}); choose another folder or the same settings"
                )
            _drop_torn_line(path / "curve.jsonl")
            return run
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, identity, dict(environment or {}))
        header = {"schema": SCHEMA, **asdict(identity), "hash": identity.hash, "environment": run.environment}
        write_json(path / "run.json", header)
        return run

    @classmethod
    def read(cls, path: Path) -> Run:
        """Open the folder to read. A foreign or newer record is refused in one line."""
        header = read_json(Path(path) / "run.json")
        try:
            beta = header["beta"]
            identity = Identity(
                experiment=str(header["experiment"]),
                beta=(float(beta[0]), float(beta[1])) if isinstance(beta, list) else float(beta),
                seed=int(header["seed"]),
                budget=int(header["budget"]),
                split=str(header["split"]),
                spec=header["spec"],
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"{path}/run.json is not a run of oneclock: {error!r}") from None
        return cls(Path(path), identity, header.get("environment", {}))

    def log(self, step: int, val_loss: float | None = None, train_loss: float | None = None) -> None:
        """Append one evaluation, handed to the disk before this returns."""
        losses = {"val_loss": val_loss, "train_loss": train_loss}
        line = {"step": step} | {name: _json_loss(loss) for name, loss in losses.items() if loss is not None}
        with open(self.path / "curve.jsonl", "ab") as file:
            file.write((json.dumps(line) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def rewind(self, step: int) -> None:
        """Forget evaluations after `step`: those a resumed run is about to repeat."""
        kept = [point for point in self.points() if point.step <= step]
        lines = [json.dumps({"step": p.step} | _losses(p)) + "\n" for p in kept]
        _write_aside(self.path / "curve.jsonl", "".join(lines))

    def finish(self, status: Status, seconds: float, steps: int | None = None, reason: str | None = None) -> Result:
        """Write the result, once: from here on the run is finished."""
        assert status in get_args(Status)
        points = self.points()
        finite = [(p.val_loss, p.step) for p in points if p.val_loss is not None and math.isfinite(p.val_loss)]
        best_loss, best_step = min(finite) if finite else (None, None)
        last = max((p.step for p in points), default=0)
        result = Result(status, best_loss, best_step, last if steps is None else steps, round(seconds, 3), reason)
        write_json(self.path / "result.json", {"schema": SCHEMA, **asdict(result)})
        return result

    @property
    def result(self) -> Result | None:
        """How it ended, or None while it has not."""
        if not (self.path / "result.json").exists():
            return None
        values = read_json(self.path / "result.json")
        try:
            return Result(**{name: values[name] for name in Result.__dataclass_fields__})
        except KeyError as error:
            raise ValueError(f"{self.path}/result.json lacks {error}; it was not written by oneclock") from None

    def points(self) -> list[Point]:
        """All evaluations so far, by step; of a step logged twice the later line counts."""
        path = self.path / "curve.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        points = {}
        for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is a torn line
            try:
                point = _point(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(f"{path}, line {number} is not an evaluation: {error!r}") from None
            points[point.step] = point
        return [points[step] for step in sorted(points)]

    def curve(self, loss: Literal["val_loss", "train_loss"] = "val_loss") -> Curve | None:
        """The validation (or training) curve, or None where no such loss is finite."""
        pairs = [(p.step, getattr(p, loss)) for p in self.points() if getattr(p, loss) is not None]
        if not any(math.isfinite(value) for _, value in pairs):
            return None
        return Curve([step for step, _ in pairs], [value for _, value in pairs])


def runs_of(study: Path) -> Iterator[Run]:
    """Every run below a study's folder, finished or not, in a fixed order."""
    for header in sorted(Path(study).glob("runs/*/*/run.json")):
        yield Run.read(header.parent)


def hash_of(value: Any) -> str:
    """A short hash of plain data, the same on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """`name: old -> new` for every leaf that differs between two nested mappings."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{key}.")
        elif json.dumps(old) != json.dumps(new):
            yield f"{prefix}{key}: {json.dumps(old)} -> {json.dumps(new)}"


def safe_name(name: str) -> str:
    """A folder name for any experiment's name: what is not a letter, digit, dot, dash or underscore is escaped."""
    return re.sub(r"[^\w.-]|^\.", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name) or "%00"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of this project's schema; anything else is a ValueError in one line."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: this is not a record of oneclock") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, int):
        raise ValueError(f"{path} is not a record of oneclock: it has no schema")
    if schema > SCHEMA:
        raise ValueError(f"{path} has schema {schema}, newer than this oneclock knows ({SCHEMA}); upgrade oneclock")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write aside, then move: a reader sees the whole file or none."""
    _write_aside(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def _write_aside(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


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
    return Point(step=int(values["step"]), **losses)
