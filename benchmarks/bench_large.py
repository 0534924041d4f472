"""Large studies: what `status`, `analyse` and `report` cost on records of very many runs, and how that grows.

    python benchmarks/bench_large.py                     2,500 and 10,000 runs of 200 evaluations
    python benchmarks/bench_large.py --runs 100 400      a first look

Records are written directly, without training. Each command runs in a process of its own, as installed packages do with
compiled modules at hand; printed are its seconds (of `status`, which is short, the median of five), its largest memory,
and the exponent with which both grow from the smaller study to the larger (1 is linear); of the report also the size of
its page.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice, product
from pathlib import Path

from oneclock.rule import GRID
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import Grid
from oneclock.sweep import Plan
from oneclock.sweep.api import target_of

COMMANDS = {"status": ["status", "--json"], "analyse": ["analyse"], "report": ["report", "--out", "out"]}
SEEDS = (1, 2, 3)


def train(beta: float, seed: int, run: object) -> None:
    """What the study says that it swept; nothing is trained."""


def write_study(path: Path, runs: int, evaluations: int) -> None:
    """A finished study of so many runs: the grid with three seeds, and as many experiments as that takes."""
    experiments = [f"e{number}" for number in range(math.ceil(runs / len(GRID) / len(SEEDS)))]
    targets = [target_of(train, 100 * evaluations, name=name) for name in experiments]
    Plan(path, targets, Grid(betas=GRID, seeds=SEEDS)).write()
    for name, beta, seed in islice(product(experiments, GRID, SEEDS), runs):
        identity = RunKey(name, beta, seed, 100 * evaluations)
        run = RunFolder.start(path / "runs" / identity.folder, identity)
        floor = 2 + 0.1 * (math.log10(1 - beta) + 1.3) ** 2 + 0.001 * seed
        points = [(100 * place, floor + math.exp(-6 * place / evaluations)) for place in range(1, evaluations + 1)]
        lines = [json.dumps({"step": step, "val_loss": loss, "train_loss": loss - 0.1}) + "\n" for step, loss in points]
        (run.path / "curve.jsonl").write_text("".join(lines))
        run.finish("finished", seconds=1.0)


def measured(words: list[str], study: Path) -> tuple[float, float]:
    """Seconds and largest megabytes of one command, by the account of the operating system."""
    command, *options = words
    started = time.perf_counter()
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    line = [sys.executable, "-m", "oneclock", command, str(study), *options]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, cwd=study.parent, env=compiled)
    _, state, used = os.wait4(process.pid, 0)
    if state:
        raise SystemExit(f"oneclock {command} ended with {os.waitstatus_to_exitcode(state)}")
    return time.perf_counter() - started, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs=2, default=(2500, 10_000), metavar=("FEW", "MANY"))
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--only", choices=COMMANDS, nargs="*", default=list(COMMANDS))
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in asked.only}
    for runs in asked.runs:
        with tempfile.TemporaryDirectory() as folder:
            write_study(Path(folder) / "study", runs, asked.evaluations)
            for name in asked.only:
                times = [measured(COMMANDS[name], Path(folder) / "study") for _ in range(5 if name == "status" else 1)]
                found[name].append(sorted(times)[len(times) // 2])
                print(f"{runs:6,} runs  {name:8}{found[name][-1][0]:8.2f} s{found[name][-1][1]:9.0f} MB", flush=True)
            if (page := Path(folder) / "out" / "report.html").exists():
                print(f"{runs:6,} runs  page    {page.stat().st_size / 2**20:20.1f} MB", flush=True)
    ratio = math.log(asked.runs[1] / asked.runs[0])
    for name, (few, many) in found.items():
        seconds, memory = (math.log(after / before) / ratio for before, after in zip(few, many, strict=True))
        print(f"{name:8} grows as runs ** {seconds:.2f} in time, ** {memory:.2f} in memory")


if __name__ == "__main__":
    main()
