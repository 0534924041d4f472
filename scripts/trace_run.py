"""Count the modules and functions of oneclock that a sweep over a user's function passes through.

    python scripts/trace_run.py [--commit COMMIT] [--runs 1] [--list]

A small function is swept twice: by `run_sweep`, which trains and records, and by the command `oneclock sweep`, which
also analyses the study and writes a report. Each process of a sweep notes the functions of oneclock that it calls;
comprehensions, lambdas and class bodies do not count. `--commit` counts at another commit of this repository, to
compare. Functions that should run once for a whole sweep are counted call by call. Linux and Python 3.11 or later.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]

WATCHED = ("Plan.check", "of_file", "of_callable", "analyse")
"""Functions of which every call is counted: each should be needed once in a sweep."""

TRAIN = """
def train(beta, seed, run):
    for step in (50, 100):
        run.log(step, val_loss=1 + (beta - 0.9) ** 2 + 1 / step + 0.001 * seed)
"""

TRACER = """
import os, sys, threading
if "TRACE_TO" in os.environ:
    file = os.open(os.environ["TRACE_TO"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    package, watched, seen = os.environ["TRACE_OF"], os.environ["TRACE_EACH"].split(","), set()

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_flags & 1 and code.co_filename.startswith(package):  # a function's code
            if code not in seen or code.co_qualname in watched:
                seen.add(code)
                os.write(file, f"{code.co_filename}\\t{code.co_qualname}\\n".encode())

    threading.setprofile(note)
    sys.setprofile(note)
"""
"""The `sitecustomize` of every process: it writes a line for each function that is called for the first time."""


def source_of(commit: str | None, folder: Path) -> Path:
    """The `src` folder of this checkout, or of a commit, written below `folder`."""
    if commit is None:
        return ROOT / "src"
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "src"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder / "checkout", filter="data")
    return folder / "checkout" / "src"


def calls(source: Path, folder: Path, line: list[str]) -> Counter[tuple[str, str]]:
    """(module, function) of every function that a sweep by this Python line calls, with the calls that were noted."""
    (folder / "hook").mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "hook" / "sitecustomize.py").write_text(TRACER)
    environment = os.environ | {
        "PYTHONPATH": f"{folder / 'hook'}:{source}",
        "TRACE_TO": str(folder / "trace.tsv"),
        "TRACE_OF": str(source / "oneclock"),
        "TRACE_EACH": ",".join(WATCHED),
    }
    done = subprocess.run(
        [sys.executable, *line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"the sweep ended with exit code {done.returncode}: {done.stderr or done.stdout}")
    rows = (folder / "trace.tsv").read_text().splitlines()
    pairs = (row.split("\t") for row in rows)
    return Counter(
        (str(Path(path).relative_to(source / "oneclock")), function)
        for path, function in pairs
        if not function.endswith(">")  # <lambda>, <listcomp>
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", help="count at this commit instead of the files that are here")
    parser.add_argument("--runs", type=int, default=1, help="runs of the sweep")
    parser.add_argument("--list", action="store_true", help="print every function")
    arguments = parser.parse_args()
    betas = ",".join(f"{0.5 + 0.4 * index / arguments.runs:.3f}" for index in range(arguments.runs))
    values = f"protocol='grid', betas=[{betas}], seeds=[1], out='study', quiet=True"
    script = f"import oneclock; oneclock.run_sweep('train.py:train', 100, {values})"
    asked = ["--budget", "100", "--protocol", "grid", "--betas", betas, "--seeds", "1", "--out", "study"]
    lines = {"run_sweep": ["-c", script], "oneclock sweep": ["-m", "oneclock", "sweep", "train.py:train", *asked]}
    with tempfile.TemporaryDirectory() as name:
        source = source_of(arguments.commit, Path(name))
        for title, line in lines.items():
            report(title, calls(source, Path(name) / title.split()[0], line), arguments.list)


def report(title: str, counts: Counter[tuple[str, str]], with_names: bool) -> None:
    """Print what one sweep passed through."""
    if with_names:
        print("\n".join(f"{module}  {function}" for module, function in sorted(counts)))
    print(f"{title}: {len({module for module, _ in counts})} modules, {len(counts)} functions")
    for name in WATCHED:
        times = sum(count for (_, function), count in counts.items() if function == name)
        print(f"  {name}: called {times} times")


if __name__ == "__main__":
    main()
