"""Weights & Biases, offline: a run for each run, grouped by experiment. Nothing is sent; `wandb sync` does that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oneclock.export.runs import Exported


def write(runs: Sequence[Exported], out: Path) -> str:
    """Offline runs below `out`/wandb."""
    import wandb

    quiet = {"silent": True, "console": "off", "x_disable_stats": True}
    # W&B would record the machine and packages of the export; the runs were made earlier, perhaps elsewhere.
    settings = wandb.Settings(**quiet, x_disable_meta=True, x_save_requirements=False, disable_git=True)
    for run in runs:
        made = wandb.init(
            project="oneclock",
            group=run.experiment,
            name=f"{run.experiment}/{run.name}",
            config={**run.given, "experiment": run.experiment},
            dir=str(out),
            mode="offline",
            settings=settings,
            reinit="finish_previous",
        )
        for point in run.points:
            made.log(run.losses(point), step=point.step)
        made.summary["status"] = run.result.status
        made.finish(exit_code=0 if run.result.status == "finished" else 1)
    wandb.teardown()  # waits for W&B's writing process: only then is the run on disk
    return f"wandb sync {out}/wandb/offline-*"
