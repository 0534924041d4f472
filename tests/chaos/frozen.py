"""Drivers that are frozen for longer than a claim lives, while another sweeps the same study, and then woken."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from oneclock.runs.lock import holder

from .processes import send, until
from .sweeps import QUICK, Restarted, command, one_line

ELSEWHERE = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
"""Starts a command on what it takes for another machine."""

LONG = 1000.0
"""Seconds without a sign: more than a claim lives."""


class Frozen(Restarted):
    """Sweeps that are stopped (SIGSTOP), the driver alone or all of it, and go on (SIGCONT).

    That time passes is told by the age of their claims, set back. On this machine the second sweep is refused, for the
    process lives; on another it takes over, and the first has to notice when it wakes.
    """

    checked = (
        "on the same machine the second sweep is refused in one line and the first goes on; on another the second "
        "takes over and the first, woken, ends in one line; no finished run changed, the table of an undisturbed sweep"
    )

    def __init__(self, folder: Path) -> None:
        # Of a run that was taken over two processes may make the last step; one of them records it.
        super().__init__(folder, lambda study: command(study, *QUICK), PACE="0.05", COMPLETED=os.devnull)
        done = subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False)
        self.places = ["here", "elsewhere"] if done.returncode == 0 else ["here"]

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        """Freeze the sweep that is under way, have another try, and wake it."""
        wrong = self.begun()
        time.sleep(dice.uniform(0.0, 0.6))
        who, place = dice.choice(["driver", "everything"]), dice.choice(self.places)
        frozen = [self.driver.pid] if who == "driver" else list(self.marked.processes())
        send(frozen, signal.SIGSTOP)
        wrong += self.finished()
        for claim in self.study.glob("**/claim-*.json"):
            with suppress(FileNotFoundError):  # where the driver alone is frozen, a run may just have ended
                os.utime(claim, (time.time() - LONG, time.time() - LONG))
        over = self.driver.poll() is not None or holder(self.study) is None  # it had let go of the study before
        wrong += self.refused(frozen, over) if place == "here" else self.taken_over(frozen, over)
        return f"{who}, second sweep {place}", wrong

    def begun(self) -> list[str]:
        """Have a sweep under way of which some run has logged."""
        wrong: list[str] = []
        while True:
            self.under_way()
            until(lambda: list(self.study.glob("runs/*/*/curve.jsonl")) or self.driver.poll() is not None)
            if self.driver.poll() is None:
                return wrong
            wrong += self.ended()

    def second(self, *before: str) -> tuple[int, str]:
        line = [*before, *self.line(self.study)]
        environment = self.marked.environment(**self.environment)
        done = subprocess.run(
            line, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        return done.returncode, done.stderr

    def refused(self, frozen: list[int], over: bool) -> list[str]:
        code, said = self.second()
        send(frozen, signal.SIGCONT)
        if over or (code == 2 and "being worked on by process" in said and one_line(code, said)):
            return []
        return [f"a second sweep beside a frozen one ended with {code}: {said[-500:]}"]

    def taken_over(self, frozen: list[int], over: bool) -> list[str]:
        code, said = self.second(*ELSEWHERE)
        wrong = [] if code == 0 and not said else [f"the one that takes over ended with {code}: {said[-500:]}"]
        wrong += self.finished()
        send(frozen, signal.SIGCONT)
        told = (self.folder / "stderr").read_text if self.driver.wait(timeout=300) else str
        if not over and "taken over" not in told():
            wrong.append(f"woken, the first said {told()[-500:]!r}")
        study = self.study
        wrong += self.ended(2)
        return wrong + (self.done() if self.study == study else [])
