"""A user's command as a target: fill in its line, wait for its end, and read its curve.

The curve comes from its log, or, where it writes none, from what it prints; both are read while it runs. Numbers and
plain paths are filled into the line as they are. A value that a shell would not read as one word (a folder with a
space, or with `$(..)` in its name) goes through the environment: a shell never executes the value of a variable.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from oneclock.runs.folder import Point, RunFolder, whole_step
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import SEEDS
from oneclock.runs.record import RunRecord, environment
from oneclock.sweep import fingerprint
from oneclock.sweep.attempts import EarlierAttempts
from oneclock.sweep.exec.job import last_lines
from oneclock.sweep.exec.processes import Died, Failed, outlasting, under_torchrun
from oneclock.sweep.targets import KINDS, OwnCode, checked_budget

if TYPE_CHECKING:
    from oneclock.logs import Log

NO_CURVE = "the command left no curve to read"  # how the reason of such a run begins
FOLDER = "{folder}"  # the default log: anything in the run's own folder
FILLED_IN = ("beta", "beta1", "beta2", "seed", "budget", "lr", "folder")
PLACEHOLDERS = re.compile(rf"\{{({'|'.join(FILLED_IN)})\}}")

_LOOK = 5.0  # seconds between two looks at a log
_PATIENCE = 20  # after a look that took a second, wait twenty seconds
_CLOCK = 2.0  # seconds by which the times of two files may differ from the truth


@dataclass(frozen=True)
class Command(OwnCode):
    """A command line that trains one run, as a target of `run_sweep`.

    {beta} (or {beta1} and {beta2}), {seed}, {budget}, {lr} and {folder} in it are filled in. Its curve is read from
    `log`; if no log was named and its folder holds none, from its output.

    Args:
        command: The command line, for a shell.
        budget: The optimizer steps of one run.
        log: The file or folder that it writes its log to, in any format of `oneclock.read_log`. It may name the same
            placeholders.
        name: What the study calls it.
        processes: The processes of one run; torchrun starts them, and the command then begins with python.
        allow_early_stop: Whether a run that ends before its budget counts as finished.

    >>> Command("python train.py --beta {beta} --seed {seed}", 1000).seeds
    (1, 2, 3)
    """

    _executed = ("command", "log")
    command: str
    budget: int
    log: str = FOLDER
    name: str = "command"

    def __post_init__(self) -> None:
        super().__post_init__()
        if "{beta}" not in self.command and not ("{beta1}" in self.command and "{beta2}" in self.command):
            raise ValueError("the command must contain a place for beta: {beta}, or {beta1} and {beta2}")
        if self.processes > 1:
            under_torchrun(self.command, self.processes)  # raises ValueError if it cannot start it
        object.__setattr__(self, "budget", checked_budget(self.budget))
        if self.code is None:
            for word in re.findall(r"(?<!\$)\{([A-Za-z]\w*)\}", self.command):  # other braces are the shell's
                near = get_close_matches(word.lower(), FILLED_IN, n=1, cutoff=0.75)
                if near and word not in FILLED_IN:
                    raise ValueError(f"nothing is filled in for {{{word}}} in the command; did you mean {{{near[0]}}}?")
            code = self._code_now()
            object.__setattr__(self, "code", code.parts)
            object.__setattr__(self, "stamps", code.stamps)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds to run; a command without {seed} has one, because others would repeat it."""
        return SEEDS if self.takes_seed else SEEDS[:1]

    @property
    def takes_seed(self) -> bool:
        """Whether its line has {seed} in it."""
        return "{seed}" in self.command

    def _code_now(self) -> fingerprint.Code:
        return fingerprint.of_command(self.command)

    def takes_pairs(self) -> bool:
        return "{beta}" not in self.command + self.log

    def why_not(self, pairs: bool, learning_rates: bool, seeds: Sequence[int]) -> str | None:
        if pairs and not self.takes_pairs():
            return "the command or its log has one {beta}, and a baseline has two: give it {beta1} and {beta2} instead"
        if learning_rates and "{lr}" not in self.command:
            return "the command does not say where the learning rate goes: add {lr} to it"
        if not learning_rates and "{lr}" in self.command + self.log:
            return "the command has {lr} in it, and no learning_rates are swept; give some"
        if len(seeds) > 1 and not self.takes_seed:
            return f"the command has no {{seed}}: seeds {', '.join(map(str, seeds))} would repeat one run; add {{seed}}"
        return None

    def afresh(self) -> Command:
        return replace(self, code=None)

    def execute(self, path: Path, key: RunKey) -> RunRecord:
        from oneclock.logs import NotFinite

        self._refuse_changed_code()
        record = RunFolder.start(path, self.with_spec(key), environment())
        files = record.path / "files"
        files.mkdir(exist_ok=True)
        earlier = EarlierAttempts(record, files)
        values, started = self._placeholder_values(key, files), time.monotonic()
        log = Path(PLACEHOLDERS.sub(lambda match: values[match[1]], self.log))
        had_log = bool(earlier.points) and _newest(log) is not None
        with outlasting() as asked:
            self._follow(record, log, values, earlier)
        if asked:  # whatever its exit code is: it was interrupted
            raise KeyboardInterrupt("asked to end")
        seconds = time.monotonic() - started
        try:
            read = self._read(log, record)
        except NotFinite as error:
            return record.finish("diverged", seconds, reason=str(error))
        except (ValueError, OSError) as error:
            way = "print or log a step and a val_loss, or name the log (log)"
            return record.finish("failed", seconds, reason=f"{NO_CURVE}: {error}; {way}")
        _copy(record, read, earlier)
        bad = [p.step for p in record.points() if p.val_loss is not None and not math.isfinite(p.val_loss)]
        if bad:
            return record.finish("diverged", seconds, reason=f"val_loss was not finite at step {bad[0]}")
        notes, last = [earlier.note, *read.warnings], read.curves[0].steps[-1]
        if had_log and not earlier.note and _points(read)[: len(earlier.points)] == earlier.points:
            notes.insert(0, "its log begins with evaluations of an earlier attempt, and they count")
        if last > self.budget:
            notes.insert(0, f"its curve goes on to step {last:,}, beyond the budget of {self.budget:,}")
        return self._finish(record, seconds, "if it may end early, sweep with allow_early_stop", notes)

    def _follow(self, record: RunFolder, log: Path, values: Mapping[str, str], earlier: EarlierAttempts) -> None:
        """Run the command to its end, copying its curve into the record; `Failed` if it ends badly."""
        command = self.command if self.processes == 1 else under_torchrun(self.command, self.processes)
        line, variables = shell_line(command, values)
        pause = _LOOK
        # The output of the run is a log too: on every engine it goes to the same file.
        with open(record.path / "output.log", "ab") as output:
            own = os.environ | variables
            process = subprocess.Popen(line, shell=True, env=own, stdout=output, stderr=subprocess.STDOUT)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=pause)
                break
            looked = time.monotonic()
            self._look(log, record, earlier)
            pause = max(_LOOK, _PATIENCE * (time.monotonic() - looked))
        if process.returncode:
            self._look(log, record, earlier)  # an attempt that continues from its checkpoint needs its evaluations
            _raise(process.returncode, last_lines(record.path))

    def _look(self, log: Path, record: RunFolder, earlier: EarlierAttempts) -> None:
        """Copy the curve so far; its log may be half written, or not there yet."""
        with suppress(ValueError, OSError):
            read = self._read(log, record)
            if not read.is_training:  # a validation loss may follow
                _copy(record, read, earlier)

    def _read(self, log: Path, record: RunFolder) -> Log:
        """The command's log, or if none was named what it printed; ValueError if neither holds one curve in steps."""
        from oneclock.logs import NotFinite, read_log, read_text

        newest = None if self.log == FOLDER else _newest(log)
        if newest is not None and newest < (record.path / "run.json").stat().st_mtime - _CLOCK:
            raise ValueError(f"{log} was written before this run began, and not changed since")
        try:
            read = read_log(log)
        except (ValueError, OSError) as error:
            if self.log != FOLDER or isinstance(error, NotFinite):
                raise
            try:
                read = read_text(record.path / "output.log")
            except NotFinite:
                raise
            except ValueError as printed:
                raise ValueError(f"{error}; {printed}") from None
        if read.unit != "steps":
            raise ValueError(f"{read.path} counts {read.unit}, not steps; log the step too")
        read.require_loss()
        if len(read.curves) != 1:
            raise ValueError(f"{read.path} holds {len(read.curves)} curves, not one; name one of them (log)")
        return read

    def _placeholder_values(self, key: RunKey, files: Path) -> dict[str, str]:
        one, two = key.betas
        numbers = {"beta1": one, "beta2": two, "seed": key.seed, "budget": self.budget}
        numbers |= ({"beta": one} if key.is_tied else {}) | ({} if key.lr is None else {"lr": key.lr})
        return {name: repr(number) for name, number in numbers.items()} | {"folder": str(files.resolve())}


