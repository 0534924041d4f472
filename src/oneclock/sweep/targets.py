"""What a run executes: the interface of every kind of target, and the first kind, a Python function.

Each kind registers itself under its name in `study.json`: functions here, commands in `oneclock.sweep.commands`, the
paper's experiments in `oneclock.lab`. A function is called as `train(beta, seed, run)`, where `run` is a `RunHandle`.
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
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey, plain_float, safe_name
from oneclock.runs.lock import check_held
from oneclock.runs.protocols import SEEDS
from oneclock.runs.record import ON_PURPOSE, RunRecord, environment
from oneclock.sweep import fingerprint, source
from oneclock.sweep.attempts import EarlierAttempts
from oneclock.sweep.exec.processes import forked_children_end_here, is_first, run_processes, several

NO_LOSS = "it logged no validation loss"  # start of the reason of a run without a loss


class Target:
    """What a run executes, as plain data that can be sent to any worker."""

    name: str
    budget: int  # the optimizer steps of one run
    processes: int  # the processes of one run

    @property
    def seeds(self) -> tuple[int, ...]:
        """The default seeds."""
        return SEEDS

    def described(self) -> dict[str, Any]:
        """The target as plain data, for `study.json`."""
        raise NotImplementedError

    def with_spec(self, key: RunKey) -> RunKey:
        """The key of one of its runs, with all settings that decide the loss."""
        raise NotImplementedError

    def modules(self) -> list[str]:
        """Installed modules that its runs import."""
        return []

    def why_not(self, pairs: bool, learning_rates: bool, seeds: Sequence[int]) -> str | None:
        """Why it cannot run untied pairs, learning rates or several seeds, if these are requested; None if it can."""
        return None

    def takes_pairs(self) -> bool:
        """Whether it certainly takes untied pairs of betas, so that baselines run by default."""
        return True

    def afresh(self) -> Target:
        """The same target with the present code."""
        return self

    def check_installed(self) -> None:
        """ImportError if this machine lacks a package that its runs import, and the run would not say so itself."""

    def execute(self, path: Path, key: RunKey) -> RunRecord:
        """Train one run in a folder, from where an earlier attempt has stopped, and return how it ended."""
        raise NotImplementedError

    def execute_here(self, path: Path, key: RunKey) -> Any:
        """The part of this process, one of several."""
        raise NotImplementedError


KINDS: dict[str, Callable[[Mapping[str, Any]], Target]] = {}  # a key that descriptions have -> their reader


def target_from_data(values: Mapping[str, Any]) -> Target:
    """The target from its description, with the code of that time."""
    for kind, from_data in KINDS.items():
        if kind in values:
            return from_data(values)
    if "experiment" in values:
        raise ValueError(f"{values['experiment']} is an experiment of the lab: import oneclock.lab.sweep_target")
    raise KeyError("targets")


def name_of(described: Mapping[str, Any]) -> str:
    """The name of a target, from its description."""
    return str(described.get("experiment") or described.get("name"))


def checked_budget(budget: Any) -> int:
    """A budget as a whole number of steps.

    >>> checked_budget("20k")
    Traceback (most recent call last):
    ValueError: the budget must be a whole number of steps, such as 20_000, got '20k'
    """
    with suppress(ValueError):
        steps = plain_float(budget, "budget")
        if steps >= 1 and steps.is_integer():
            return int(steps)
    raise ValueError(f"the budget must be a whole number of steps, such as 20_000, got {budget!r}")


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
        self._process = os.getpid()
        self._logged = False
        self._diverged: str | None = None
        self._stopped: str | None = None
        self._note: str | None = None  # what was assumed of earlier attempts

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
        """Keep, once, the earlier evaluations that this attempt continues; `first` is its own first step."""
        if self._record is not None and self._earlier is not None:
            kept = self._earlier.last_kept(first)
            self._record.rewind(kept)
            self._logged = any(point.val_loss is not None and point.step <= kept for point in self._earlier.points)
            self._note, self._earlier = self._earlier.note, None

    def stop_early(self, reason: str = "early stopping") -> None:
        """Declare that this run ends before its budget on purpose. Call it before the function returns."""
        self._stopped = str(reason)


def _logged_step(step: Any) -> int:
    """A step given to `run.log` as an int; ValueError if it is none."""
    with suppress(TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: torch's, for several numbers
        whole = int(step)
        if 0 <= whole < 2**53 and whole == step:
            return whole
    raise ValueError(f"run.log needs the step as a whole number from 0 on, got {reprlib.repr(step)}")


def _logged_number(name: str, value: Any) -> float:
    """A loss or metric that a function logged or returned, as a float.

    >>> _logged_number("accuracy", "good")
    Traceback (most recent call last):
    TypeError: accuracy must be a number, got 'good'
    """
    with suppress(TypeError, ValueError, OverflowError, RuntimeError):
        if not isinstance(value, str | bytes):
            return float(value)
    raise TypeError(f"{name} must be a number, got {reprlib.repr(value)}")


@dataclass(frozen=True, kw_only=True)
class OwnCode(Target):
    """Shared by targets of the user's own code: what it is in a study, and a check that the code stays the same."""

    _executed: ClassVar[tuple[str, ...]]  # the fields that say what it executes
    processes: int = 1
    allow_early_stop: bool = field(default=False, compare=False)
    code: Mapping[str, str] | None = field(default=None, repr=False)
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(safe_name(self.name).encode()) > 200:
            short, letters = f"{self.name[:30]}...", len(self.name)
            raise ValueError(f"the name {short} has {letters} letters, too many for a folder; give a shorter one")
        if not isinstance(self.processes, int) or self.processes < 1:
            raise ValueError(f"processes must be a whole number of at least 1, got {self.processes!r}")

    @classmethod
    def from_data(cls, values: Mapping[str, Any]) -> Any:
        """The target of a recorded study, with the code of that time."""
        known = {one.name for one in fields(cls)}
        return cls(**{"code": {}} | {name: value for name, value in values.items() if name in known})

    def _code_now(self) -> fingerprint.Code:
        raise NotImplementedError

    def _spec(self) -> dict[str, Any]:
        executed = {name: getattr(self, name) for name in self._executed}
        return executed | {"code": dict(self.code or {})} | several(self.processes)

    def described(self) -> dict[str, Any]:
        early = {"allow_early_stop": True} if self.allow_early_stop else {}
        return {"name": self.name, "budget": self.budget} | self._spec() | early

    def with_spec(self, key: RunKey) -> RunKey:
        return RunKey(self.name, key.beta, key.seed, self.budget, key.lr, spec=self._spec())

    def _refuse_changed_code(self) -> None:
        """ValueError if a file was edited after the sweep began: later runs would train other code."""
        if not self.code or fingerprint.is_untouched(self.stamps):
            return
        if changed := ", ".join(fingerprint.changed(self.code, self._code_now().parts)):
            raise ValueError(f"the code was edited while the sweep ran ({changed}); start the sweep again")

    def _finish(self, record: RunFolder, seconds: float, way: str, notes: Sequence[str | None]) -> RunRecord:
        """Record the end of a run: failed if it did not train its budget, with the `way` on, else finished."""
        why = why_incomplete([point.step for point in record.points() if point.val_loss is not None], self.budget)
        if why is not None and way and not self.allow_early_stop:
            return record.finish("failed", seconds, reason=f"it did not train its budget: {why}; {way}")
        return record.finish("finished", seconds, reason="; ".join(filter(None, notes)) or None)


