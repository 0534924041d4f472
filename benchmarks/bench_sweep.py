"""One sweep of 23 runs by oneclock, by a plain script, by Optuna and by Ray Tune, on two cores, measured side by side.

    python benchmarks/bench_sweep.py [--repeats 5] [--budget 1500] [--only oneclock --only optuna]

Each peer runs in an environment of its own below .cache/, made on the first call; torch and scikit-learn come from the
environment of oneclock. A peer that cannot be installed is left out, loudly. All must find the same losses. The ways
take turns, and what is printed is the median of the repeats with the smallest and the largest. Overhead per run is the
workers' time that training did not take, (wall clock x workers - training) / 23, by two measures of training: `told`,
what the way itself timed, and `least`, the least that any way needed for the run. The first leaves out what a way
imports and warms up within its training; the second counts it. `beyond import` is `told` without the import of the
training's own code (torch and scikit-learn), which every way waits for once; it is timed on its own in every repeat.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
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
        return [*sweep, "--jobs", "2", "--no-report", "--out", str(out / "study")]
    if way == "sequential":
        return [sys.executable, str(PEERS / "sequential.py"), str(out / "rows.json")]
    python = environment_of(way, {"optuna": "optuna", "ray": "ray[tune]"}[way])
    line = [str(python), str(PEERS / f"with_{way}.py"), str(out / "rows.json")]
    if way == "ray" and os.geteuid() == 0 and shutil.which("unshare"):  # it must reach nobody and nobody it
        inside = f"ip link set lo up 2>/dev/null || ifconfig lo up; exec {' '.join(line)}"
        line = ["unshare", "--net", "sh", "-c", inside]
    return line if python else None


def imported() -> float:
    """Seconds for a fresh process to import the training's code."""
    started = time.perf_counter()
    environment = os.environ | dict.fromkeys(THREADS, "1")
    subprocess.run([sys.executable, "-c", "import digits"], cwd=PEERS, env=environment, check=True)
    return time.perf_counter() - started


def rows_of(way: str, out: Path) -> dict[tuple[float, int], tuple[float, float]]:
    """(beta, seed) -> (best loss, seconds in training)."""
    if way != "oneclock":
        return {
            (beta, seed): (loss, seconds) for beta, seed, loss, seconds in json.loads((out / "rows.json").read_text())
        }
    from oneclock.runs.store import Study

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


def spread(values: list[float]) -> str:
    """The median, and the smallest and the largest.

    >>> spread([3.0, 1.0, 2.0])
    '2.00 (1.00 to 3.00)'
    """
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main(ways: list[str], repeats: int) -> None:
    found: dict[str, list[tuple[float, dict]]] = {}
    imports = []
    imported()  # the first one compiles
    for repeat in range(repeats):
        imports.append(imported())
        for way in ways:
            if repeat and way not in found:
                continue
            sweep = measured(way)
            if sweep is None:
                continue
            found.setdefault(way, []).append(sweep)
            trained = math.fsum(seconds for _, seconds in sweep[1].values())
            print(f"{way:12} {sweep[0]:7.1f} s, {trained / len(sweep[1]):5.2f} s of training per run", flush=True)
    show(found, imports)


def show(found: dict[str, list[tuple[float, dict]]], imports: list[float]) -> None:
    """The table: wall clock, its ratio to oneclock's in the same repeat, overheads, losses."""
    first = next(iter(found))
    reference = found[first][0][1]
    several = [rows for way, sweeps in found.items() if WAYS[way] > 1 for _, rows in sweeps]  # one thread in each run
    least = math.fsum(min(rows[cell][1] for rows in several or [reference]) for cell in reference)
    print(f"\nimport of the training's code: {spread(imports)} s; overheads in seconds a run")
    heads = ("wall clock, s", f"x {first}", "overhead, told", "beyond import", "overhead, least")
    print(f"{'':12} " + " ".join(f"{head:>22}" for head in heads) + "  losses")
    for way, sweeps in found.items():
        walls = [wall for wall, _ in sweeps]
        ratios = [wall / ours for wall, (ours, _) in zip(walls, found[first], strict=False)]
        told = [math.fsum(seconds for _, seconds in rows.values()) for _, rows in sweeps]

        def overhead(walls: list[float], trained: list[float], workers: int = WAYS[way]) -> str:
            return spread([(wall * workers - time) / len(reference) for wall, time in zip(walls, trained, strict=True)])

        ready = [wall - imported for wall, imported in zip(walls, imports, strict=True)]
        least_of = overhead(walls, [least] * len(walls)) if WAYS[way] > 1 else ""  # alone it trains with all threads
        columns = (spread(walls), spread(ratios), overhead(walls, told), overhead(ready, told), least_of)
        print(f"{way:12} " + " ".join(f"{column:>22}" for column in columns) + f"  {equal(reference, sweeps[0][1])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", default="1500", help="steps of one run")
    parser.add_argument("--only", action="append", choices=list(WAYS))
    arguments = parser.parse_args()
    os.environ["BENCH_BUDGET"] = arguments.budget
    main(arguments.only or list(WAYS), arguments.repeats)
