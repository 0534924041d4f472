"""What a run executes: the interface of every kind of target, and the first kind, a Python function.

A target is plain data that can be sent to any worker. `execute` trains one run in a folder, continues from what an
earlier attempt left there, and returns how it ended. Each kind registers itself under its name in `study.json`:
functions here, commands in `oneclock.sweep.commands`, the paper's experiments in `oneclock.lab`.

A function is called as

    train(beta, seed, run)

where `run` is a `RunHandle`. Its output goes to `output.log` in the run's folder.
"""

from __future__ import annotations

import inspect
import math
import multiprocessing
import os
import reprlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey, plain_float, safe_name
from oneclock.runs.lock import check_held
from oneclock.runs.protocols import SEEDS
from oneclock.runs.record import ON_PURPOSE, RunRecord, environment
from oneclock.sweep import fingerprint, source
from oneclock.sweep.attempts import EarlierAttempts
from oneclock.sweep.exec.processes import forked_children_end_here, is_first, run_processes, several

INCOMPLETE = "it did not train its budget"
NO_LOSS = "it logged no validation loss"
"""Start of the reason of a run without a loss."""


class Target(Protocol):
    """The interface of a target: what a run executes."""

    @property
    def name(self) -> str:
        """Its name in the study."""

    @property
    def budget(self) -> int:
        """The optimizer steps of one run."""

    @property
    def processes(self) -> int:
        """The processes of one run."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The default seeds."""

    def described(self) -> dict[str, Any]:
        """The target as plain data, for `study.json`."""

    def with_spec(self, key: RunKey) -> RunKey:
        """The key of one of its runs, with all settings that decide the loss."""

    def modules(self) -> list[str]:
        """Installed modules that its runs import."""

    def why_not(self, pairs: bool, learning_rates: bool, seeds: Sequence[int]) -> str | None:
        """Why it cannot run untied pairs of betas, learning rates or several seeds, if these are requested; None if it
        can.
        """

    def takes_pairs(self) -> bool:
        """Whether it certainly takes untied pairs of betas, so that baselines run by default."""

    def afresh(self) -> Target:
        """The same target with the present code."""

    def check_installed(self) -> None:
        """ImportError if this machine lacks a package that its runs import."""

    def execute(self, path: Path, key: RunKey) -> RunRecord:
        """Train one run."""

    def execute_here(self, path: Path, key: RunKey) -> Any:
        """The part of this process, one of several."""


_KINDS: dict[str, Callable[[Mapping[str, Any]], Target]] = {}


def register(kind: str, from_data: Callable[[Mapping[str, Any]], Target]) -> None:
    """Register `from_data` as the reader of targets whose description has the key `kind`."""
    _KINDS[kind] = from_data


def target_from_data(values: Mapping[str, Any]) -> Target:
    """The target from its description, with the code of that time."""
    for kind, from_data in _KINDS.items():
        if kind in values:
            return from_data(values)
    if "experiment" in values:
        raise ValueError(f"{values['experiment']} is an experiment of the lab: import oneclock.lab.sweep_target")
    raise KeyError("targets")


def name_of(described: Mapping[str, Any]) -> str:
    """The name of a target, from its description."""
    return str(described.get("experiment") or described.get("name"))


def checked_name(name: str) -> str:
    """ValueError for a name that no folder can have."""
    if len(safe_name(name).encode()) > 200:
        raise ValueError(f"the name {name[:30]}... has {len(name)} letters, too many for a folder; give a shorter one")
    return name


def checked_budget(budget: Any) -> int:
    """A budget as a whole number of steps.

    >>> checked_budget("20k")
    Traceback (most recent call last):
    ValueError: the budget must be a whole number of steps, such as 20_000, got '20k'
    """
    try:
        steps = plain_float(budget, "budget")
        if not (steps >= 1 and steps.is_integer()):
            raise ValueError
    except ValueError:
        raise ValueError(f"the budget must be a whole number of steps, such as 20_000, got {budget!r}") from None
    return int(steps)


def checked_processes(processes: Any) -> int:
    """A valid number of processes, else ValueError."""
    if not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes must be a whole number of at least 1, got {processes!r}")
    return processes


