"""Trains a twin with compact state, saving as it goes, and goes on from the last save. Not a test itself.

Usage: compact_worker.py TWIN STEPS EVERY FOLDER: leaves FOLDER/saved.pt every EVERY steps, FOLDER/final.pt at the end.
"""

import os
import sys
from pathlib import Path

import torch

from oneclock import BalancedAdamW
from oneclock.lab import data, models
from oneclock.lab.experiments import find


def save(path, **state):
    torch.save(state, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def main(twin, steps, every, folder):
    torch.set_num_threads(1)
    experiment = find(twin)
    task = data.load_task(experiment)
    torch.manual_seed(0)
    model = models.build(experiment.model).train()
    optimizer = BalancedAdamW(model.parameters(), lr=experiment.optimizer.lr, horizon=steps, state="compact")
    first = 0
    if (folder / "saved.pt").exists():
        saved = torch.load(folder / "saved.pt", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["generator"])
        first = saved["step"]
    for step in range(first, steps):
        optimizer.zero_grad()
        task.loss(model, task.batch(1, step, 0), training=True).backward()
        optimizer.step()
        if (step + 1) % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(folder / "saved.pt", **state, generator=torch.get_rng_state(), step=step + 1)
    save(folder / "final.pt", model=model.state_dict(), optimizer=optimizer.state_dict())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
