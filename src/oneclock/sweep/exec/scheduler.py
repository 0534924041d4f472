"""Executes the runs of a plan: asks the plan for the next ones, submits them, and remembers ended ones.

Ended runs are kept in memory, so that one more run costs the same after ten runs or ten thousand.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from oneclock.plain_text import printable
from oneclock.runs.key import RunKey
from oneclock.runs.lock import Claim
from oneclock.runs.record import RunRecord
from oneclock.sweep.commands import NO_CURVE
from oneclock.sweep.exec.execution import Engine, Execution
from oneclock.sweep.exec.job import Ended, Job, last_lines
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import NO_LOSS, Target
from oneclock.sweep.view import Display, Pace, hang_in_words, run_name, span

NO_LOSSES = (NO_CURVE, NO_LOSS)
"""Start of the reason of a run without a curve: one such run is enough to stop."""

DEATHS = (
    "its process",
    "the process that",
    "the command was killed",
    "one of its",
    "it ran longer",
    "its worker",
    "the workers that",
)
"""Start of the reasons of killed runs: another run may succeed."""


class Stopped(ValueError):
    """A sweep that cannot succeed was stopped."""


def processes_of(plan: Plan) -> int:
    """The most processes of a run of the plan."""
    return max(target.processes for target in plan.targets)


class Observer(Protocol):
    """Receives the events of a sweep, in the sweep's own process; `oneclock.export.live` has two observers."""

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float]) -> None:
        """One evaluation of a run: its losses and metrics that are finite."""

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""


