"""Advise a beta, train the digits classifier with it, and put it beside torch's default AdamW.

Run it with `make demo`. Real data (scikit-learn's digits), a real network, three seeds each, under a minute.
"""

from __future__ import annotations

import statistics

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import oneclock

STEPS, BATCH, LR, EVALUATE_EVERY, SEEDS = 6_000, 64, 3e-3, 100, (1, 2, 3)


def digits() -> tuple[torch.Tensor, ...]:
    x, y = load_digits(return_X_y=True)
    train_x, val_x, train_y, val_y = train_test_split(x / 16, y, test_size=0.3, random_state=0, stratify=y)
    return (
        torch.tensor(train_x, dtype=torch.float32),
        torch.tensor(train_y),
        torch.tensor(val_x, dtype=torch.float32),
        torch.tensor(val_y),
    )


def train(make_optimizer, seed: int, data: tuple[torch.Tensor, ...], tick) -> oneclock.Curve:
    """One run; returns its validation curve."""
    train_x, train_y, val_x, val_y = data
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = make_optimizer(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    steps, losses = [], []
    for step in range(1, STEPS + 1):
        batch = torch.randint(len(train_x), (BATCH,))
        loss = nn.functional.cross_entropy(model(train_x[batch]), train_y[batch], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % EVALUATE_EVERY == 0:
            model.eval()
            with torch.no_grad():
                losses.append(nn.functional.cross_entropy(model(val_x), val_y).item())
            model.train()
            steps.append(step)
            tick(losses[-1])
    return oneclock.Curve(steps, losses)


def main() -> None:
    torch.set_num_threads(1)  # the model is far too small to share between threads
    data = digits()
    choice = oneclock.choose(STEPS)
    print(f"You train for {STEPS:,} steps: the refresh rule says beta = {choice.beta:.4g},")
    print(f"a memory of {choice.memory_horizon:g} steps, the same choice for {choice.stable_from:,} to ", end="")
    print(f"{choice.stable_to:,} steps.\n")
    arms = {
        f"BalancedAdamW, beta {choice.beta:.4g}": lambda p: oneclock.BalancedAdamW(p, lr=LR, horizon=STEPS),
        "torch AdamW, (0.9, 0.999)": lambda p: torch.optim.AdamW(p, lr=LR),
    }
    curves: dict[str, list[oneclock.Curve]] = {name: [] for name in arms}
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}")) as progress:
        for name, make_optimizer in arms.items():
            task = progress.add_task(name, total=len(SEEDS) * STEPS, loss="")

            def tick(loss: float, task=task) -> None:
                progress.update(task, advance=EVALUATE_EVERY, loss=f"validation loss {loss:.4f}")

            curves[name] = [train(make_optimizer, seed, data, tick) for seed in SEEDS]

    print("\nbest validation loss, mean of three seeds (smallest to largest):")
    for name, runs in curves.items():
        best = [curve.best_loss for curve in runs]
        print(f"  {name:<28}{statistics.mean(best):.4f}  ({min(best):.4f} to {max(best):.4f})")
    useful = oneclock.effective_horizon({choice.beta: next(iter(curves.values()))}, budget=STEPS)
    print(f"\nTraining stayed useful for about {useful:,} of {STEPS:,} steps: give that to `oneclock beta` next time.")


if __name__ == "__main__":
    main()
