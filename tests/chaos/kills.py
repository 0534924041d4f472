"""SIGKILL to a driver, a server, a run, what a run has started, or all of them at once, at random moments."""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
from pathlib import Path

from .clusters import Cluster
from .processes import send
from .sweeps import QUICK, Restarted, command

ALONE = ("server", "run", "child")
VICTIMS = ("driver", *ALONE, "driver and server", "everything")
SCRIPT = Path(__file__).with_name("torchrun_script.py")


class Kills(Restarted):
    """Sweeps of runs with children and sessions of their own."""

    checked = (
        "no finished run lost, changed or repeated; all gone by itself once the driver is; the table of an undisturbed "
        "sweep to the bit"
    )
    pauses = 0.05, 1.2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, lambda study: command(study, *QUICK, function="with_children"), PACE="0.05")

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        """Kill someone of the sweep that is under way; who, and what did not hold."""
        wrong: list[str] = []
        while True:
            driver, what = self.under_way(), dice.choice(VICTIMS)
            time.sleep(dice.uniform(*self.pauses))
            while not (victims := self.victims(what, dice)) and driver.poll() is None:
                time.sleep(0.02)
            if driver.poll() is not None:
                wrong += self.ended()
            else:
                send(victims, signal.SIGKILL)
                wrong += self.finished()
                if what in ("driver and server", "everything"):
                    self.orphans |= self.orphaned()
                return what, wrong + (self.ended(-9) if driver.pid in victims else [])

    def victims(self, what: str, dice: random.Random) -> list[int]:
        """The processes to kill, in the order of killing."""
        driver, found = [self.driver.pid], self.runners().processes()
        if what in ALONE:
            alone = [pid for pid, kind in found.items() if kind == what]
            return [dice.choice(alone)] if alone else []
        wanted = {"driver": (), "driver and server": ("server",), "everything": ALONE}[what]
        victims = driver + [pid for pid, kind in found.items() if kind in wanted]
        dice.shuffle(victims)
        return victims

    def orphaned(self) -> set[int]:
        """The children that nobody ends before the next sweep. A dying run, or a shell that it left, may start more."""
        self.marked.gone("server", "run", within=10.0)
        before, children = None, {*self.marked.of("child")}
        while children != before:
            time.sleep(0.2)
            before, children = children, {*self.marked.of("child")}
        return children

    def runners(self):
        """The processes that servers and runs are found among."""
        return self.marked


class ClusterKills(Kills):
    """The same on a Dask cluster of two workers, of which one is killed now and then too."""

    pauses = 0.2, 2.5

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.workers = Cluster(folder, PACE="0.05", COMPLETED=str(folder / "completed"))
        super().__init__(folder)
        self.line = lambda study: command(study, *QUICK, "--cluster", self.workers.address, function="with_children")

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        if dice.random() > 0.3:
            return super().strike(dice)
        self.under_way()
        time.sleep(dice.uniform(*self.pauses))
        self.workers.kill_worker(dice.randrange(2))
        return "worker", self.finished()

    def orphaned(self) -> set[int]:
        return {*self.workers.marked.of("child")}  # the workers start other runs at once

    def runners(self):
        return self.workers.marked

    def ended(self, *fine: int) -> list[str]:
        gone = self.workers.marked.gone("run", "child", but=self.orphans)
        left = [] if gone else [f"left running: {self.workers.marked.processes()}"]
        return left + super().ended(*fine)

    def close(self) -> list[str]:
        try:
            return super().close()
        finally:
            self.workers.close()


class TorchrunKills(Kills):
    """The same with runs that are a command: torchrun, whose two processes have sessions of their own."""

    pauses = 0.2, 6.0

    def __init__(self, folder: Path) -> None:
        torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent)) or "torchrun"
        text = f"{torchrun} --standalone --nproc-per-node 2 {SCRIPT} {{beta}} {{seed}} {{folder}}"
        line = [sys.executable, "-m", "oneclock", "sweep", "--command", text, "--budget", "40", "--jobs", "1"]
        line += ["--retries", "20", "--betas", "0.5,0.9", *QUICK[2:]]
        Restarted.__init__(self, folder, lambda study: [*line, "--out", str(study)], PACE="0.1")
