"""Has the runs of a plan executed: asks the plan which are next, hands them to an engine, remembers what has ended."""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from oneclock.study.claims import Claim
from oneclock.study.folder import Row
from oneclock.study.records import Result
from oneclock.sweep.commands import NO_CURVE
from oneclock.sweep.engine import Engine
from oneclock.sweep.functions import NO_LOSS
from oneclock.sweep.job import Ended, Job
from oneclock.sweep.live import Display
from oneclock.sweep.plan import Plan
from oneclock.sweep.progress import Progress
from oneclock.sweep.protocol import Cell
from oneclock.sweep.stop import Stop
from oneclock.sweep.targets import Target
from oneclock.sweep.where import Where

SILENT = {
    NO_CURVE: "have the command print or log a step and a val_loss, or name its log with --log",
    NO_LOSS: "have the function do one of the two",
}
"""How the reason of a run without a curve begins, and what to do about it."""


def modules_of(plan: Plan) -> tuple[str, ...]:
    """What the runs of a plan will import."""
    return tuple(dict.fromkeys(name for target in plan.targets for name in target.modules()))


def processes_of(plan: Plan) -> int:
    """The processes of a run of the plan, at most."""
    return max(target.processes for target in plan.targets)


@contextmanager
def at_work(claim: Claim, engine: Engine) -> Iterator[None]:
    """The time in which runs execute; nothing of it is left running."""
    try:
        yield
    finally:
        claim.release()  # runs on other machines see it and stop
        engine.close()


class Driver:
    """Has runs executed until the protocol wants no more. What has ended is remembered, not looked up again."""

    waits = True

    def __init__(self, plan: Plan, where: Where, claim: Claim, engine: Engine, modules: tuple[str, ...]) -> None:
        self.plan, self.where, self.claim, self.engine, self.modules = plan, where, claim, engine, modules
        self.progress = Progress(plan)
        self.due = {target.name: target for target in plan.targets}
        self.waiting: dict[str, deque[Job]] = {target.name: deque() for target in plan.targets}
        self.handed = 0

    @property
    def more(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self.progress.flying)

    def drive(self, display: Display, stop: Stop) -> None:
        self.submit()
        while self.more:
            display.update()
            ends = self.engine.ended(timeout=1.0)
            if stop.asked:
                raise KeyboardInterrupt
            if self.claim.lost:
                raise ValueError(f"others have taken over {self.plan.path}: this process was not seen alive for long")
            for end in ends:
                target, row = self.progress.end(end.path, _result(end))
                self.handed -= 1
                self.due[target.name] = target
                display.ended(row)
                self.refuse_silence(target, row)
            self.submit()

    def refuse_silence(self, target: Target, row: Row) -> None:
        """ValueError where the first run to end by itself left no curve: the others would leave none either."""
        mend = next((way for reason, way in SILENT.items() if (row.reason or "").startswith(reason)), None)
        losses = self.plan.losses(target).values()
        if mend is not None and all(math.isnan(loss) for loss in losses):
            why = f"the sweep stops here, for its first run ended without a curve ({row.reason})"
            raise ValueError(f"{why}; {mend}, and sweep into another folder")

    def submit(self) -> None:
        """Hand the engine as many runs as it has workers, and one to wait; those of the first target come first.

        A protocol looks at all that has ended: it is asked for more of a target only when none of its runs wait.
        """
        for name in [name for name in self.due if not self.waiting[name]]:
            target = self.due.pop(name)
            new = self.progress.plan(target, self.plan.step(target))
            self.waiting[name].extend(self.job(target, cell) for cell in new)
        for jobs in self.waiting.values():
            while jobs and self.handed <= self.engine.workers:
                self.engine.submit(jobs.popleft())
                self.handed += 1

    def job(self, target: Target, cell: Cell) -> Job:
        return Job(
            path=os.path.abspath(self.plan.place(target, cell)),
            target=target,
            cell=cell,
            claim=os.path.abspath(self.claim.path),
            folder=os.getcwd(),
            search=tuple(entry or os.getcwd() for entry in sys.path),
            modules=self.modules,
            retries=self.where.retries,
            timeout=self.where.timeout,
            waits=self.waits,
        )


def _result(end: Ended) -> Result | None:
    """How a run ended; OSError where the disk takes nothing: no other run would fare better, and none is lost."""
    if end.trouble is not None:
        why = f"the disk takes nothing more ({end.trouble})"
        raise OSError(f"{why}; no run is lost: mend that, and the same command goes on")
    return end.result
