"""A sweep of beta over a training function of one's own, and the beta it finds. Under a minute.

pip install 'oneclock[laptop]'
python examples/sweep_own_function.py [STEPS]

It runs on all cores, one run each, and with `scheduler=` on a cluster. A sweep that is interrupted continues when the
same call is made again.
"""

import sys
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn

import oneclock

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
BETAS = [0.68377, 0.82217, 0.9, 0.96838]

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
train_rows, held_out = torch.arange(1797).split([1200, 597])


def train(beta, seed, run):
    """One run: log a validation loss now and then, until `run.budget`."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = oneclock.BalancedAdamW(model.parameters(), lr=1e-3, beta=beta)
    for step in range(1, run.budget + 1):
        batch = train_rows[torch.randint(len(train_rows), (32,))]
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            with torch.no_grad():
                val_loss = nn.functional.cross_entropy(model(images[held_out]), labels[held_out])
            run.log(step, val_loss=val_loss.item())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        study = oneclock.run_sweep(train, STEPS, folder, protocol="grid", betas=BETAS, seeds=[1, 2])
        table = study.table()
        print(table.groupby("beta").best_loss.agg(["mean", "min", "max"]).round(4).to_string())
        print(f"best of these: beta {study.best().beta}")
    print(f"the rule, for {STEPS:,} steps: beta {oneclock.recommend(STEPS).beta:.4f}")
    print("Two seeds: where the columns overlap, the order of the betas is chance.")
