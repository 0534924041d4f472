"""One sweep of 23 runs by oneclock, by a plain script, by Optuna and by Ray Tune, on two cores, measured side by side.

    python benchmarks/bench_sweep.py [--repeats 3] [--budget 1500] [--only oneclock --only optuna]

Each peer runs in an environment of its own below .cache/, made on the first call; torch and scikit-learn come from the
environment of oneclock. A peer that cannot be installed is left out, loudly. All must find the same losses. Overhead
per run is the workers' time that no training took: (wall clock x workers - seconds in training) / 23.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE / "sweep_peers"
CACHE = HERE.parent / ".cache" / "sweep_peers"
WAYS = {"oneclock": 2, "sequential": 1, "optuna": 2, "ray": 2}
"""Way -> how many runs at a time."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def environment_of(peer: str, package: str) -> Path | None:
    """The Python of the peer's own environment, or None where it cannot be had."""
    home = CACHE / peer
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", package], check=False)
        if done.returncode:
            print(f"LEFT OUT: {package} cannot be installed here")
            return None
        paths = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        Path(paths.stdout.strip(), "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (home / "ready").touch()
    return python


def command_of(way: str, out: Path) -> list[str] | None:
    if way == "oneclock":
        sweep = [
            sys.executable,
            "-m",
            "oneclock",
            "sweep",
            f"{PEERS}/digits.py:train",
            "--budget",
            os.environ["BENCH_BUDGET"],
        ]
        return [*sweep, "--jobs", "2", "--out", str(out / "study")]
    if way == "sequential":
        return [sys.executable, str(PEERS / "sequential.py"), str(out / "rows.json")]
    python = environment_of(way, {"optuna": "optuna", "ray": "ray[tune]"}[way])
    line = [str(python), str(PEERS / f"with_{way}.py"), str(out / "rows.json")]
    if way == "ray" and os.geteuid() == 0 and shutil.which("unshare"):  # it must reach nobody and nobody it
        inside = f"ip link set lo up 2>/dev/null || ifconfig lo up; exec {' '.join(line)}"
        line = ["unshare", "--net", "sh", "-c", inside]
    return line if python else None


def rows_of(way: str, out: Path) -> dict[tuple[float, int], tuple[float, float]]:
    """(beta, seed) -> (best loss, seconds in training)."""
    if way != "oneclock":
        return {
            (beta, seed): (loss, seconds) for beta, seed, loss, seconds in json.loads((out / "rows.json").read_text())
        }
    from oneclock.study.folder import Study

    rows = Study.open(out / "study").rows()
    assert all(isinstance(row.beta, float) for row in rows)
    return {(row.beta, row.seed): (row.best_loss, row.seconds) for row in rows}


def measured(way: str) -> tuple[float, dict] | None:
    """(wall clock in seconds, rows) of one sweep."""
    with tempfile.TemporaryDirectory() as folder:
        line = command_of(way, Path(folder))
        if line is None:
            return None
        clean = {name: value for name, value in os.environ.items() if name not in THREADS}
        more = {} if way == "sequential" else dict.fromkeys(THREADS, "1")
        started = time.perf_counter()
        done = subprocess.run(line, env=clean | more, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - started
        if done.returncode:
            print(f"LEFT OUT: {way} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
            return None
        return wall, rows_of(way, Path(folder))


def equal(one: dict, two: dict) -> str:
    """How equal the losses of two ways are."""
    assert set(one) == set(two), f"different runs: {set(one) ^ set(two)}"
    worst = max(abs(one[cell][0] - two[cell][0]) / one[cell][0] for cell in one)
    assert worst < 1e-3, f"the losses differ by {worst:.1%}"
    return "to the bit" if worst == 0 else f"to {worst:.0e}"


def main(ways: list[str], repeats: int) -> None:
    walls: dict[str, list[float]] = {}
    overheads: dict[str, list[float]] = {}
    same: dict[str, str] = {}
    reference: dict = {}
    for repeat in range(repeats):
        for way in ways:
            if repeat and way not in walls:
                continue
            found = measured(way)
            if found is None:
                continue
            wall, rows = found
            reference = reference or rows
            same[way] = equal(reference, rows)
            walls.setdefault(way, []).append(wall)
            trained = math.fsum(seconds for _, seconds in rows.values())
            overheads.setdefault(way, []).append((wall * WAYS[way] - trained) / len(rows))
            print(f"{way:12} {wall:7.1f} s, {trained / len(rows):5.2f} s of training per run", flush=True)
    ours = min(walls[ways[0]])  # what else the machine does only ever adds
    print(f"\n{'best of ' + str(repeats):12} {'wall clock':>10} {'oneclock is':>14} {'overhead per run':>18}   losses")
    for way, times in walls.items():
        wall, over = min(times), min(overheads[way])
        print(f"{way:12} {wall:8.1f} s {wall / ours:9.2f} x fast {over:16.2f} s   equal {same[way]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--budget", default="1500", help="steps of one run")
    parser.add_argument("--only", action="append", choices=list(WAYS))
    arguments = parser.parse_args()
    os.environ["BENCH_BUDGET"] = arguments.budget
    main(arguments.only or list(WAYS), arguments.repeats)
