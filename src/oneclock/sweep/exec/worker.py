"""A worker: a driver that shares a study's plan with others, on any machine that sees the folder.

No central process is needed. A worker reads the plan from `study.json`, claims a free run that is needed, and looks
again when a run has ended. On a signal, or when its time is up, its runs save what they can and it releases their
claims; other workers continue them.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from oneclock.runs.files import refuse_packed
from oneclock.runs.folder import RunFolder, damage
from oneclock.runs.key import RunKey
from oneclock.runs.lock import Held, holder, join, leave
from oneclock.runs.record import RunRecord
from oneclock.sweep.exec.execution import Execution
from oneclock.sweep.exec.job import claimed, ended
from oneclock.sweep.exec.scheduler import Driver
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import Target

IDLE = "there was nothing to take"


def work(
    study: str | Path,
    where: Execution | None = None,
    time_left: float | None = None,
    idle: float | None = None,
    quiet: bool = False,
) -> str | None:
    """Work on a study until it is done. Returns None, or why this worker left earlier: a signal's name, or words.

    It leaves within `time_left` seconds, or after `idle` seconds without a free run. ValueError if the folder holds no
    study, its code has changed, or a sweep is at work on it.
    """
    where = where or Execution(grace=20.0)  # less than the 30 seconds that a batch system leaves by default
    for name, value in {"time_left": time_left, "idle": idle}.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be more than 0 seconds, got {value:g}")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, lambda *_: None)  # Slurm's script ignores it until here
    end = None if time_left is None else time.monotonic() + time_left
    plan = shared_plan(study)
    claim = join(plan.path).keep_alive()
    try:
        plan = shared_plan(study)  # a sweep may have extended or packed it meanwhile
        worker = Worker(plan, where, claim, end=end, idle=idle)
        with worker:
            try:
                worker.drive(quiet)
            except KeyboardInterrupt:
                return signal.Signals(worker.asked or signal.SIGINT).name
        return worker.left
    finally:
        leave(claim)


def shared_plan(study: str | Path) -> Plan:
    """The plan of a study's folder with the code that is there now; ValueError if that has changed."""
    before = Plan.read(study)
    refuse_packed(before.path)
    plan = Plan(before.path, [target.afresh() for target in before.targets], before.protocol)
    plan.check()
    plan.check_same_code()
    return plan


class Worker(Driver):
    """Takes one run for each free slot; `left` says why it ended before the study was done."""

    waits = False
    ahead = 0  # no run waits here: another worker may be free for it
    signals = (*Driver.signals, signal.SIGUSR1)
    hurried_by = (signal.SIGINT,)  # from a person who will not wait; batch systems repeat their signals

    def __init__(self, *driver: Any, end: float | None = None, idle: float | None = None) -> None:
        super().__init__(*driver)
        self.left: str | None = None
        self._end, self._idle = end, idle
        self._done, self._late, self._looked, self._busy = False, False, 0.0, time.monotonic()
        self._paces: dict[str, float] = {}

    @property
    def more(self) -> bool:
        if self._done and not self.flying:
            return False
        if self._end is not None and self._end - time.monotonic() <= self.where.grace:
            self.left = "its time is up"
        elif self._late and not self.flying:
            self.left = "its time is too short for another run"
        elif self._idle is not None and time.monotonic() - self._busy > self._idle:
            self.left = IDLE
        return self.left is None

    def stop_if_hopeless(self, target: Target, row: RunRecord) -> None:
        """Counts the runs of other workers too."""
        self._catch_up(target)
        super().stop_if_hopeless(target, row)

    def submit(self) -> None:
        """Take needed and free runs of all targets, as many as there are slots."""
        if self.flying:
            self._busy = time.monotonic()
        if len(self.flying) < self.engine.workers and (self.due or time.monotonic() - self._looked > 5):
            self.due = {target.name: target for target in self.plan.targets}
            self._done = self._late = True
            super().submit()
            self.waiting.clear()
            self._looked = time.monotonic()

    def needed(self, target: Target) -> list[RunKey]:
        self._catch_up(target)
        keys, in_time = super().needed(target), self._in_time(target)
        self._done &= not keys
        self._late &= not (keys and in_time)
        random.shuffle(keys)  # otherwise workers that start together would all try the same run
        return keys if in_time else []

    def hand(self, target: Target, key: RunKey) -> None:
        """Take the run, if nobody has it."""
        path = self.plan.run_path(key)
        if holder(path) is None:
            if path.exists() and damage(path) is not None:
                self._set_aside(key)
            super().hand(target, key)

    def _catch_up(self, target: Target) -> None:
        """Note runs that other workers have ended, until the protocol needs none of them."""
        while any([self._has_ended(key) for key in self.plan.step(target).runs]):
            pass

    def _has_ended(self, key: RunKey) -> bool:
        """Whether another worker has ended the run, which then counts; a damaged record is set aside."""
        path, result = self.plan.run_path(key), None
        try:
            if os.path.abspath(path) not in self.flying and (result := ended(path)) is not None:
                self.count(key, result)
        except ValueError:
            self._set_aside(key)
        return result is not None

    def _set_aside(self, key: RunKey) -> None:
        path = self.plan.run_path(key)
        with suppress(Held), claimed(path):
            if damage(path) is not None:
                self.plan.study.set_aside(key.folder)

    def _in_time(self, target: Target) -> bool:
        """Whether a run that starts now will probably save something before this worker's time is up.

        Most runs save at each evaluation; the time between two is that of a finished run of the target.
        """
        if self._end is None:
            return True
        for key in self.plan.losses(target) if target.name not in self._paces else ():
            run = RunFolder.read(self.plan.run_path(key))
            if run.result is not None and run.result.status == "finished" and run.result.seconds and run.points():
                self._paces[target.name] = run.result.seconds / len(run.points())
                break
        return self._end - time.monotonic() > self._paces.get(target.name, 0.0) + self.where.grace