def why_incomplete(steps: Sequence[int], budget: int) -> str | None:
    """Why a run with evaluations at these steps did not train its budget; None if it did.

    The last evaluation may lie before the budget by less than the next one would have come after it. A run that exceeds
    its budget by more than a tenth did not train what was planned.

    >>> why_incomplete([300, 600, 900], 1000), why_incomplete(range(0, 1000, 100), 1000)
    (None, None)
    >>> why_incomplete([200, 400], 1000)
    'its last evaluation is at step 400 of 1,000'
    >>> why_incomplete([1000, 5000], 1000)
    'it went on to step 5,000, far beyond its budget of 1,000'
    """
    earlier, before, last = [0, 0, 0, *steps][-3:]
    if last > 1.1 * budget:
        return f"it went on to step {last:,}, far beyond its budget of {budget:,}"
    gap, gap_before = last - before, before - earlier
    following = last + max(gap, gap * gap / gap_before if gap_before > 0 else 0)
    return f"its last evaluation is at step {last:,} of {budget:,}" if following < budget else None


class Diverged(Exception):
    """A loss that is not finite was logged: the run ends here as diverged."""


class NotANumber(ValueError):
    """A loss or metric that is not a number."""


class RunHandle:
    """The argument `run` of a function: it logs evaluations, and has the budget and a folder for files.

    Attributes:
        budget: The optimizer steps to train.
        folder: A folder for files of your own, such as checkpoints. It is kept for when the run is continued.
    """

    def __init__(self, budget: int, path: Path, record: RunFolder | None = None) -> None:
        self.budget = budget
        self.folder = path / "files"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._record = record  # None in the other processes of a run: only the first one records
        self._earlier = None if record is None else EarlierAttempts(record, self.folder)
        self._first = True
        self._process = os.getpid()
        self._logged = False
        self._diverged: str | None = None
        self._stopped: str | None = None

    def log(self, step: int, val_loss: float | None = None, train_loss: float | None = None, **metrics: float) -> None:
        """Record one evaluation. A loss that is not finite ends the run as diverged.

        Args:
            step: The optimizer steps made so far.
            val_loss: The validation loss, lower is better. The smallest one is the run's loss.
            train_loss: The training loss.
            metrics: Other numbers to keep with the curve, such as `accuracy=0.9`. They are not used to compare runs.
        """
        step = _logged_step(step)
        losses = {"val_loss": val_loss, "train_loss": train_loss}
        numbers = {name: _logged_number(name, loss) for name, loss in losses.items() if loss is not None}
        more = {name: _logged_number(name, value) for name, value in metrics.items()}
        if os.getpid() != self._process and multiprocessing.parent_process() is None:
            raise RuntimeError("run.log was called in a forked child: its losses would mix with those of its parent")
        if self._record is None:
            return
        self._begin(step)
        self._record.log(step, numbers.get("val_loss"), numbers.get("train_loss"), more)
        self._logged |= "val_loss" in numbers
        for name, loss in numbers.items():
            if not math.isfinite(loss):
                self._diverged = f"{name} was {loss} at step {step}"
                raise Diverged(self._diverged)

    def _begin(self, first: int | None) -> None:
        """Keep, once, the evaluations of earlier attempts that this one continues from its first evaluation, at step
        `first`. It has none if the earlier attempt was killed after its last evaluation.
        """
        if not self._first or self._record is None or self._earlier is None:
            return
        self._first = False
        kept = self._earlier.last_kept(first)
        self._record.rewind(kept)
        self._logged = any(point.val_loss is not None and point.step <= kept for point in self._earlier.points)

    def stop_early(self, reason: str = "early stopping") -> None:
        """Declare that this run ends before its budget on purpose. Call it before the function returns."""
        self._stopped = str(reason)


def _logged_step(step: Any) -> int:
    """A step given to `run.log` as an int; ValueError if it is none."""
    try:
        whole = int(step)
        if 0 <= whole < 2**53 and whole == step:
            return whole
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: torch's, for several numbers
        pass
    raise ValueError(f"run.log needs the step as a whole number from 0 on, got {reprlib.repr(step)}")


def _logged_number(name: str, value: Any) -> float:
    """A loss or metric that a function logged or returned, as a float.

    >>> _logged_number("accuracy", "good")
    Traceback (most recent call last):
    oneclock.sweep.targets.NotANumber: accuracy must be a number, got 'good'
    """
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise NotANumber(f"{name} must be a number, got {reprlib.repr(value)}")


