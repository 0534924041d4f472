"""Reading a large log: ours beside pandas.read_csv, TensorBoard's EventAccumulator and a bare loop over lines.

Processor time and memory, each in ratios to ours.

    python benchmarks/bench_logs.py --megabytes 500

The logs are written to a temporary folder; each reading is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

COLUMNS = 12
SCALARS = ("train/loss", "train/grad_norm", "train/lr")


def write_csv(path: Path, size: int) -> None:
    """A training loss every step, a validation loss every hundredth, ten columns beside them."""
    draw = random.Random(0)
    others = ",".join(f"{draw.random():.6f}" for _ in range(COLUMNS - 4))
    with open(path, "w") as file:
        file.write("epoch,step,train_loss,val_loss," + ",".join(f"other{i}" for i in range(COLUMNS - 4)) + "\n")
        first = 1
        while file.tell() < size:
            rows = []
            for step in range(first, first + 1000):
                validation = f"{1 + 1000 / step:.6f}" if step % 100 == 0 else ""
                rows.append(f"{step // 10_000},{step},{draw.random():.6f},{validation},{others}\n")
            file.write("".join(rows))
            first += 1000


def write_events(path: Path, size: int) -> None:
    """Three training scalars every step, a validation loss every hundredth, as tensorboard's own writer frames them."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    def event(step: int, tag: str, value: float) -> Event:
        return Event(wall_time=step, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))

    writer = EventFileWriter(str(path), max_queue_size=1000)
    written = step = 0
    while written < size:
        step += 1
        tags = [*SCALARS, "val/loss"] if step % 100 == 0 else list(SCALARS)
        for tag in tags:
            one = event(step, tag, 1 + 1000 / step)
            writer.add_event(one)
            written += one.ByteSize() + 16
    writer.close()


def write_output(path: Path, size: int) -> None:
    """What nanoGPT prints: a training loss every step, a validation loss every hundredth."""
    with open(path, "w") as file:
        first = 1
        while file.tell() < size:
            rows = []
            for step in range(first, first + 1000):
                rows.append(f"iter {step}: loss {1 + 1000 / step:.4f}, time 35.88ms, mfu 17.20%\n")
                if step % 100 == 0:
                    rows.append(f"step {step}: train loss {1 + 900 / step:.4f}, val loss {1 + 1000 / step:.4f}\n")
            file.write("".join(rows))
            first += 1000


def read_nothing(path: str) -> int:
    """The imports alone: what memory there is before anything is read."""
    import oneclock.logs  # noqa: F401

    return 0


def read_ours(path: str) -> int:
    from oneclock import logs

    return len(logs.read_log(path).curves[0].steps)


def read_pandas(path: str) -> int:
    import pandas

    return len(pandas.read_csv(path)["val_loss"].dropna())


def read_pandas_columns(path: str) -> int:
    import pandas

    return len(pandas.read_csv(path, usecols=["step", "val_loss"])["val_loss"].dropna())


def read_accumulator(path: str) -> int:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return len(EventAccumulator(path, size_guidance={"scalars": 0}).Reload().Scalars("val/loss"))


def read_bare_lines(path: str) -> int:
    """The least that can be done: one pass with one expression, its trainer known beforehand."""
    import re

    line = re.compile(r"step (\d+): train loss .*, val loss (\S+)")
    with open(path) as file:
        return len([(int(found[1]), float(found[2])) for found in map(line.match, file) if found])


READERS: dict[str, Callable[[str], int]] = {
    "ours": read_ours,
    "pandas.read_csv": read_pandas,
    "pandas.read_csv, two columns": read_pandas_columns,
    "EventAccumulator": read_accumulator,
    "one expression over lines": read_bare_lines,
    "imports alone": read_nothing,
}


def measure(reader: str, path: Path) -> tuple[float, float, int]:
    """Processor seconds, peak memory in MB and points read, of a process that only does this."""
    command = [sys.executable, __file__, "--read", reader, str(path)]
    seconds, peak, points = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, peak, points


def compare(path: Path, name: str, readers: list[str]) -> None:
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir())) / 1e6
    print(f"{name}, {size:,.0f} MB")
    found = {reader: measure(reader, path) for reader in readers}
    ours = found["ours"][0]
    for reader, (seconds, peak, points) in found.items():
        print(f"  {reader:<30} {seconds / ours:6.2f} x ours  {peak:8,.0f} MB peak  {points:,} points")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=20, help="size of each log (default: 20)")
    parser.add_argument("--read", nargs=2, metavar=("READER", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        reader, path = options.read
        start = time.process_time()
        points = READERS[reader](path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([time.process_time() - start, peak, points]))
        return
    with tempfile.TemporaryDirectory() as folder:
        size = int(options.megabytes * 1e6)
        write_csv(Path(folder) / "metrics.csv", size)
        compare(
            Path(folder) / "metrics.csv",
            "CSV",
            ["ours", "pandas.read_csv", "pandas.read_csv, two columns", "imports alone"],
        )
        write_output(Path(folder) / "output.log", size)
        compare(Path(folder) / "output.log", "terminal output", ["ours", "one expression over lines", "imports alone"])
        write_events(Path(folder) / "events", size)
        compare(Path(folder) / "events", "event file", ["ours", "EventAccumulator", "imports alone"])


if __name__ == "__main__":
    main()
