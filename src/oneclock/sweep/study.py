"""A sweep's folder: what was asked for, and how far it is. Everything is read from the runs' own records.

STUDY/
  study.json     targets, protocol, and the hash of both
  runs/          one folder per run, see `oneclock.study.records`
  claim-1.json   while a sweep works on it
  torn/          run folders whose record could not be read, set aside
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from oneclock.study import records
from oneclock.study.claims import holder
from oneclock.study.records import Identity, Result, Run
from oneclock.sweep import protocol as protocols
from oneclock.sweep.protocol import Cell, Losses, Protocol, Step
from oneclock.sweep.targets import Command, Function, Named, Target

if TYPE_CHECKING:
    import pandas

State = Literal["waiting", "running", "interrupted", "finished", "diverged", "failed", "torn"]


@dataclass(frozen=True)
class Row:
    """One run of the table. `step` is how far it is; a torn record says so in `reason`."""

    experiment: str
    beta: float | tuple[float, float]
    seed: int
    state: State
    step: int
    budget: int
    best_loss: float | None = None
    best_step: int | None = None
    seconds: float | None = None
    reason: str | None = None


class Study:
    """A sweep on disk: `Study(path, targets, protocol)` makes or continues it, `Study.read(path)` looks at it.

    With `extend` it may also add to the study in the folder: experiments, betas, seeds, arms, or another protocol.
    """

    def __init__(self, path: Path, targets: Sequence[Target], protocol: Protocol, *, extend: bool = False) -> None:
        self.path, self.targets, self.protocol, self.extend = Path(path), list(targets), protocol, extend
        names = [target.name for target in self.targets]
        if not names or len({*names}) != len(names):
            raise ValueError(f"a study needs one or more targets of different names, got {', '.join(names) or 'none'}")
        self._folders: dict[tuple[str, Cell], Path] = {}
        self._results: dict[Path, Result] = {}
        self._unrecorded: dict[Path, Result] = {}

    @classmethod
    def read(cls, path: Path) -> Study:
        """The study in a folder."""
        header = records.read_json(Path(path) / "study.json")
        try:
            targets = [_target(values) for values in header["targets"]]
            return cls(path, targets, protocols.protocol_from(**header["protocol"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}/study.json is not a study of oneclock: {error!r}") from None

    @property
    def described(self) -> dict[str, Any]:
        """Targets and protocol as plain data: what makes two studies the same."""
        plain = {
            "targets": [target.described() for target in self.targets],
            "protocol": protocols.as_data(self.protocol),
        }
        return json.loads(json.dumps(plain))

    def check(self) -> None:
        """ValueError, with the difference, where the folder holds another study."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; a study needs a folder of its own")
        if (self.path / "study.json").exists():
            self._check_against(self._before())
        elif self.path.exists() and any(not path.name.startswith(("claim-", ".")) for path in self.path.iterdir()):
            raise ValueError(f"{self.path} is not empty and holds no study; choose another folder")

    def _check_against(self, before: dict[str, Any]) -> None:
        changed = list(records.differences(_by_name(before), _by_name(self.described)))
        lost = _left_out(before, self.described)
        if not changed or (self.extend and not lost):
            return
        why = f"{self.path} holds a different study ({'; '.join(changed)})"
        if self.extend:
            raise ValueError(f"{why}; extending adds to it, and this would leave out {lost}")
        way = "" if lost else "extend it (--extend, or extend=True), "
        raise ValueError(f"{why}; give the same settings to continue it, {way}or another folder")

    def write(self) -> None:
        """Write `study.json` where it is not there yet, or says less; `check` it first."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / "study.json").exists() or self._before() != self.described:
            value = {"schema": records.SCHEMA, **self.described, "hash": records.hash_of(self.described)}
            records.write_json(self.path / "study.json", value)

    def _before(self) -> dict[str, Any]:
        """What the folder's study asks for."""
        header = records.read_json(self.path / "study.json")
        return {name: header.get(name) for name in self.described}

    def folder(self, target: Target, cell: Cell) -> Path:
        """The run's folder; kept, for it is asked for at every look at the study."""
        key = target.name, cell
        if key not in self._folders:
            identity = Identity(target.name, cell.beta, cell.seed, target.budget)
            self._folders[key] = self.path / "runs" / identity.folder
        return self._folders[key]

    def step(self, target: Target) -> Step:
        """What the protocol wants next of a target."""
        return protocols.next_step(self.protocol, self.losses(target), target.budget)

    def losses(self, target: Target) -> Losses:
        """The losses of the target's runs that have ended, for the protocol."""
        found = {}
        for cell in self._cells(target):
            result = self._result(self.folder(target, cell))
            if result is not None:
                found[cell] = _loss(result)
        return found

    def choice(self, experiment: str | None = None) -> float | None:
        """The best tied beta so far, see `protocol.choice`; of the first target where none is named.

        The seeds of a beta are compared only with as many seeds of another.
        """
        by_name = {target.name: target for target in self.targets}
        name = experiment or self.targets[0].name
        if name not in by_name:
            raise ValueError(f"{self.path} has no experiment {name!r}; it has {', '.join(by_name)}")
        return protocols.choice(self.losses(by_name[name]))

    def rows(self) -> list[Row]:
        """Every run that has started or is next, by target, beta and seed."""
        found = []
        for target in self.targets:
            cells = {*self._cells(target), *self.step(target).runs}
            arms = sorted((cell for cell in cells if isinstance(cell.beta, tuple)), key=_order)
            tied = sorted((cell for cell in cells if not isinstance(cell.beta, tuple)), key=_order)
            found += [self.row(target, cell) for cell in tied + arms]
        return found

    def table(self) -> pandas.DataFrame:
        """`rows` as a pandas table."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rows()], columns=list(Row.__dataclass_fields__))

    def failed(self) -> list[Path]:
        """The folders of the runs that failed."""
        folders = [self.folder(target, cell) for target in self.targets for cell in self._cells(target)]
        return [path for path in folders if (result := self._result(path)) is not None and result.status == "failed"]

    def forget_failed(self) -> int:
        """Make failed runs unfinished, so that the next sweep goes on with them; tells how many."""
        failed = self.failed()
        for path in failed:
            (path / "result.json").unlink()
            self._results.pop(path, None)
        return len(failed)

    def set_torn_aside(self) -> list[tuple[Path, str]]:
        """Move run folders whose record cannot be read to `torn/`, so that they run anew; tells which and why."""
        moved = []
        for target in self.targets:
            for cell in self._cells(target):
                path = self.folder(target, cell)
                if (reason := torn(path)) is not None:
                    place = self.path / "torn" / path.parent.name / path.name
                    while place.exists():
                        place = place.with_name(place.name + "-again")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(place)
                    moved.append((place, reason))
        return moved

    def remember(self, path: Path, result: Result) -> None:
        """Count a run as ended though the disk did not take its record: for this process only."""
        self._unrecorded[path] = result

    def _cells(self, target: Target) -> Iterator[Cell]:
        """The cells of the protocol that have a folder."""
        betas: list[protocols.Beta] = [*self.protocol.betas, *self.protocol.arms]
        for beta in betas:
            for seed in self.protocol.seeds:
                if self.folder(target, Cell(beta, seed)).exists():
                    yield Cell(beta, seed)

    def _result(self, path: Path) -> Result | None:
        """How a run ended; kept, for what has ended does not change. A torn one has not ended."""
        if path not in self._results and (path / "result.json").exists():
            try:
                result = Run.read(path).result
            except ValueError:
                return self._unrecorded.get(path)
            if result is not None:
                self._results[path] = result
        return self._results.get(path, self._unrecorded.get(path))

    def row(self, target: Target, cell: Cell) -> Row:
        """One run as it is now."""
        path = self.folder(target, cell)
        start: dict[str, Any] = {
            "experiment": target.name,
            "beta": cell.beta,
            "seed": cell.seed,
            "budget": target.budget,
        }
        result = self._result(path)
        if result is not None:
            ended = {name: getattr(result, name) for name in ("best_loss", "best_step", "seconds", "reason")}
            return Row(**start, state=result.status, step=result.steps, **ended)
        if (reason := torn(path)) is not None:
            return Row(**start, state="torn", step=0, reason=reason)
        points = Run.read(path).points() if (path / "run.json").exists() else []
        losses = [(p.val_loss, p.step) for p in points if p.val_loss is not None and math.isfinite(p.val_loss)]
        best_loss, best_step = min(losses) if losses else (None, None)
        state: State = "waiting" if not path.exists() else "running" if holder(path) else "interrupted"
        step = points[-1].step if points else 0
        return Row(**start, state=state, step=step, best_loss=best_loss, best_step=best_step)


def torn(path: Path) -> str | None:
    """Why a run's record cannot be read, or None where it can or is not there yet."""
    try:
        if (path / "run.json").exists():
            run = Run.read(path)
            run.points()
            _ = run.result
        elif (path / "result.json").exists():
            return f"{path}/result.json has no run.json beside it"
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _target(values: dict[str, Any]) -> Target:
    if "experiment" in values:
        return Named(values["experiment"], values["budget"], tuple(values["settings"]))
    if "function" in values:
        return Function(values["name"], values["budget"], values["function"])
    return Command(values["name"], values["budget"], values["command"], values["log"])


def _by_name(described: dict[str, Any]) -> dict[str, Any]:
    """Targets keyed by their name: a difference is shown where it is."""
    targets = described.get("targets") or []
    return described | {"targets": {str(one.get("experiment") or one.get("name")): one for one in targets}}


def _left_out(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The experiments, betas, seeds and arms of the one study that the other lacks."""
    lost = [
        ("the experiment", one.get("experiment") or one.get("name"))
        for one in before["targets"] or []
        if one not in after["targets"]
    ]
    for name in ("betas", "seeds", "arms"):
        asked = (before["protocol"] or {}).get(name) or []
        lost += [(name.removesuffix("s"), one) for one in asked if one not in after["protocol"][name]]
    return ", ".join(f"{kind} {value}" for kind, value in lost)


def _loss(result: Result) -> float:
    if result.status == "failed":
        return math.nan
    return math.inf if result.status == "diverged" or result.best_loss is None else result.best_loss


def _order(cell: Cell) -> tuple[Any, int]:
    return cell.beta, cell.seed
