"""The plan of a sweep: targets, protocol and the study's folder, and which runs are next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from oneclock.runs import protocols
from oneclock.runs.adaptive import BEGAN, Adaptive
from oneclock.runs.files import is_packed
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey, differences
from oneclock.runs.protocols import BASELINES, OLD_NAMES, Losses, Protocol, Step
from oneclock.runs.record import RunRecord
from oneclock.runs.store import Study
from oneclock.sweep import fingerprint
from oneclock.sweep.targets import Target, name_of, target_from_data


class Plan:
    """What a sweep will do: `Plan(path, targets, protocol)` makes or continues a study, `Plan.read(path)` reads one.

    With `extend` it may also add to the study in the folder: experiments, betas, learning rates, seeds, baselines, or
    another protocol. With `keep_runs` finished runs stay although the code behind them has changed.
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
        self.study, self.path = Study(path), Path(path)
        self._folders: dict[str, dict[RunKey, str]] = {}
        self.targets, self.protocol, self.extend, self.keep_runs = list(targets), protocol, extend, keep_runs
        self._checked: Any = None
        before = self.study.header
        recorded = (before or {}).get("protocol") or {}
        if isinstance(protocol, Adaptive) and recorded.get("kind") == "adaptive":
            self.protocol = replace(protocol, begin=recorded.get("begin", BEGAN))
        if extend and before is not None:
            self.protocol = protocols.extended(before["protocol"], self.protocol)
            have = {target.name for target in self.targets}
            self.targets += [target_from_data(one) for one in before["targets"] if name_of(one) not in have]
        names = [target.name for target in self.targets]
        if not names or len({*names}) != len(names):
            raise ValueError(f"a study needs one or more targets of different names, got {', '.join(names) or 'none'}")

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """The plan in a study's folder."""
        header = Study.open(path).header
        if header is None:
            raise ValueError(f"{path} has no study.json; run the sweep's command again to write it")
        try:
            targets = [target_from_data(values) for values in header["targets"]]
            return cls(path, targets, protocols.protocol_from(**header["protocol"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}/study.json is not a study of oneclock: {error!r}") from None

    @cached_property
    def described(self) -> dict[str, Any]:
        """Targets and protocol as plain data: what makes two studies the same."""
        asked = {tuple(self._protocol(target).seeds) for target in self.targets}
        protocol = replace(self.protocol, seeds=asked.pop()) if len(asked) == 1 else self.protocol
        targets = [target.described() for target in self.targets]
        return json.loads(json.dumps({"targets": targets, "protocol": protocol.as_data()}))

    def check(self) -> None:
        """ValueError if a target cannot run the plan, or the folder holds another study; the message says what differs.

        The check is repeated only if `study.json` has changed meanwhile.
        """
        header = self.study.header
        if self._checked is not None and self._checked == (header,):
            return
        for target in self.targets:
            has_lrs, seeds = bool(getattr(self.protocol, "learning_rates", ())), self._protocol(target).seeds
            if (why := target.why_not(bool(self.protocol.baselines), has_lrs, seeds)) is not None:
                raise ValueError(why)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; a study needs a folder of its own")
        if (before := self._before()) is not None:
            self._check_code(before)
            self._check_against(before)
        elif (self.path / "runs").is_dir() or is_packed(self.path):
            self._check_runs()
        elif self.path.exists() and any(not path.name.startswith(("claim-", ".")) for path in self.path.iterdir()):
            raise ValueError(f"{self.path} is not empty and holds no study; choose another folder")
        self._checked = (header,)

    def _check_code(self, before: Mapping[str, Any]) -> None:
        """Changed code makes another experiment, if a run has finished and finished runs are not to be kept."""
        if self.keep_runs:
            return
        for target, changed in self._changed_code(before):
            if any(self._keeps(key) for key in self.keys(target)):
                way = "keep_runs (--keep-runs) keeps the finished ones and trains the others again"
                since = f"the code behind {self.path} has changed since its runs were made ({', '.join(changed)})"
                raise ValueError(f"{since}; {way}, or choose another folder")

    def check_same_code(self) -> None:
        """ValueError if `study.json` names other code: a worker does not write it."""
        for _, changed in self._changed_code(self._before() or {"targets": None}):
            since = f"the code has changed since the plan of {self.path} was written ({', '.join(changed)})"
            raise ValueError(f"{since}; give the sweep's command again, with --plan-only for workers")

    def _keeps(self, key: RunKey) -> bool:
        """Whether the run has ended and did not fail."""
        end = self.study.ended.get(key.folder)
        return end is not None and end.status != "failed"

    def _changed_code(self, before: Mapping[str, Any]) -> Iterator[tuple[Target, list[str]]]:
        codes = {name_of(one): one.get("code") for one in before["targets"] or []}
        for target, described in zip(self.targets, self.described["targets"], strict=True):
            old, new = codes.get(target.name), described.get("code")
            if old is not None and new is not None and (changed := fingerprint.changed(old, new)):
                yield target, changed

    def _check_against(self, before: dict[str, Any]) -> None:
        changed = list(differences(_by_name(before), _by_name(self.described)))
        lost = _left_out(before, self.described)
        if not changed or (self.extend and not lost):
            return
        why = f"{self.path} holds another study: {'; '.join(map(_in_words, changed))}"
        if self.extend:
            raise ValueError(f"{why}. Extending can only add, but this would leave out {lost}")
        way = "" if lost else "extend it (extend), "
        raise ValueError(f"{why}. Give the same settings to continue it, {way}or choose another folder")

    def _check_runs(self) -> None:
        """A folder without its study.json can only be continued by the command that made its runs."""
        by_name = {target.name: target for target in self.targets}
        for key in self.study.started_keys():
            target = by_name.get(key.experiment)
            if target is None:
                raise ValueError(f"{self.path} holds runs of {key.experiment}, which is not part of this sweep")
            changed = ", ".join(differences(key.content, target.with_spec(key).content))
            if changed and not self.keep_runs:
                raise ValueError(f"{self.path} holds runs of other settings ({changed}); choose another folder")

    @property
    def written(self) -> bool:
        """Whether `study.json` holds exactly this plan."""
        return not self.keep_runs and self._before() == self.described

    def write(self) -> None:
        """Write `study.json` if it is missing or holds less, after `check` has read the present one.

        The caller holds the study's claim: others may have written since this plan was checked without it.
        """
        self.check()
        before = self._before()
        if self.keep_runs or (before is not None and any(self._changed_code(before))):
            for target in self.targets:
                self._start_changed_runs_anew(target)
        if before != self.described:
            self.study.write_header(self.described)
            self._checked = None

    def _start_changed_runs_anew(self, target: Target) -> None:
        """Set aside unfinished runs of other code: otherwise they would mix both."""
        for key in self.keys(target):
            path = self.run_path(key)
            unfinished = (path / "run.json").exists() and not self._keeps(key)
            if unfinished and RunFolder.read(path).key.hash != target.with_spec(key).hash:
                self.study.set_aside(key.folder)

    def _before(self) -> dict[str, Any] | None:
        """The plan in the folder. The hash of schema 1 is left out, because it covered descriptive text too."""
        header = self.study.header
        if header is None:
            return None
        before = {name: header.get(name) for name in self.described}
        before["protocol"] = {OLD_NAMES.get(name, name): one for name, one in (before["protocol"] or {}).items()}
        if header["schema"] < 2:
            now = {name_of(one): one for one in self.described["targets"]}
            for one in before["targets"] or []:
                same = now.get(name_of(one), {})
                one.update({key: same[key] for key in ("spec", "code") if key in same})
        return before

    def keys(self, target: Target) -> Mapping[RunKey, str]:
        """Every run that the protocol may need, with its folder; kept, because every look at the study needs them."""
        if target.name not in self._folders:
            every = protocols.all_keys(self._protocol(target), base_of(target))
            self._folders[target.name] = {key: key.folder for key in every}
        return self._folders[target.name]

    def run_path(self, key: RunKey) -> Path:
        """The run's folder on disk."""
        return self.path / "runs" / key.folder

    def step(self, target: Target) -> Step:
        """The protocol's next step for a target."""
        step = protocols.next_step(self._protocol(target), self.losses(target), base_of(target))
        assert self.keys(target).keys() >= {*step.runs}, "a run that is not counted would be asked for for ever"
        return step

    def _protocol(self, target: Target) -> Protocol:
        """The protocol, by default with the target's own seeds."""
        return self.protocol if self.protocol.seeds else replace(self.protocol, seeds=target.seeds)

    def losses(self, target: Target) -> Losses:
        """The losses of the target's runs that have ended, for the protocol."""
        ended = self.study.ended
        return {key: ended[folder].loss for key, folder in self.keys(target).items() if folder in ended}

    def rows(self) -> list[RunRecord]:
        """Every run that has started or is next, by target, beta, learning rate and seed, baselines last."""
        rows: list[RunRecord] = []
        for target in self.targets:
            keys, ended = self.keys(target), self.study.ended
            started = {key for key, folder in keys.items() if folder in ended or (self.path / "runs" / folder).exists()}
            rows += map(self.row, sorted(started.union(self.step(target).runs), key=lambda key: key.order))
        return rows

    def row(self, key: RunKey) -> RunRecord:
        """One run as it is now."""
        return self.study.row(key.folder, key)


def base_of(target: Target) -> RunKey:
    """A key of the target, from which `at` makes the keys of its runs; `with_spec` adds the spec."""
    return RunKey(target.name, 0.0, 0, target.budget)


def default_baselines(path: Path, targets: Sequence[Target]) -> tuple[tuple[float, float], ...]:
    """The default baselines: the study's own, else `BASELINES` if every target takes pairs.

    A function takes them if its annotation says so: `def train(beta: float | tuple[float, float], seed, run)`.
    """
    if (header := Study(path).header) is not None:
        protocol = header.get("protocol") or {}
        return tuple((one, two) for one, two in protocol.get("baselines", protocol.get("arms")) or ())
    return BASELINES if all(target.takes_pairs() for target in targets) else ()


def _by_name(described: Mapping[str, Any]) -> dict[str, Any]:
    """Targets keyed by their name, so that a difference is shown where it is.

    Code is compared separately, and `allow_early_stop` changes no run.
    """
    targets = {name_of(one): _without(one, "code", "allow_early_stop") for one in described.get("targets") or []}
    return {"targets": targets, "protocol": _without(described.get("protocol") or {}, "begin")}


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _in_words(difference: str) -> str:
    """A difference such as `targets.mine.budget: 10 -> null` in words: budget of mine is 10 there and nothing here."""
    name, _, values = difference.partition(": ")
    old, _, new = (values.replace("null", "nothing").replace('"', "")).partition(" -> ")
    where, _, rest = name.partition(".")
    if where == "targets":
        target, _, what = rest.rpartition(".")
        named = f"{what} of {target}" if target else rest
    else:
        named = "protocol" if rest == "kind" else rest
    return f"{named} {'are' if rest in protocols.LISTS else 'is'} {old} there and {new} here"


def _left_out(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The experiments, betas, learning rates, seeds and baselines that `before` has and `after` does not."""
    targets = _by_name(after)["targets"]
    lost = [("the experiment", name) for name, one in _by_name(before)["targets"].items() if targets.get(name) != one]
    for name in protocols.LISTS:
        asked = (before["protocol"] or {}).get(name) or []
        lost += [(name.removesuffix("s"), one) for one in asked if one not in (after["protocol"].get(name) or [])]
    return ", ".join(f"{kind} {value}" for kind, value in lost)
