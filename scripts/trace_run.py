"""Count the modules and functions of oneclock that a sweep over a user's function passes through.

    python scripts/trace_run.py [--commit COMMIT] [--runs 1] [--list]

A sweep of a small function runs from the command line, in as many processes as it likes. Each process notes the
functions of oneclock that it calls. `--commit` counts at another commit of this repository, to compare. Functions that
should run once for a whole sweep are counted call by call. Linux and Python 3.11 or later.
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
        if event == "call" and code.co_filename.startswith(package):
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


def calls(source: Path, folder: Path, runs: int) -> Counter[tuple[str, str]]:
    """(module, function) of every function that the sweep calls, with the calls that were noted."""
    (folder / "train.py").write_text(TRAIN)
    (folder / "hook").mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(TRACER)
    betas = ",".join(f"{0.5 + 0.4 * index / runs:.3f}" for index in range(runs))
    line = ["sweep", "train.py:train", "--budget", "100", "--protocol", "grid", "--betas", betas, "--seeds", "1"]
    environment = os.environ | {
        "PYTHONPATH": f"{folder / 'hook'}:{source}",
        "TRACE_TO": str(folder / "trace.tsv"),
        "TRACE_OF": str(source / "oneclock"),
        "TRACE_EACH": ",".join(WATCHED),
    }
    command = [sys.executable, "-m", "oneclock", *line, "--out", "study", "--jobs", "1"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the sweep ended with exit code {done.returncode}: {done.stderr or done.stdout}")
    rows = (folder / "trace.tsv").read_text().splitlines()
    pairs = (row.split("\t") for row in rows)
    return Counter((str(Path(path).relative_to(source / "oneclock")), function) for path, function in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", help="count at this commit instead of the files that are here")
    parser.add_argument("--runs", type=int, default=1, help="runs of the sweep")
    parser.add_argument("--list", action="store_true", help="print every function")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = calls(source_of(arguments.commit, folder), folder, arguments.runs)
    functions = {pair for pair in found if not pair[1].startswith("<")}
    if arguments.list:
        print("\n".join(f"{module}  {function}" for module, function in sorted(functions)))
    print(f"{len({module for module, _ in functions})} modules, {len(functions)} functions")
    for name in WATCHED:
        count = sum(times for (_, function), times in found.items() if function == name)
        print(f"{name}: called {count} times")


if __name__ == "__main__":
    main()