def _raise(code: int, output: Sequence[str]) -> None:
    """Raise `Died` if a process of the command was killed, or `Failed` with its last line if it ended by itself.

    >>> _raise(137, [])
    Traceback (most recent call last):
    oneclock.sweep.exec.processes.Died: the command was killed by SIGKILL
    """
    signals = {one.value: one.name for one in signal.Signals}
    name = signals.get(-code if code < 0 else code - 128)  # 128 more is how a shell reports a signal
    if name is None and any(re.search(r"exitcode\s*:\s*-\d+", line) for line in output):  # torchrun's report
        name = "a signal"
    if name is not None:
        raise Died(f"the command was killed by {name}")
    last_line = f": {output[-1]}" if output else " and printed nothing"
    raise Failed(f"the command ended with exit code {code}{last_line}")


def _newest(log: Path) -> float | None:
    """When a log (a file, or the files of a folder) was last written to; None if there is none."""
    return max((file.stat().st_mtime for file in (log, *log.rglob("*")) if file.is_file()), default=None)


def _points(read: Log) -> list[Point]:
    (curve,) = read.curves
    return [Point(whole_step(step), loss) for step, loss in zip(curve.steps, curve.losses, strict=True)]


def _copy(record: RunFolder, read: Log, earlier: EarlierAttempts) -> None:
    """Copy the curve of a log into the run's record, after the earlier evaluations that count."""
    points = _points(read)
    last = earlier.last_kept(points[0].step)
    points = [*(point for point in earlier.points if point.step <= last), *points]
    recorded = record.points()
    if recorded == points[: len(recorded)]:
        for point in points[len(recorded) :]:
            record.log(point.step, val_loss=point.val_loss)
    else:
        record.replace(points)


