"""A sweep killed at random moments and restarted until done ends with the very table of an undisturbed one.

    python tests/sweep/chaos.py --kills 20 [--seed 1] [--engine local|dask]

Driver, server, a run's own process or several at once are killed with SIGKILL; on a Dask cluster of two workers on
127.0.0.1 a worker too. After every death of the driver all that it started must be gone by itself. Every result, once
written, must stay as it is: a run that was finished is never executed again. Prints what happened; exits with 1 where
any of this does not hold.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from oneclock.study.folder import Study

TARGET = Path(__file__).with_name("sweep_target.py")


def until(true: Callable[[], object], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


class Marked:
    """Everything started with one environment marker, however it is called and whoever its parent is."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {"ONECLOCK_CHAOS": self.mark} | more

    def processes(self) -> dict[int, str]:
        """pid -> what it is: driver, server, run, worker, other."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if self.mark.encode() in (entry / "environ").read_bytes():
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    found[pid] = parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return {pid: _kind(found, pid) for pid in found}

    def of(self, *kinds: str) -> list[int]:
        return sorted(pid for pid, what in self.processes().items() if what in kinds)

    def gone(self, *kinds: str, within: float = 30.0) -> bool:
        """Whether all of it (of those kinds) has ended by itself."""
        deadline = time.monotonic() + within
        while self.of(*kinds) if kinds else self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def _kind(found: dict[int, tuple[int, str]], pid: int) -> str:
    parent, line = found[pid]
    if "oneclock.sweep.server" in line:
        return "run" if "oneclock.sweep.server" in found.get(parent, (0, ""))[1] else "server"
    if "dask_worker" in line:
        return "worker"
    return "driver" if "oneclock sweep" in line else "other"


class Cluster:
    """A Dask scheduler and two workers on 127.0.0.1; a worker that is killed is replaced."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.marked = Marked()
        self._folder, self._file = folder, folder / "scheduler.json"
        self._environment = self.marked.environment(DASK_DISTRIBUTED__LOGGING__DISTRIBUTED="critical", **environment)
        self._scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        while not self._file.exists():
            assert self._scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]
        self.workers = [self._worker() for _ in range(2)]

    def kill_worker(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._worker()

    def close(self) -> None:
        for one in (*self.workers, self._scheduler):
            one.kill()
            one.wait()

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(self._folder))

    def _start(self, kind: str, *more: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(self._file)]
        return subprocess.Popen([*line, "--no-dashboard", *more], env=self._environment, stderr=subprocess.DEVNULL)


@contextmanager
def cluster(folder: Path, **environment: str) -> Iterator[Cluster]:
    made = Cluster(folder, **environment)
    try:
        yield made
    finally:
        made.close()


def command(study: Path, *more: str) -> list[str]:
    line = [sys.executable, "-m", "oneclock", "sweep", f"{TARGET}:train", "--budget", "200", "--out", str(study)]
    return [*line, *([] if "--scheduler" in more else ["--jobs", "2"]), "--retries", "20", *more]


def table(study: Path) -> list[tuple]:
    """The final table to the bit, and every curve, without times."""
    rows = Study.open(study).rows()
    curves = [path.read_bytes() for path in sorted(study.glob("runs/*/*/curve.jsonl"))]
    return [(r.experiment, r.beta, r.seed, r.state, r.step, r.best_loss, r.best_step, r.reason) for r in rows] + curves


def results(study: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in study.glob("runs/*/*/result.json")}


def strike(marked: Marked, dice: random.Random, driver: int, workers: Cluster | None) -> str:
    """Kill the driver, a server, both, a run, or a worker; tells which."""
    what = dice.choice(["driver", "server", "both", "run", *(["worker"] if workers else [])])
    if what == "worker" and workers:
        workers.kill_worker(dice.randrange(2))
        return what
    servers, runs = marked.of("server"), marked.of("run")
    victims = {"driver": [driver], "server": servers[:], "both": [driver, *servers], "run": runs}[what]
    if what in ("server", "run") and victims:
        victims = [dice.choice(victims)]
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return what if victims else "nobody"


def disturbed(
    study: Path, kills: int, dice: random.Random, environment: dict[str, str], more: list[str], workers: Cluster | None
) -> list[str]:
    """Sweep to the end, struck `kills` times; returns what went wrong."""
    wrong, struck, known = [], collections.Counter(), {}
    while True:
        ours = Marked()
        theirs = workers.marked if workers else ours
        line = command(study, *more, *(["--scheduler", workers.address] if workers else []))
        driver = subprocess.Popen(line, env=ours.environment(**environment), stdout=subprocess.DEVNULL)
        while struck.total() < kills and driver.poll() is None:
            time.sleep(dice.uniform(0.1, 2.0))
            what = strike(theirs, dice, driver.pid, workers)
            struck[what] += what != "nobody"
            known = {**known, **{path: data for path, data in results(study).items() if path not in known}}
            if what in ("driver", "both"):
                break
        code = driver.wait()
        if not ours.gone() or not theirs.gone("run"):
            wrong.append(f"left running: {ours.processes()}, {theirs.processes()}")
        changed = [path.parent.name for path, data in known.items() if results(study).get(path) != data]
        wrong += [f"a finished run was executed again: {name}" for name in changed]
        if code == 0:
            print(f"struck {dict(+struck)}")
            missed = [f"it was done after {struck.total()} kills of {kills}"] if struck.total() != kills else []
            return wrong + missed
        if code > 0:
            told = [f"{row.beta} {row.seed}: {row.reason}" for row in Study.open(study).rows() if row.state == "failed"]
            return [*wrong, f"the sweep ended with exit code {code}", *told]


def main(kills: int, seed: int, engine: str = "local", more: tuple[str, ...] = (), pace: str = "0.4") -> list[str]:
    """What went wrong, nothing where all is well."""
    with tempfile.TemporaryDirectory() as folder:
        calm, wild, completed = Path(folder, "calm"), Path(folder, "wild"), Path(folder, "completed")
        environment = {"PACE": pace, "COMPLETED": str(completed)}
        subprocess.run(command(calm, *more), check=True, stdout=subprocess.DEVNULL)
        with cluster(Path(folder), **environment) if engine == "dask" else nullcontext() as workers:
            wrong = disturbed(wild, kills, random.Random(seed), environment, list(more), workers)
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
    parser.add_argument("--engine", choices=["local", "dask"], default="local")
    arguments = parser.parse_args()
    started = time.monotonic()
    trouble = main(arguments.kills, arguments.seed, arguments.engine)
    for line in trouble:
        print("WRONG:", line)
    print(f"{'failed' if trouble else 'all is well'} after {time.monotonic() - started:.0f} s")
    sys.exit(bool(trouble))
