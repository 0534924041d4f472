"""A sweep killed at random moments and restarted until done ends with the very table of an undisturbed one.

    python tests/sweep/chaos.py --kills 20 [--seed 1]

Driver, worker, both, or a run's own process are killed with SIGKILL. After every death of the driver all that it
started must be gone by itself. Every result, once written, must stay as it is: a run that was finished is never
executed again. Prints what happened; exits with 1 where any of this does not hold.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

from oneclock.study.folder import Study

TARGET = Path(__file__).with_name("sweep_target.py")


class Marked:
    """Everything started with one environment marker, however it is called and whoever its parent is."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {"ONECLOCK_CHAOS": self.mark} | more

    def processes(self) -> dict[int, str]:
        """pid -> what it is: driver, worker, server, run, other."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if self.mark.encode() in (entry / "environ").read_bytes():
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    found[pid] = parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return {pid: _kind(found, pid) for pid in found}

    def of(self, kind: str) -> list[int]:
        return sorted(pid for pid, what in self.processes().items() if what == kind)

    def gone(self, within: float = 30.0) -> bool:
        """Whether all of it has ended by itself."""
        deadline = time.monotonic() + within
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def _kind(found: dict[int, tuple[int, str]], pid: int) -> str:
    parent, line = found[pid]
    if "oneclock.sweep.process" in line:
        return "run" if "oneclock.sweep.process" in found.get(parent, (0, ""))[1] else "server"
    if "spawn_main" in line:
        return "worker"
    return "driver" if "oneclock sweep" in line else "other"


def command(study: Path, *more: str) -> list[str]:
    line = [sys.executable, "-m", "oneclock", "sweep", f"{TARGET}:train", "--budget", "200", "--out", str(study)]
    return [*line, "--jobs", "2", "--retries", "20", *more]


def table(study: Path) -> list[tuple]:
    """The final table to the bit, and every curve, without times."""
    rows = Study.open(study).rows()
    curves = [path.read_bytes() for path in sorted(study.glob("runs/*/*/curve.jsonl"))]
    return [(r.experiment, r.beta, r.seed, r.state, r.step, r.best_loss, r.best_step, r.reason) for r in rows] + curves


def results(study: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in study.glob("runs/*/*/result.json")}


def strike(marked: Marked, dice: random.Random, driver: int) -> str:
    """Kill the driver, a worker, both, or a run; tells which."""
    what = dice.choice(["driver", "worker", "both", "run"])
    workers, runs = marked.of("worker"), marked.of("run")
    victims = {"driver": [driver], "worker": workers[:], "both": [driver, *workers], "run": runs}[what]
    if what in ("worker", "run") and victims:
        victims = [dice.choice(victims)]
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return what if victims else "nobody"


def disturbed(study: Path, kills: int, dice: random.Random, completed: Path, more: list[str]) -> list[str]:
    """Sweep to the end, struck `kills` times; returns what went wrong."""
    wrong, struck, known = [], collections.Counter(), {}
    while True:
        marked = Marked()
        environment = marked.environment(PACE="0.4", COMPLETED=str(completed))
        driver = subprocess.Popen(command(study, *more), env=environment, stdout=subprocess.DEVNULL)
        while struck.total() < kills and driver.poll() is None:
            time.sleep(dice.uniform(0.2, 4.0))
            what = strike(marked, dice, driver.pid)
            struck[what] += what != "nobody"
            known = {**known, **{path: data for path, data in results(study).items() if path not in known}}
            if what in ("driver", "both"):
                break
        code = driver.wait()
        if not marked.gone():
            wrong.append(f"left running: {marked.processes()}")
        changed = [path.parent.name for path, data in known.items() if results(study).get(path) != data]
        wrong += [f"a finished run was executed again: {name}" for name in changed]
        if code == 0:
            print(f"struck {dict(+struck)}")
            return (
                wrong if struck.total() == kills else [*wrong, f"it was done after {struck.total()} kills of {kills}"]
            )
        if code > 0:
            told = [f"{row.beta} {row.seed}: {row.reason}" for row in Study.open(study).rows() if row.state == "failed"]
            return [*wrong, f"the sweep ended with exit code {code}", *told]


def main(kills: int, seed: int, more: list[str]) -> list[str]:
    """What went wrong, nothing where all is well."""
    with tempfile.TemporaryDirectory() as folder:
        calm, wild, completed = Path(folder, "calm"), Path(folder, "wild"), Path(folder, "completed")
        subprocess.run(command(calm, *more), check=True, stdout=subprocess.DEVNULL)
        wrong = disturbed(wild, kills, random.Random(seed), completed, more)
        if table(calm) != table(wild):
            wrong.append("the table differs from the undisturbed one")
        ends = collections.Counter(completed.read_text().split())
        twice = {name: count for name, count in ends.items() if count > 1}
        print(f"{len(ends)} runs made their last step, {len(twice)} of them twice {twice or ''}")
        wrong += [f"{len(twice)} runs were executed to the end twice"] if twice else []
        wrong += ["a run was started though it was finished"] if "finished-before" in ends else []
        return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    trouble = main(arguments.kills, arguments.seed, [])
    for line in trouble:
        print("WRONG:", line)
    print(f"{'failed' if trouble else 'all is well'} after {time.monotonic() - started:.0f} s")
    sys.exit(bool(trouble))