class Driver:
    """Executes runs until the protocol needs no more. Ended runs are remembered, not read again.

    A context: at its end no run is left. Inside, the first of its `signals` sets `asked` and ends `drive`; a next one
    may hurry the end. Ignored signals stay ignored; outside the main thread Python handles none.

    `flying` are the runs that the engine has, by path. Of the targets in `due`, runs have ended since the protocol was
    asked for the next ones, which are `waiting`.
    """

    waits = True
    ahead = 1  # runs that the engine has beyond those that execute
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    hurried_by = signals

    def __init__(
        self,
        plan: Plan,
        where: Execution,
        claim: Claim,
        engine: Engine | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.plan, self.where, self.claim, self.observers = plan, where, claim, observers
        self.asked = 0
        self.flying: dict[str, tuple[Target, RunKey]] = {}
        self.due = {target.name: target for target in plan.targets}
        self.waiting: defaultdict[str, deque[RunKey]] = defaultdict(deque)
        self._before: dict[signal.Signals, Any] = {}
        self._over = [plan.row(key) for target in plan.targets for key in plan.losses(target)]
        self._pace = Pace({target.name: target.budget for target in plan.targets}, self._over)
        self._left: dict[str, int] = {}
        self._told: Counter[str] = Counter()
        self._warned: set[str] = set()
        self._looked_for_hangs = time.monotonic()
        if engine is None:  # made last: `close` ends its processes
            modules = dict.fromkeys(name for target in plan.targets for name in target.modules())
            engine = where.engine(tuple(modules), processes_of(plan))
        self.engine = engine

    def __enter__(self) -> Driver:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in self.signals if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.claim.release()  # runs on other machines see it and stop
            self.engine.close()
        finally:
            for number, before in self._before.items():
                signal.signal(number, signal.SIG_DFL if before is None else before)

    def _hear(self, number: int, _: Any) -> None:
        first, self.asked = not self.asked, number
        if first:
            self.engine.wake()
        elif number in self.hurried_by:
            self.engine.hurry()

    @property
    def more(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self.flying)

    def drive(self, quiet: bool = False) -> None:
        with Display(self, self.engine, quiet) as display:
            if (note := self.where.note(processes_of(self.plan))) is not None:
                display.say(note)
            self.submit()
            while self.more:
                display.update()
                ends = self.engine.ended(timeout=1.0)
                if self.asked:
                    raise KeyboardInterrupt
                if self.claim.lost:
                    why = "because this one seemed dead for too long"
                    raise ValueError(f"another process has taken over {self.plan.path}, {why}")
                self.tell_observers()
                for end in ends:
                    self.take_note(end, display)
                self.warn_of_hangs(display)
                self.submit()

    def take_note(self, end: Ended, display: Display) -> None:
        """Note a run's end. OSError if the disk refused its record: no run is lost, and all others would fail too."""
        if end.trouble is not None:
            why = f"the disk takes nothing more ({end.trouble})"
            raise OSError(f"{why}; no run is lost: repair that, and run the same command to continue")
        target, key = self.flying.pop(end.path)
        self.due[target.name] = target
        if end.result is not None:  # otherwise it was stopped, and may start again
            self._left[target.name] -= 1
            self.count(key, end.result)
        row = self.plan.row(key)
        display.ended(row)
        for observer in self.observers:
            observer.ended(row)
        self.stop_if_hopeless(target, row)

    def count(self, key: RunKey, result: RunRecord) -> None:
        """Count a run that has ended, here or elsewhere."""
        self.plan.study.remember(key.folder, result)
        self._over.append(self.plan.row(key))
        self._pace.add(self._over[-1])

    def tell_observers(self) -> None:
        """Report evaluations since the last look; for a continued run, all of them."""
        for path, (_, key) in self.flying.items() if self.observers else ():
            lines: list[dict[str, Any]] = []
            with suppress(OSError, ValueError):  # there may be no complete line yet
                lines = [json.loads(line) for line in Path(path, "curve.jsonl").read_bytes().split(b"\n")[:-1]]
            for line in lines[self._told[path] :]:
                values = {name: line.get(name) for name in ("val_loss", "train_loss")} | line.get("metrics", {})
                finite: dict[str, float] = {name: value for name, value in values.items() if value is not None}
                for observer in self.observers:
                    observer.evaluated(key, line["step"], finite)
            self._told[path] = max(self._told[path], len(lines))

    def stop_if_hopeless(self, target: Target, row: RunRecord) -> None:
        """Raise `Stopped` if the first run left no curve, or the first two failed in the same way: so would all."""
        reason, silent = row.reason or "", (row.reason or "").startswith(NO_LOSSES)
        failed = [one for one in self._over if one.experiment == target.name and one.status == "failed"]
        alike = [_bare(one.reason) for one in failed].count(_bare(reason))
        if row.status != "failed" or reason.startswith(DEATHS) or not (silent or alike > 1):
            return
        if any(not math.isnan(loss) for loss in self.plan.losses(target).values()):
            return
        which = "its first run ended without a curve" if silent else "its first runs failed in the same way"
        again = f"fix the code and give the same command again; if no code changes, `oneclock retry {self.plan.path}`"
        lines = () if silent else last_lines(self.plan.run_path(row.key))
        raise Stopped("\n  ".join([f"the sweep stops here, since {which}: {reason}; {again} first", *lines]))

    def warn_of_hangs(self, display: Display) -> None:
        """One line for each run without an evaluation for ten times the usual time between two."""
        if time.monotonic() - self._looked_for_hangs < 5:
            return
        self._looked_for_hangs = time.monotonic()
        for path, (_, key) in self.flying.items():
            if path not in self._warned and (words := hang_in_words(Path(path))) is not None:
                self._warned.add(path)
                display.say(printable(f"{run_name(RunRecord(key, 'running'))}: {words}"))

    def submit(self) -> None:
        """Give the engine the next runs, those of the first target first.

        A protocol reads all ended runs, so it is asked again only when no run of the target waits.
        """
        for name in [name for name in self.due if not self.waiting[name]]:
            self.waiting[name].extend(self.needed(self.due.pop(name)))
        for target in self.plan.targets:
            while (keys := self.waiting[target.name]) and len(self.flying) < self.engine.workers + self.ahead:
                self.hand(target, keys.popleft())

    def needed(self, target: Target) -> list[RunKey]:
        """The next runs of a target, without those that the engine has."""
        step, flying = self.plan.step(target), {key for _, key in self.flying.values()}
        self._left[target.name] = step.at_most
        return [key for key in step.runs if key not in flying]

    def hand(self, target: Target, key: RunKey) -> None:
        """Give a run to the engine."""
        path = os.path.abspath(self.plan.run_path(key))
        self.flying[path] = target, key
        here, claim = os.getcwd(), os.path.abspath(self.claim.path)
        search = tuple(entry or here for entry in sys.path)
        self.engine.submit(
            Job(path, target, key, claim, here, search, self.where.retries, self.where.timeout, self.waits)
        )

    def rows(self) -> list[RunRecord]:
        """Every run that has ended, is under way or waits, by experiment, beta, learning rate and seed."""
        keys = [*(key for _, key in self.flying.values()), *chain(*self.waiting.values())]
        order = {target.name: number for number, target in enumerate(self.plan.targets)}
        rows = [*self._over, *map(self.plan.row, keys)]
        return sorted(rows, key=lambda row: (order[row.experiment], row.key.order))

    def summary(self, workers: int) -> str:
        """The progress in words, for this many workers."""
        done, left = len(self._over), sum(self._left.values())
        seconds = self._pace.left(self._left, min(workers, left))
        tail = f", about {span(seconds)} left" if seconds else ""
        return f"{done} of {'at most ' if left else ''}{done + left} run{'s'[: done + left - 1]}{tail}"


def _bare(reason: str | None) -> str:
    """A reason without the numbers in it, which may differ between runs that fail in the same way."""
    return re.sub(r"[\d.,]+", "", reason or "")
