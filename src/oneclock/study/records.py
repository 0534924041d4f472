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
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

from oneclock.guards import LARGEST_CURVE
from oneclock.horizon import Curve
from oneclock.study.claims import check_held
from oneclock.study.evaluations import Evaluations, Point, whole_step
from oneclock.study.files import Damaged, sweep_asides, unsealed, write_aside, write_json
from oneclock.study.identity import Identity, differences, tied_of
from oneclock.study.places import Files, Folder, places

Status = Literal["finished", "diverged", "failed"]
"""How a run ended: `finished` its budget, `diverged` (a loss that is not finite), or `failed` (reason says why)."""
_STATUSES = frozenset(get_args(Status))


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


class Run:
    """A run's folder: opened with `start` to write it, with `read` to read it.

    >>> import tempfile
    >>> identity = Identity("digits", beta=0.9, seed=1, budget=200)
    >>> run = Run.start(Path(tempfile.mkdtemp()) / "runs" / identity.folder, identity)
    >>> run.log(100, val_loss=2.0); run.log(200, val_loss=1.5)
    >>> run.finish("finished", seconds=3.0).best_step
    200
    """

    def __init__(
        self, path: str | Path, identity: Identity, environment: Mapping[str, Any], files: Files | None = None
    ) -> None:
        self._place, self.identity, self.environment = path, identity, environment
        self._files = files or Folder(path)

    @cached_property
    def path(self) -> Path:
        """Its folder; made when asked for, since of ten thousand runs it takes its time."""
        return Path(self._place)

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
    def read(cls, path: str | Path, files: Files | None = None) -> Run:
        """Open the folder (or `files` in its place) to read. A foreign or damaged record is refused in one line."""
        files = files or Folder(path)
        data = files.read("run.json")
        if data is None:
            raise ValueError(f"{path}/run.json is missing: this is not a record of oneclock")
        header = unsealed(data, f"{path}/run.json")
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
        return cls(path, identity, header.get("environment", {}), files)

    def log(self, step: int, val_loss: float | None = None, train_loss: float | None = None) -> None:
        """Append one evaluation, handed to the disk before this returns; `Held` where another took the run over."""
        losses = {"val_loss": val_loss, "train_loss": train_loss}
        line = {"step": whole_step(step)} | {
            name: _json_loss(loss) for name, loss in losses.items() if loss is not None
        }
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
        assert status in _STATUSES
        data = self._bytes()
        known = Evaluations.read(data, self.path)
        last = known.steps[-1] if known.steps else 0
        result = Result(status, *known.best, last if steps is None else steps, round(seconds, 3), reason)
        write_json(self.path / "result.json", asdict(result) | {"curve": _proof(data)})
        return result

    @property
    def result(self) -> Result | None:
        """How it ended, or None while it has not. `Damaged` where the curve is not as long as it was then."""
        return how_ended(self._files, self._place)[0]

    def points(self) -> list[Point]:
        """All evaluations so far, by step; of a step logged twice the later line counts."""
        return Evaluations.read(self._bytes(), self.path).points

    def whole(self) -> tuple[Result | None, Evaluations]:
        """How it ended and what it measured, compared with one another: `Damaged` where they do not agree."""
        (result, proof), data = (
            how_ended(self._files, self._place),
            self._bytes(),
        )  # in this order: once it has ended, its curve stays
        known = Evaluations.read(data, self._place)
        if proof is not None and proof != _proof(data):
            raise Damaged(f"{self.path}/curve.jsonl is damaged: it does not hold what was written")
        if result is not None and proof is None and not _agree(known, result):
            raise Damaged(f"{self.path}/curve.jsonl is damaged: its best loss is not the one in result.json")
        return result, known

    def curve(self, loss: Literal["val_loss", "train_loss"] = "val_loss") -> Curve | None:
        """The validation (or training) curve, or None where no such loss is finite."""
        pairs = [(p.step, getattr(p, loss)) for p in self.points() if getattr(p, loss) is not None]
        if not any(math.isfinite(value) for _, value in pairs):
            return None
        return Curve([step for step, _ in pairs], [value for _, value in pairs])

    def _bytes(self) -> bytes:
        return self._files.read("curve.jsonl", LARGEST_CURVE) or b""


def how_ended(files: Files, place: str | Path) -> tuple[Result | None, dict[str, Any] | None]:
    """How the run of these files ended, and what proves its curve whole (None in records of schema 1)."""
    data = files.read("result.json")
    if data is None:
        return None, None
    values = unsealed(data, f"{place}/result.json")
    try:
        result = Result(*itemgetter(*Result.__dataclass_fields__)(values))
    except KeyError as error:
        raise ValueError(f"{place}/result.json lacks {error}; it was not written by oneclock") from None
    if result.status not in _STATUSES:
        raise Damaged(f"{place}/result.json is damaged: {result.status!r} is no way to end")
    proof = values.get("curve")
    if proof is not None and proof["bytes"] != (files.length("curve.jsonl") or 0):
        raise Damaged(f"{place}/curve.jsonl is damaged: it was {proof['bytes']} bytes long")
    return result, proof


def named_by(folder: str, data: bytes) -> bool:
    """Whether `run.json`, as it was written, says the beta, rate and seed that the name of its folder says.

    >>> data = b'{\\n "beta": 0.9,\\n "seed": 1,\\n "rate": null,\\n "hash": ""\\n}'
    >>> named_by("digits/beta-0.9-seed-1", data), named_by("digits/beta-0.99-seed-1", data)
    (True, False)
    """
    if (named := tied_of(folder)) is None:
        return False
    beta, rate, seed = named
    told = f'\n "beta": {beta!r},\n "seed": {seed},\n', f'\n "rate": {"null" if rate is None else repr(rate)},\n'
    return all(one.encode() in data for one in told)


def runs_of(study: Path) -> Iterator[Run]:
    """Every run of a study, finished or not, in a fixed order; its folder need not be there where it is packed."""
    for folder, files in places(study):
        if files.length("run.json") is not None:
            yield Run.read(f"{study}/runs/{folder}", files)


def damage(path: Path) -> str | None:
    """Why a run's record cannot be relied on, or None where it can or is not there yet."""
    try:
        if (path / "run.json").exists():
            Run.read(path).whole()
        elif (path / "result.json").exists():
            return f"{path}/result.json has no run.json beside it"
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _agree(known: Evaluations, result: Result) -> bool:
    """Whether a result of schema 1 can be that of the evaluations."""
    beyond = bool(known.steps) and known.steps[-1] > result.steps
    return known.best == (result.best_loss, result.best_step) and not beyond


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
