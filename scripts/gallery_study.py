"""The small real study of the gallery: the paper's protocol on scikit-learn's digits, to docs/data/digits.csv.

python scripts/gallery_study.py FOLDER     (23 runs; an interrupted sweep continues in FOLDER)

A two-layer network on 1,000 images, at a rate low enough that it overfits only after thousands of steps: its
validation loss has a minimum, and early stopping something to find.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import oneclock
from oneclock.report import folder
from oneclock.report.folder import subject_of
from oneclock.sweep import Execution, run_sweep

BUDGET, EVERY = 12_000, 200

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(123))
train_rows, held_out = order.split([1000, len(images) - 1000])


def digits(beta, seed, run):
    """One run of a small network with balanced Adam."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = oneclock.BalancedAdam(model.parameters(), lr=3e-4, beta=beta)
    running = 0.0
    for step in range(1, run.budget + 1):
        batch = train_rows[torch.randint(len(train_rows), (32,))]
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() / EVERY
        if step % EVERY == 0:
            with torch.no_grad():
                validation = nn.functional.cross_entropy(model(images[held_out]), labels[held_out]).item()
            run.log(step, val_loss=validation, train_loss=running)
            running = 0.0


if __name__ == "__main__":
    study = Path(sys.argv[1])
    run_sweep(digits, BUDGET, study, where=Execution(jobs=1))
    with tempfile.TemporaryDirectory() as report:
        folder.write_subject(subject_of(study), Path(report), "", formats=())
        data = Path(__file__).parents[1] / "docs" / "data"
        data.mkdir(exist_ok=True)
        shutil.copyfile(Path(report) / "data" / "curves.csv", data / "digits.csv")