class OwnCode:
    """Shared by targets of the user's own code: a description, a spec, and a check that the code stays the same."""

    name: str
    budget: int
    processes: int
    allow_early_stop: bool
    code: Mapping[str, str] | None
    stamps: Mapping[str, fingerprint.Stamp]

    def _identity(self) -> dict[str, Any]:
        """What it executes, as plain data."""
        raise NotImplementedError

    def _code_now(self) -> fingerprint.Code:
        raise NotImplementedError

    def described(self) -> dict[str, Any]:
        early = {"allow_early_stop": True} if self.allow_early_stop else {}
        return self._identity() | {"name": self.name, "budget": self.budget} | self._code_and_processes() | early

    def with_spec(self, key: RunKey) -> RunKey:
        spec = self._identity() | self._code_and_processes()
        return RunKey(self.name, key.beta, key.seed, self.budget, key.lr, spec=spec)

    def _code_and_processes(self) -> dict[str, Any]:
        return {"code": dict(self.code or {})} | several(self.processes)

    def check_installed(self) -> None:
        """Nothing: the run itself reports a missing package."""

    def _refuse_changed_code(self) -> None:
        """ValueError if a file was edited after the sweep began: later runs would train other code."""
        if not self.code or fingerprint.is_untouched(self.stamps):
            return
        if changed := ", ".join(fingerprint.changed(self.code, self._code_now().parts)):
            raise ValueError(f"the code was edited while the sweep ran ({changed}); start the sweep again")


