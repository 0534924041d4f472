"""What one more run costs when it trains nothing: wall clock of sweeps of 4 and of 44 empty runs, one at a time.

    python benchmarks/empty_runs.py [--repeats 3]

The difference divided by 40 is what oneclock itself needs for a run: a process, a claim, a curve of ten points and a
record. The rest of a short sweep is the start of the command and the import of the user's own code, once per sweep.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN = """
def train(beta, seed, run):
    for step in range(1, 11):
        run.log(step, val_loss=1 + abs(beta - 0.9) + 0.01 * seed + 1 / step)
"""
FEW, MANY = 4, 44


def seconds(folder: Path, runs: int) -> float:
    """Wall clock of a sweep of so many empty runs."""
    betas = ",".join(f"{0.5 + 0.01 * number:.2f}" for number in range(runs // 2))
    grid = ["--protocol", "grid", "--betas", betas, "--seeds", "1,2", "--jobs", "1"]
    command = [sys.executable, "-m", "oneclock", "sweep", f"{folder / 'empty.py'}:train", "--budget", "10"]
    began = time.perf_counter()
    subprocess.run([*command, *grid, "--out", str(folder / f"study-{runs}")], check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    slopes, starts = [], []
    for _ in range(parser.parse_args().repeats):
        with tempfile.TemporaryDirectory() as place:
            Path(place, "empty.py").write_text(TRAIN)
            few, many = (seconds(Path(place), runs) for runs in (FEW, MANY))
            slopes.append((many - few) / (MANY - FEW))
            starts.append(few - FEW * slopes[-1])
    print(f"each run {statistics.median(slopes):.3f} s ({min(slopes):.3f} to {max(slopes):.3f})")
    print(f"once per sweep {statistics.median(starts):.1f} s ({min(starts):.1f} to {max(starts):.1f})")


if __name__ == "__main__":
    main()
