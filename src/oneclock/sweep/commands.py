"""A command of the user's as a target: its line filled in, its end awaited, its curve read from what it leaves.

The curve comes from its log, or, where it writes none, from what it prints; both are read while it runs.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.study.environment import environment
from oneclock.study.evaluations import whole_step
from oneclock.study.identity import Identity
from oneclock.study.records import Result, Run
from oneclock.sweep import shell
from oneclock.sweep.cells import SEEDS, Cell
from oneclock.sweep.family import outlasting
from oneclock.sweep.ranks import several, under_torchrun

if TYPE_CHECKING:
    from oneclock.logs import Log

FOLDER = "{folder}"
"""The log that nobody chose: whatever lies in the run's own folder."""

NO_CURVE = "the command left no curve to read"
"""How the reason of such a run begins."""

_LOOK = 5.0  # seconds between two looks at a log
_PATIENCE = 20  # a look that took a second is not repeated for twenty


@dataclass(frozen=True)
class Command:
    """A command line of the user's; {beta}, {beta1}, {beta2}, {seed}, {budget} and {lr} and {folder} are filled in.

    Its curve is read from `log`, a file or folder that may name the same places: any format of `oneclock.logs`. Where
    no log was named and its folder holds none, it is read from the run's `output.log`.
    """

    name: str
    budget: int
    command: str
    log: str = FOLDER
    code: Mapping[str, str] = field(default_factory=dict, repr=False)
    processes: int = 1

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds to run; a command that takes none has one, for the others would repeat it."""
        return SEEDS if self.takes_seed else SEEDS[:1]

    @property
    def takes_seed(self) -> bool:
        return "{seed}" in self.command

    def described(self) -> dict[str, Any]:
        said = {"command": self.command, "log": self.log, "name": self.name, "budget": self.budget}
        return said | {"code": dict(self.code)} | several(self.processes)

    def identity(self, cell: Cell) -> Identity:
        spec = {"command": self.command, "log": self.log, "code": dict(self.code)} | several(self.processes)
        return Identity(self.name, cell.beta, cell.seed, self.budget, spec=spec, rate=cell.rate)

    def modules(self) -> list[str]:
        return []

    def no_pairs(self) -> str | None:
        """Why it takes no untied pair of betas, or None where it does."""
        return "the command has one {beta}: give it {beta1} and {beta2}" if "{beta}" in self.command else None

    def no_call(self, rated: bool) -> str | None:
        """Why it cannot be run with a rate or without, or None where it can."""
        if rated and "{lr}" not in self.command:
            return "the command does not say where the learning rate of --rates goes: add {lr} to it"
        if not rated and "{lr}" in self.command + self.log:
            return "the command has a place for {lr}, and no rates are swept; give them (--rates)"
        return None

    def execute(self, path: Path, cell: Cell) -> Result:
        from oneclock.logs import NotFinite

        record = Run.start(path, self.identity(cell), environment())
        files = record.path / "files"
        files.mkdir(exist_ok=True)
        places, started = self._places(cell, files), time.monotonic()
        log = Path(shell.filled(self.log, places))
        with outlasting() as asked:
            self._follow(record, log, places)
        if asked:  # whatever its exit code says: it was cut short
            raise KeyboardInterrupt("asked to end")
        seconds = time.monotonic() - started
        try:
            read = self._read(log, record)
        except NotFinite as error:
            return record.finish("diverged", seconds, reason=str(error))
        except (ValueError, OSError) as error:
            return record.finish("failed", seconds, reason=f"{NO_CURVE}: {error}")
        _copy(record, read)
        bad = [p.step for p in record.points() if p.val_loss is not None and not math.isfinite(p.val_loss)]
        if bad:
            return record.finish("diverged", seconds, reason=f"val_loss was not finite at step {bad[0]}")
        return record.finish("finished", seconds, reason=self._doubts(read))

    def _follow(self, record: Run, log: Path, places: Mapping[str, str]) -> None:
        """Run the command to its end, with its curve so far in the record; RuntimeError where it ends badly."""
        command = self.command if self.processes == 1 else under_torchrun(self.command, self.processes)
        line, variables = shell.line(command, places)
        pause = _LOOK
        # Wherever the run executes, what it prints is a log: it goes to the same file.
        with open(record.path / "output.log", "ab") as output:
            process = subprocess.Popen(
                line, shell=True, env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT
            )
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=pause)
                break
            looked = time.monotonic()
            with suppress(ValueError, OSError):  # its log may be half written, or not there yet
                read = self._read(log, record)
                if not _of_training(read):  # a validation loss may yet come
                    _copy(record, read)
            pause = max(_LOOK, _PATIENCE * (time.monotonic() - looked))
        if process.returncode:
            raise RuntimeError(f"the command ended with exit code {process.returncode}")

    def _read(self, log: Path, record: Run) -> Log:
        """The command's log, or what it printed; ValueError where neither holds one curve in steps."""
        from oneclock.logs import NotFinite, read_log, read_text

        try:
            read = read_log(log)
        except NotFinite:
            raise
        except (ValueError, OSError) as error:
            if self.log != FOLDER:
                raise
            try:
                read = read_text(record.path / "output.log")
            except NotFinite:
                raise
            except ValueError as printed:
                raise ValueError(f"{error}; {printed}") from None
        if read.unit != "steps":
            raise ValueError(f"{read.path} counts {read.unit}, not steps; log the step too")
        if len(read.curves) != 1:
            raise ValueError(f"{read.path} holds {len(read.curves)} curves, not one; name one log with --log")
        return read

    def _doubts(self, read: Log) -> str | None:
        """What a person should know of a curve that was taken all the same."""
        doubts, last = [], read.curves[0].steps[-1]
        if last > self.budget:
            doubts.append(f"its curve goes on to step {last:,}, beyond the budget of {self.budget:,}")
        if _of_training(read):
            doubts.append(f"no validation loss was found: {read.metric!r} was taken")
        return "; ".join(doubts) or None

    def _places(self, cell: Cell, files: Path) -> dict[str, str]:
        one, two = cell.beta if isinstance(cell.beta, tuple) else (cell.beta, cell.beta)
        tied = {} if isinstance(cell.beta, tuple) else {"beta": repr(cell.beta)}
        rate = {} if cell.rate is None else {"lr": repr(cell.rate)}
        common = {"seed": str(cell.seed), "budget": str(self.budget), "folder": str(files.resolve())}
        return tied | rate | {"beta1": repr(one), "beta2": repr(two)} | common


def check_places(command: str) -> None:
    """ValueError where the command does not say where beta goes."""
    if "{beta}" not in command and not ("{beta1}" in command and "{beta2}" in command):
        raise ValueError("the command must say where beta goes: {beta}, or {beta1} and {beta2}")


def _of_training(read: Log) -> bool:
    from oneclock.logs.names import is_training

    return is_training(read.metric)


def _copy(record: Run, read: Log) -> None:
    """Copy the curve of a foreign log into the run's record."""
    (curve,) = read.curves
    known = record.points()
    if any(p.val_loss not in (loss, None) for p, loss in zip(known, curve.losses, strict=False)):
        record.rewind(-1)
        known = []
    for step, loss in list(zip(curve.steps, curve.losses, strict=True))[len(known) :]:
        record.log(whole_step(step), val_loss=loss)
