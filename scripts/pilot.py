"""Pilot runs that set the twins' learning rates: beta 0.9, seed 0, a quarter of each budget, three rates around each.

python scripts/pilot.py [NAME ..]

Seed 0 and these budgets are used nowhere else, so that nothing of the sweeps is looked at beforehand.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from oneclock.lab.experiments import LAPTOP, Experiment
from oneclock.lab.training import train


def quarter(twin: Experiment, factor: float) -> Experiment:
    return replace(
        twin,
        budget=twin.budget // 4,
        evaluation=replace(twin.evaluation, every=max(twin.evaluation.every // 4, 1)),
        optimizer=replace(twin.optimizer, lr=twin.optimizer.lr * factor),
        schedule=replace(twin.schedule, min_lr=twin.schedule.min_lr * factor),
    )


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names or LAPTOP:
        for factor in (1 / 3, 1, 3):
            short = quarter(LAPTOP[name], factor)
            with tempfile.TemporaryDirectory() as folder:
                result = train(short, 0.9, 0, Path(folder) / "run")
            loss = f"{result.best_loss:.4f} at step {result.best_step:,}" if result.best_loss else "no finite loss"
            print(f"{name:<22}lr {short.optimizer.lr:.1e}  {loss} of {short.budget:,}  {result.status}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
