"""The target of the sweep benchmark: a small network on scikit-learn's digits, some seconds per run on one core.

Every way of running it calls `losses`; `train` is the same in the form oneclock calls.
"""

import os
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

BUDGET = int(os.environ.get("BENCH_BUDGET", "1500"))
BETAS = [round(1 - 10 ** (-k / 4), 5) for k in range(13)]


def losses(beta, seed, budget=BUDGET):
    """Yield (step, validation loss) of one run."""
    torch.manual_seed(seed)
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(beta, beta))
    for step in range(1, budget + 1):
        chosen = torch.randint(0, 1400, (128,))
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            with torch.no_grad():
                yield step, nn.functional.cross_entropy(model(images[1400:]), labels[1400:]).item()


def best(beta, seed, budget=BUDGET):
    """(best validation loss, seconds) of one run."""
    started = time.perf_counter()
    return min(loss for _, loss in losses(beta, seed, budget)), time.perf_counter() - started


def train(beta, seed, run):
    for step, loss in losses(beta, seed, run.budget):
        run.log(step, val_loss=loss)


def second_stage(first):
    """The ten runs that follow thirteen, by the paper's protocol; `first` is beta -> loss."""
    top = sorted(first, key=lambda beta: (first[beta], beta))[:5]
    return [(beta, seed) for seed in (2, 3) for beta in top]