@dataclass(frozen=True)
class Function(OwnCode):
    """A Python function: `reference` is `module:function` or `file.py:function`, or `pickled` holds a callable.

    With several `processes` each of them calls it; only the first one records.
    """

    name: str
    budget: int
    reference: str
    pickled: bytes | None = field(default=None, repr=False, compare=False)
    code: Mapping[str, str] = field(default_factory=dict, repr=False)
    processes: int = 1
    allow_early_stop: bool = field(default=False, compare=False)
    stamps: Mapping[str, fingerprint.Stamp] = field(default_factory=dict, repr=False, compare=False)

    seeds: ClassVar[tuple[int, ...]] = SEEDS

    @classmethod
    def of(
        cls,
        function: str | Callable[..., Any],
        budget: int,
        name: str | None = None,
        processes: int = 1,
        allow_early_stop: bool = False,
    ) -> Function:
        """The target of a callable, or of a named function; ValueError if it does not exist."""
        more: dict[str, Any] = {"processes": checked_processes(processes), "allow_early_stop": allow_early_stop}
        if isinstance(function, str):
            source.check_reference(function)
            location, _, called = function.rpartition(":")
            label = f"{Path(location).stem if location.endswith('.py') else location}.{called}"
            file = source.source_of(function)
            code = fingerprint.Code({}, {}) if file is None else fingerprint.of_file(file)
            return cls(checked_name(name or label), budget, function, code=code.parts, stamps=code.stamps, **more)
        if processes > 1:
            raise ValueError("a function given in Python runs in one process: name it (file.py:train) for several")
        import cloudpickle

        label = getattr(function, "__qualname__", type(function).__qualname__)
        code = fingerprint.of_callable(function)
        pickled = cloudpickle.dumps(function)
        return cls(checked_name(name or label), budget, label, pickled, code.parts, stamps=code.stamps, **more)

    @classmethod
    def from_data(cls, values: Mapping[str, Any]) -> Function:
        """The function of a recorded study, with the code of that time."""
        more = {"allow_early_stop": values.get("allow_early_stop", False), "processes": values.get("processes", 1)}
        return cls(values["name"], values["budget"], values["function"], code=values.get("code") or {}, **more)

    def _identity(self) -> dict[str, Any]:
        return {"function": self.reference}

    def modules(self) -> list[str]:
        if self.pickled is not None:
            return [name for name in ("torch", "torch._dynamo") if name in sys.modules]
        file = source.source_of(self.reference)
        return source.installed_imports(file) if file is not None else []

    def why_not(self, pairs: bool, learning_rates: bool, seeds: Sequence[int]) -> str | None:
        signature = self._signature()
        if signature is None:
            return None
        if pairs and self._beta_annotation() in ("float", "'float'", "<class 'float'>"):
            way = "have it take (beta1, beta2) too, or sweep without baselines"
            return f"{self.reference} takes beta as a float: {way}"
        try:
            signature.bind(0.9, 1, None, **({"lr": 1.0} if learning_rates else {}))
        except TypeError as error:
            called = f"(beta, seed, run{', lr=..), as learning_rates need' if learning_rates else ')'}"
            return f"{self.reference} cannot be called with {called}: {error}"
        return None

    def takes_pairs(self) -> bool:
        """Whether the annotation of its first argument names a tuple."""
        return "tuple" in self._beta_annotation().lower()

    def _beta_annotation(self) -> str:
        signature = self._signature()
        first = None if signature is None else next(iter(signature.parameters.values()), None)
        return "" if first is None or first.annotation is inspect.Parameter.empty else str(first.annotation)

    def afresh(self) -> Function:
        if ":" not in self.reference:
            raise ValueError(f"{self.reference} was given in Python; continue with the script that swept it")
        return self.of(self.reference, self.budget, self.name, self.processes, self.allow_early_stop)

    def execute(self, path: Path, key: RunKey) -> RunRecord:
        return run_processes(self, path, key) if self.processes > 1 else self._recorded(path, key)

    def execute_here(self, path: Path, key: RunKey) -> None:
        """Train one run in this process, one of several.

        SystemExit if the run ended before its budget: the other processes would wait or train on, and an error code
        makes torchrun end them.
        """
        if not is_first():
            self._refuse_changed_code()
            self._call(key, RunHandle(self.budget, path))
        elif (result := self._recorded(path, key)).status != "finished":
            raise SystemExit(f"{result.status}: {result.reason}")

    def _call(self, key: RunKey, run: RunHandle) -> Any:
        function = self._load()  # this may take seconds, and another process may take the run meanwhile
        check_held(run.folder.parent)
        with forked_children_end_here():
            return function(key.beta, key.seed, run, **({} if key.lr is None else {"lr": key.lr}))

    def _recorded(self, path: Path, key: RunKey) -> RunRecord:
        self._refuse_changed_code()
        record = RunFolder.start(path, self.with_spec(key), environment())
        run, started = RunHandle(self.budget, path, record), time.monotonic()
        try:
            returned = self._call(key, run)
            run._begin(None)
            if not run._logged and returned is not None:
                with suppress(NotANumber):
                    run.log(self.budget, val_loss=returned)
        except Diverged:
            assert run._diverged is not None
        return record.finish(*self._ending(run, record, time.monotonic() - started))

    def _ending(self, run: RunHandle, record: RunFolder, seconds: float) -> tuple[Any, float, int | None, str | None]:
        """How the run ended, as `RunFolder.finish` takes it."""
        if run._diverged is not None:
            return "diverged", seconds, None, run._diverged
        if not run._logged:
            return "failed", seconds, None, f"{NO_LOSS}: call run.log(step, val_loss=...) or return the loss"
        why = why_incomplete([point.step for point in record.points() if point.val_loss is not None], self.budget)
        if why is not None and run._stopped is None and not self.allow_early_stop:
            way = "log optimizer steps; if it may end early, call run.stop_early(reason) or allow_early_stop"
            return "failed", seconds, None, f"{INCOMPLETE}: {why}; {way}"
        stopped = run._stopped and f"{ON_PURPOSE}: {run._stopped}"
        earlier = None if run._earlier is None else run._earlier.note
        return "finished", seconds, None, "; ".join(filter(None, (stopped, earlier))) or None

    def _signature(self) -> inspect.Signature | None:
        """Its parameters, if they can be read without running its code."""
        if self.pickled is None:
            return source.signature(self.reference)
        try:
            return inspect.signature(self._load(), follow_wrapped=False)  # a wrapper may call with other arguments
        except (TypeError, ValueError):  # some functions written in C have no signature
            return None

    def _code_now(self) -> fingerprint.Code:
        file = None if self.pickled is not None else source.source_of(self.reference)
        if file is None:
            return fingerprint.of_callable(self._load())
        location = self.reference.rpartition(":")[0]
        return fingerprint.of_file(file, [] if location.endswith(".py") else source.modules_named([location]))

    def _load(self) -> Callable[..., Any]:
        if self.pickled is not None:
            import cloudpickle

            return cloudpickle.loads(self.pickled)
        return source.load_function(self.reference)


register("function", Function.from_data)
