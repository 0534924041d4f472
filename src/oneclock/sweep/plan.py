"""A sweep as it was asked for: targets and protocol, the study's folder they fill, and which runs are next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oneclock.study.folder import Row, Study
from oneclock.study.identity import Identity, differences
from oneclock.study.places import is_packed
from oneclock.study.records import Result, Run
from oneclock.sweep import code
from oneclock.sweep import protocol as protocols
from oneclock.sweep.adaptive import BEGAN, Adaptive
from oneclock.sweep.cells import ARMS
from oneclock.sweep.commands import Command
from oneclock.sweep.functions import Function
from oneclock.sweep.named import Named
from oneclock.sweep.protocol import Cell, Losses, Protocol, Step
from oneclock.sweep.targets import Target


class Plan:
    """What a sweep is to do: `Plan(path, targets, protocol)` makes or continues a study, `Plan.read(path)` looks at it.

    With `extend` it may also add to the study in the folder: experiments, betas, rates, seeds, arms, or another
    protocol. With `keep_runs` the runs that are there stay although the code behind them has changed.
    """

    def __init__(
        self,
        path: str | Path,
        targets: Sequence[Target],
        protocol: Protocol,
        *,
        extend: bool = False,
        keep_runs: bool = False,
    ) -> None:
        self.study = Study(path)
        self._folders: dict[str, dict[Cell, str]] = {}
        self.targets, self.protocol, self.extend, self.keep_runs = list(targets), protocol, extend, keep_runs
        before = self.study.header
        had = (before or {}).get("protocol") or {}
        if isinstance(protocol, Adaptive) and had.get("kind") == "adaptive":
            self.protocol = replace(protocol, begin=had.get("begin", BEGAN))
        if extend and before is not None:
            self.protocol = protocols.joined(before["protocol"], self.protocol)
            have = {target.name for target in self.targets}
            self.targets += [_target(one) for one in before["targets"] if _name(one) not in have]
        names = [target.name for target in self.targets]
        if not names or len({*names}) != len(names):
            raise ValueError(f"a study needs one or more targets of different names, got {', '.join(names) or 'none'}")

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """The plan in a study's folder."""
        header = Study.open(path).header
        if header is None:
            raise ValueError(f"{path} has no study.json; the sweep's own command, given again, writes it anew")
        try:
            targets = [_target(values) for values in header["targets"]]
            return cls(path, targets, protocols.protocol_from(**header["protocol"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}/study.json is not a study of oneclock: {error!r}") from None

    @property
    def path(self) -> Path:
        return self.study.path

    @property
    def described(self) -> dict[str, Any]:
        """Targets and protocol as plain data: what makes two studies the same."""
        asked = {tuple(self._protocol(target).seeds) for target in self.targets}
        protocol = replace(self.protocol, seeds=asked.pop()) if len(asked) == 1 else self.protocol
        plain = {
            "targets": [target.described() for target in self.targets],
            "protocol": protocols.as_data(protocol),
        }
        return json.loads(json.dumps(plain))

    def check(self) -> None:
        """ValueError where a target cannot run what is asked, or the folder holds another study; the difference."""
        for target in self.targets:
            self._check_target(target)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; a study needs a folder of its own")
        if (before := self._before()) is not None:
            self._check_code(before)
            self._check_against(before)
        elif (self.path / "runs").is_dir() or is_packed(self.path):
            self._check_runs()
        elif self.path.exists() and any(not path.name.startswith(("claim-", ".")) for path in self.path.iterdir()):
            raise ValueError(f"{self.path} is not empty and holds no study; choose another folder")

    def _check_target(self, target: Target) -> None:
        if self.protocol.arms and (why := target.no_pairs()) is not None:
            raise ValueError(f"untied pairs (--arms) cannot be run: {why}")
        rated = bool(getattr(self.protocol, "rates", ()))
        if not isinstance(target, Named) and (why := target.no_call(rated)) is not None:
            raise ValueError(why)
        if isinstance(target, Command) and not target.takes_seed and len(seeds := self._protocol(target).seeds) > 1:
            asked = ", ".join(map(str, seeds))
            raise ValueError(f"the command has no {{seed}}: seeds {asked} would repeat one run; add {{seed}} to it")

    def _check_code(self, before: dict[str, Any]) -> None:
        """Changed code is another experiment, unless a person says that its runs are to be kept."""
        if self.keep_runs:
            return
        known = {_name(one): one.get("code") for one in before["targets"] or []}
        for target in self.described["targets"]:
            old, new = known.get(_name(target)), target.get("code")
            if old is not None and new is not None and (changed := code.changed(old, new)):
                raise ValueError(
                    f"the code behind {self.path} has changed since its runs were made ({', '.join(changed)}); keep "
                    "them all the same with --keep-runs (keep_runs=True), or sweep into another folder"
                )

    def _check_against(self, before: dict[str, Any]) -> None:
        changed = list(differences(_by_name(before), _by_name(self.described)))
        lost = _left_out(before, self.described)
        if not changed or (self.extend and not lost):
            return
        why = f"{self.path} holds a different study ({'; '.join(changed)})"
        if self.extend:
            raise ValueError(f"{why}; extending adds to it, and this would leave out {lost}")
        way = "" if lost else "extend it (--extend, or extend=True), "
        raise ValueError(f"{why}; give the same settings to continue it, {way}or another folder")

    def _check_runs(self) -> None:
        """A folder that lost its study.json is continued by the command that made its runs, and by no other."""
        by_name = {target.name: target for target in self.targets}
        for folder in self.study.folders():
            identity = self.study.identity(folder)
            target = by_name.get(identity.experiment)
            if target is None:
                raise ValueError(f"{self.path} holds runs of {identity.experiment}, which this sweep has not")
            wanted = target.identity(Cell(identity.beta, identity.seed, identity.rate))
            changed = ", ".join(differences(identity.named, wanted.named))
            if changed and not self.keep_runs:
                raise ValueError(f"{self.path} holds runs of other settings ({changed}); choose another folder")

    @property
    def written(self) -> bool:
        """Whether `study.json` says this very plan."""
        return not self.keep_runs and self._before() == self.described

    def write(self) -> None:
        """Write `study.json` where it is not there yet, or says less, once `check` has seen what is there now.

        Who writes holds the study's claim: others may have written since this plan was checked without it.
        """
        self.check()
        if self.keep_runs:
            self._start_changed_runs_anew()
        if self._before() != self.described:
            self.study.write_header(self.described)

    def _start_changed_runs_anew(self) -> None:
        """An unfinished run of other code is neither the one nor the other: it is set aside."""
        for target in self.targets:
            for cell in self.cells(target):
                folder = self.folder(target, cell)
                path = self.path / "runs" / folder
                if folder in self.study.ended or not (path / "run.json").exists():
                    continue
                if Run.read(path).identity.hash != target.identity(cell).hash:
                    self.study.set_aside(folder)

    def _before(self) -> dict[str, Any] | None:
        """What the folder's study asks for; of a study of schema 1, without the hash that was of a spec's words too."""
        header = self.study.header
        if header is None:
            return None
        before = {name: header.get(name) for name in self.described}
        if header["schema"] < 2:
            now = {_name(one): one for one in self.described["targets"]}
            for one in before["targets"] or []:
                known = now.get(_name(one), {})
                one.update({key: known[key] for key in ("spec", "code") if key in known})
        return before

    def folder(self, target: Target, cell: Cell) -> str:
        """The run's folder below `runs`."""
        return self._places(target).get(cell) or _identity(target, cell).folder

    def _places(self, target: Target) -> dict[Cell, str]:
        """The folders of all cells; kept, for they are asked for at every look at the study."""
        if target.name not in self._folders:
            self._folders[target.name] = {cell: _identity(target, cell).folder for cell in self.cells(target)}
        return self._folders[target.name]

    def folder_of(self, row: Row) -> str:
        """The folder of a run that `rows` told of."""
        return self._folders[row.experiment][Cell(row.beta, row.seed, row.rate)]

    def place(self, target: Target, cell: Cell) -> Path:
        """The run's folder on disk."""
        return self.path / "runs" / self.folder(target, cell)

    def step(self, target: Target) -> Step:
        """What the protocol wants next of a target."""
        step = protocols.next_step(self._protocol(target), self.losses(target), target.budget)
        assert self._places(target).keys() >= {*step.runs}, "a run whose end is not counted would be asked for for ever"
        return step

    def _protocol(self, target: Target) -> Protocol:
        """The protocol with the target's own seeds where nobody chose."""
        return self.protocol if self.protocol.seeds else replace(self.protocol, seeds=target.seeds)

    def losses(self, target: Target) -> Losses:
        """The losses of the target's runs that have ended, for the protocol."""
        ended = self.study.ended
        return {cell: ended[folder].loss for cell, folder in self._places(target).items() if folder in ended}

    def rows(self) -> list[Row]:
        """Every run that has started or is next, by target, beta, rate and seed, baselines last."""
        found = []
        for target in self.targets:
            started = [cell for cell, folder in self._places(target).items() if self._started(folder)]
            cells = {*started, *self.step(target).runs}
            found += [self.row(target, cell) for cell in sorted(cells, key=_order)]
        return found

    def row(self, target: Target, cell: Cell) -> Row:
        """One run as it is now."""
        return self.study.row(self.folder(target, cell), _identity(target, cell))

    def remember(self, target: Target, cell: Cell, result: Result) -> None:
        """Count a run as ended, whether or not the disk took its record."""
        self.study.remember(self.folder(target, cell), result)

    def _started(self, folder: str) -> bool:
        return folder in self.study.ended or (self.path / "runs" / folder).exists()

    def cells(self, target: Target) -> list[Cell]:
        """Every cell that the protocol may ask for."""
        rates = getattr(self.protocol, "rates", ()) or (None,)
        betas: list[protocols.Beta] = [*self.protocol.betas, *self.protocol.arms]
        seeds = (*self._protocol(target).seeds, *getattr(self.protocol, "again", ()))
        return [Cell(beta, seed, rate) for beta in betas for rate in rates for seed in seeds]


def _identity(target: Target, cell: Cell) -> Identity:
    """What names a run's folder and its row, without the spec that `Target.identity` reads."""
    return Identity(target.name, cell.beta, cell.seed, target.budget, rate=cell.rate)


def usual_arms(path: Path, targets: Sequence[Target]) -> tuple[tuple[float, float], ...]:
    """The pairs beside a sweep where nobody chose: the study's own, else the usual ones if every target takes them.

    A function may take pairs or not, and does not say: it gets none.

    >>> usual_arms(Path("new"), [Named("vit-digits", 100)])
    ((0.9, 0.999), (0.9, 0.95))
    >>> usual_arms(Path("new"), [Command("mine", 100, "train {beta}")])
    ()
    """
    if (header := Study(path).header) is not None:
        return tuple((one, two) for one, two in (header.get("protocol") or {}).get("arms") or ())
    able = all(not isinstance(target, Function) and target.no_pairs() is None for target in targets)
    return ARMS if able else ()


def _target(values: dict[str, Any]) -> Target:
    if "experiment" in values:
        return Named(values["experiment"], values["budget"], tuple(values["settings"]), values.get("processes", 1))
    made: dict[str, Any] = {"code": values.get("code") or {}, "processes": values.get("processes", 1)}
    if "function" in values:
        return Function(values["name"], values["budget"], values["function"], **made)
    said = {name: values[name] for name in ("name", "budget", "command", "log")}
    return Command(**said, **made)


def _name(described: dict[str, Any]) -> str:
    return str(described.get("experiment") or described.get("name"))


def _by_name(described: dict[str, Any]) -> dict[str, Any]:
    """Targets keyed by their name, so that a difference is shown where it is; code is compared by itself."""
    targets = described.get("targets") or []
    return described | {"targets": {_name(one): {k: v for k, v in one.items() if k != "code"} for one in targets}}


def _left_out(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The experiments, betas, rates, seeds and arms of the one study that the other lacks."""
    targets = _by_name(after)["targets"]
    lost = [("the experiment", name) for name, one in _by_name(before)["targets"].items() if targets.get(name) != one]
    for name in ("betas", "rates", "seeds", "arms", "again"):
        asked = (before["protocol"] or {}).get(name) or []
        lost += [(name.removesuffix("s"), one) for one in asked if one not in (after["protocol"].get(name) or [])]
    return ", ".join(f"{kind} {value}" for kind, value in lost)


def _order(cell: Cell) -> tuple[Any, ...]:
    pair = isinstance(cell.beta, tuple)
    return pair, cell.beta if pair else (cell.beta,), cell.rate or 0.0, cell.seed