def shell_line(command: str, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The command line with its placeholders filled, and the variables that it needs.

    >>> shell_line("train --beta {beta} --out {folder} --json '{}'", {"beta": "0.9", "folder": "/runs/1"})
    ("train --beta 0.9 --out /runs/1 --json '{}'", {})
    >>> shell_line('train --out "{folder}/a"', {"folder": "/my runs/1"})
    ('train --out "${ONECLOCK_FOLDER}/a"', {'ONECLOCK_FOLDER': '/my runs/1'})
    """
    variables = {}

    def fill(match: re.Match[str]) -> str:
        value, quote = values[match[1]], _open_quote(command[: match.start()])
        if shlex.quote(value) == value:
            return value
        if quote == "'":
            raise ValueError(f"{match[0]} is in single quotes, and {value!r} is not one plain word: remove the quotes")
        variable = f"ONECLOCK_{match[1].upper()}"
        variables[variable] = value
        return f"${{{variable}}}" if quote else f'"${{{variable}}}"'

    return PLACEHOLDERS.sub(fill, command), variables


def _open_quote(text: str) -> str:
    """The quote that is open where the text ends, or none.

    >>> _open_quote("a 'b' \\"c"), _open_quote("it\\\\'s"), _open_quote("'a\\\\")
    ('"', '', "'")
    """
    closed = r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\""""
    return "".join(re.findall("['\"]", re.sub(closed, "", text, flags=re.DOTALL)))[:1]


KINDS["command"] = Command.from_data
