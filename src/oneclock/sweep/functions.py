"""A Python function of the user's as what a run executes. It is called as

    train(beta, seed, run)

where `run` is a `UserRun`: `run.log(step, val_loss=.., train_loss=..)`, `run.budget`, `run.folder`. Files of the user's
live in `files/` of the run's folder and are kept; its printed output goes to `output.log`.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

from oneclock.study.environment import environment
from oneclock.study.identity import Identity
from oneclock.study.records import Result, Run
from oneclock.sweep import code as fingerprint
from oneclock.sweep import source
from oneclock.sweep.protocol import SEEDS, Cell
from oneclock.sweep.ranks import is_first, run_ranks, several

NO_LOSS = "it logged no validation loss"
"""How the reason of such a run begins."""


class Diverged(Exception):
    """A loss that is not finite was logged: the run ends here, as diverged."""


class UserRun:
    """The handle a user's function gets: where to log, how long to train, where to keep files."""

    def __init__(self, record: Run) -> None:
        self.budget = record.identity.budget
        self.folder = record.path / "files"
        self.folder.mkdir(exist_ok=True)
        # An attempt that was killed after its last evaluation leaves nothing to log to the one that goes on.
        self.logged = any(point.val_loss is not None for point in record.points())
        self.diverged: str | None = None
        self._record = record
        self._first = True

    def log(self, step: int, val_loss: float | None = None, train_loss: float | None = None) -> None:
        """Record one evaluation. A loss that is not finite ends the run as diverged."""
        if not 0 <= step < 2**53 or step != int(step):
            raise ValueError(f"run.log needs the step as a whole number from 0 on, got {step!r}")
        losses = {"val_loss": val_loss, "train_loss": train_loss}
        numbers = {name: float(loss) for name, loss in losses.items() if loss is not None}
        if self._first:  # an earlier attempt may have come further than the checkpoint this one goes on from
            self._record.rewind(int(step) - 1)
            self._first = False
        self._record.log(int(step), **numbers)
        self.logged |= "val_loss" in numbers
        for name, loss in numbers.items():
            if not math.isfinite(loss):
                self.diverged = f"{name} was {loss} at step {step}"
                raise Diverged(self.diverged)


class SilentRun:
    """The handle of a run's other processes: the same budget and folder, and what is logged goes nowhere."""

    def __init__(self, budget: int, path: Path) -> None:
        self.budget = budget
        self.folder = path / "files"
        self.folder.mkdir(parents=True, exist_ok=True)

    def log(self, step: int, val_loss: float | None = None, train_loss: float | None = None) -> None:
        """Nothing: the first process records."""


@dataclass(frozen=True)
class Function:
    """A Python function: `reference` is `module:function` or `file.py:function`, or `pickled` holds a callable.

    With several `processes` each calls it; the first one's handle writes, the others' are silent.
    """

    name: str
    budget: int
    reference: str
    pickled: bytes | None = field(default=None, repr=False, compare=False)
    code: Mapping[str, str] = field(default_factory=dict, repr=False)
    processes: int = 1

    seeds: ClassVar[tuple[int, ...]] = SEEDS

    def described(self) -> dict[str, Any]:
        said = {"function": self.reference, "name": self.name, "budget": self.budget, "code": dict(self.code)}
        return said | several(self.processes)

    def identity(self, cell: Cell) -> Identity:
        spec = {"function": self.reference, "code": dict(self.code)} | several(self.processes)
        return Identity(self.name, cell.beta, cell.seed, self.budget, spec=spec, rate=cell.rate)

    def modules(self) -> list[str]:
        if self.pickled is not None:
            return [name for name in ("torch", "torch._dynamo") if name in sys.modules]
        file = source.source_of(self.reference)
        return source.installed_imports(file) if file is not None else []

    def execute(self, path: Path, cell: Cell) -> Result:
        return run_ranks(self, path, cell) if self.processes > 1 else self._recorded(path, cell)

    def execute_here(self, path: Path, cell: Cell) -> None:
        """The part of this process, one of several. SystemExit where the run ended before its budget.

        The others do not know of that, and wait for this process or train on: a bad end has torchrun end them.
        """
        if not is_first():
            self._refuse_changed_code()
            self._call(cell, SilentRun(self.budget, path))
        elif (result := self._recorded(path, cell)).status != "finished":
            raise SystemExit(f"{result.status}: {result.reason}")

    def _call(self, cell: Cell, run: UserRun | SilentRun) -> Any:
        rate = {} if cell.rate is None else {"lr": cell.rate}
        return self._load()(cell.beta, cell.seed, run, **rate)

    def _recorded(self, path: Path, cell: Cell) -> Result:
        self._refuse_changed_code()
        record = Run.start(path, self.identity(cell), environment())
        run, started = UserRun(record), time.monotonic()
        try:
            returned = self._call(cell, run)
            if not run.logged and isinstance(returned, Real):
                run.log(self.budget, val_loss=float(returned))
        except Diverged:
            assert run.diverged is not None
        seconds = time.monotonic() - started
        if run.diverged is not None:
            return record.finish("diverged", seconds, reason=run.diverged)
        if not run.logged:
            reason = f"{NO_LOSS}: call run.log(step, val_loss=...) or return the loss"
            return record.finish("failed", seconds, reason=reason)
        return record.finish("finished", seconds)

    def no_pairs(self) -> str | None:
        """Why it takes no untied pair of betas, or None where nothing says so: its first argument is a float."""
        if self.pickled is not None:
            first = next(iter(inspect.signature(self._load()).parameters.values()), None)
            only = first is not None and first.annotation in (float, "float")
        else:
            only = source.takes_float(self.reference)
        return f"{self.reference} takes beta as a float: have it take (beta1, beta2) too" if only else None

    def no_call(self, rated: bool) -> str | None:
        """Why it cannot be called as a run calls it, with a rate or without; None where nothing says so."""
        rate = {"lr": 1.0} if rated else {}
        try:
            taken = self._signature()
            if taken is not None:
                taken.bind(0.9, 1, None, **rate)
        except TypeError as error:
            called = f"(beta, seed, run{', lr=..), as rates (--rates) need' if rated else ')'}"
            return f"{self.reference} cannot be called with {called}: {error}"
        return None

    def _signature(self) -> inspect.Signature | None:
        """What it takes, where that can be known without running its code."""
        if self.pickled is None:
            return source.signature(self.reference)
        try:
            return inspect.signature(self._load(), follow_wrapped=False)  # a wrapper may call with other arguments
        except (TypeError, ValueError):  # of some that are written in C nothing is known
            return None

    def _refuse_changed_code(self) -> None:
        """A file that is edited while a sweep runs would have its later runs be of other code."""
        file = None if self.pickled is not None else source.source_of(self.reference)
        changed = fingerprint.changed(self.code, fingerprint.of_file(file)) if file is not None and self.code else []
        if changed:
            raise ValueError(f"its code changed while the sweep ran ({', '.join(changed)}); sweep it anew")

    def _load(self) -> Callable[..., Any]:
        if self.pickled is not None:
            import cloudpickle

            return cloudpickle.loads(self.pickled)
        return source.load(self.reference)
