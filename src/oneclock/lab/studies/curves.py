"""A study as curves only, in one small file: for curves of a thousand evaluations a packed study is too large.

STUDY/curves.jsonl.gz     a line per run: its key, the steps of its evaluations, the validation losses
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oneclock.horizon import Curve
from oneclock.lab.studies.designs import Condition
from oneclock.lab.studies.run import planned
from oneclock.runs.folder import runs_of
from oneclock.runs.key import RunKey

CURVES = "curves.jsonl.gz"
_KEY = ("experiment", "beta", "seed", "budget", "lr", "split", "spec")


@dataclass(frozen=True)
class Finished:
    """A run of a study that has ended: its key and its validation curve."""

    key: RunKey
    curve: Curve


def write_curves(conditions: Sequence[Condition], out: Path, destination: Path) -> tuple[int, int]:
    """Write the curves of the finished runs of `out`, losses to five digits. Returns how many, and of how many."""
    lines = []
    for run in read_curves(out):
        losses = [float(f"{loss:.5g}") for loss in run.curve.losses]
        key = {name: getattr(run.key, name) for name in _KEY}
        lines.append(json.dumps({**key, "steps": run.curve.steps, "losses": losses}))
    destination.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in sorted(lines)).encode()
    (destination / CURVES).write_bytes(gzip.compress(content, mtime=0))
    return len(lines), len(planned(conditions))


def read_curves(study: Path) -> Iterator[Finished]:
    """The runs of a study that have ended, from its curves file or its records."""
    if not (study / CURVES).exists():
        for run in runs_of(study):
            record = run.record()
            if record is not None and record.val is not None:
                yield Finished(run.key, record.val)
        return
    for line in gzip.decompress((study / CURVES).read_bytes()).decode().splitlines():
        row = json.loads(line)
        yield Finished(RunKey(**{name: row[name] for name in _KEY}), Curve(row["steps"], row["losses"]))
