"""Copy the finished runs of an unfinished study into a packed study, for the repository."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oneclock.lab.studies.designs import Condition
from oneclock.lab.studies.packing import pack
from oneclock.lab.studies.run import Planned, is_done, planned
from oneclock.runs.store import Study


def collect(conditions: Sequence[Condition], out: Path, destination: Path) -> tuple[int, int]:
    """Pack the finished runs of `out` into `destination`, replacing it. Returns how many, and of how many."""
    runs = planned(conditions)
    done = [run for run in runs if is_done(out, run)]
    if not done:
        raise ValueError(f"{out} has no finished run of this study; run it first")
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder)
        for run in done:
            shutil.copytree(out / "runs" / run.key.folder, study / "runs" / run.key.folder)
        Study(study).write_header(_header(runs))
        packed = pack(study)
        destination.mkdir(parents=True, exist_ok=True)
        for path in (packed, study / "study.json"):
            shutil.copyfile(path, destination / path.name)
    return len(done), len(runs)


def _header(runs: Sequence[Planned]) -> dict[str, object]:
    """The plan, in the form of a study's header."""
    budgets = {run.key.experiment: run.key.budget for run in runs}
    betas = sorted({run.key.beta for run in runs if isinstance(run.key.beta, float)})
    pairs = sorted({run.key.beta for run in runs if isinstance(run.key.beta, tuple)})
    return {
        "targets": [{"experiment": name, "budget": budget, "settings": []} for name, budget in budgets.items()],
        "protocol": {
            "kind": "grid",
            "betas": betas,
            "seeds": sorted({run.key.seed for run in runs}),
            "arms": [list(pair) for pair in pairs],
            "rates": sorted({run.key.lr for run in runs if run.key.lr is not None}),
        },
    }