@dataclass(frozen=True)
class Function(OwnCode):
    """A Python function: `function` is `module:function` or `file.py:function`, or `pickled` holds a callable.

    With several `processes` each of them calls it; only the first one records.
    """

    _executed = ("function",)
    name: str
    budget: int
    function: str
    pickled: bytes | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pickled is not None and self.processes > 1:
            raise ValueError("a function given in Python runs in one process: name it (file.py:train) for several")

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
        if isinstance(function, str):
            source.check_reference(function)
            location, _, called = function.rpartition(":")
            label = f"{Path(location).stem if location.endswith('.py') else location}.{called}"
            reference, pickled, code = function, None, _code_of(function)
        else:
            import cloudpickle

            label = reference = getattr(function, "__qualname__", type(function).__qualname__)
            code, pickled = fingerprint.of_callable(function), cloudpickle.dumps(function)
        more: dict[str, Any] = {"processes": processes, "allow_early_stop": allow_early_stop}
        return cls(name or label, budget, reference, pickled, code=code.parts, stamps=code.stamps, **more)

    def modules(self) -> list[str]:
        if self.pickled is not None:
            return [name for name in ("torch", "torch._dynamo") if name in sys.modules]
        file = source.source_of(self.function)
        return source.installed_imports(file) if file is not None else []

    def why_not(self, pairs: bool, learning_rates: bool, seeds: Sequence[int]) -> str | None:
        signature = self._signature()
        if signature is None:
            return None
        if pairs and self._beta_annotation() in ("float", "'float'", "<class 'float'>"):
            way = "have it take (beta1, beta2) too, or sweep without baselines"
            return f"{self.function} takes beta as a float: {way}"
        try:
            signature.bind(0.9, 1, None, **({"lr": 1.0} if learning_rates else {}))
        except TypeError as error:
            called = f"(beta, seed, run{', lr=..), as learning_rates need' if learning_rates else ')'}"
            return f"{self.function} cannot be called with {called}: {error}"
        return None

    def takes_pairs(self) -> bool:
        return "tuple" in self._beta_annotation().lower()

    def _beta_annotation(self) -> str:
        signature = self._signature()
        return next((str(one.annotation) for one in signature.parameters.values()), "") if signature else ""

    def _signature(self) -> inspect.Signature | None:
        """Its parameters, if they can be read without running its code."""
        if self.pickled is None:
            return source.signature(self.function)
        try:
            return inspect.signature(self._load(), follow_wrapped=False)  # a wrapper may call with other arguments
        except (TypeError, ValueError):  # some functions written in C have no signature
            return None

    def afresh(self) -> Function:
        if ":" not in self.function:
            raise ValueError(f"{self.function} was given in Python; continue with the script that swept it")
        return self.of(self.function, self.budget, self.name, self.processes, self.allow_early_stop)

    def _code_now(self) -> fingerprint.Code:
        return _code_of(self.function) if self.pickled is None else fingerprint.of_callable(self._load())

    def _load(self) -> Callable[..., Any]:
        if self.pickled is not None:
            import cloudpickle

            return cloudpickle.loads(self.pickled)
        return source.load_function(self.function)

    def execute(self, path: Path, key: RunKey) -> RunRecord:
        return run_processes(self, path, key) if self.processes > 1 else self._recorded(path, key)

    def execute_here(self, path: Path, key: RunKey) -> None:
        # Where the run ended before its budget, an error code makes torchrun end the other processes.
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
        with suppress(Diverged):
            returned = self._call(key, run)
            run._begin(None)
            if not run._logged and returned is not None:
                with suppress(TypeError):  # it is not a loss
                    run.log(self.budget, val_loss=returned)
        seconds = time.monotonic() - started
        if run._diverged is not None:
            return record.finish("diverged", seconds, reason=run._diverged)
        if not run._logged:
            reason = f"{NO_LOSS}: call run.log(step, val_loss=...) or return the loss"
            return record.finish("failed", seconds, reason=reason)
        way = "log optimizer steps; if it may end early, call run.stop_early(reason) or allow_early_stop"
        stopped = run._stopped and f"{ON_PURPOSE}: {run._stopped}"
        return self._finish(record, seconds, "" if stopped else way, [stopped, run._note])


def _code_of(reference: str) -> fingerprint.Code:
    file, location = source.source_of(reference), reference.rpartition(":")[0]
    if file is None:  # not Python: nothing to compare
        return fingerprint.Code({}, {})
    return fingerprint.of_file(file, *([] if location.endswith(".py") else source.modules_named([location])))


KINDS["function"] = Function.from_data
