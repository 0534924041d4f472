"""A task that no study has seen, swept in two axes: what `adaptive` finds with few runs, against the whole grid.

    python benchmarks/new_task.py OUT [--budget 1000] [--jobs 2]
    python benchmarks/new_task.py OUT --larger 2         adds two larger rates to both, where the best was the largest

A network learns a photograph (scikit-learn's china.jpg): coordinates in, colours out, nine tenths of the pixels to
learn from and one tenth to validate on. Nothing here was tuned before, and nothing of it chose anything. First
`adaptive` from the recommended beta and a rate that people would start from, then the grid of all 13 betas x 7 rates x
3 seeds. Called again, both go on. Printed: what each found, the runs each took, and the gap between them.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

RATE = 2e-3
SEEDS = (1, 2, 3)
BATCH, WIDTH, WAVES = 256, 64, 64


def train(beta: float, seed: int, run, lr: float) -> None:
    import torch
    from sklearn.datasets import load_sample_image
    from torch import nn

    from oneclock import BalancedAdam

    picture = torch.tensor(load_sample_image("china.jpg")[::4, ::4] / 255.0, dtype=torch.float32)
    height, width, _ = picture.shape
    grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"), -1)
    fixed = torch.Generator().manual_seed(0)  # the same pixels and the same waves for every seed
    waves = 3.0 * torch.randn(2, WAVES, generator=fixed)
    order = torch.randperm(height * width, generator=fixed)
    angles = grid.reshape(-1, 2) @ waves * math.pi
    inputs, colours = torch.cat([angles.sin(), angles.cos()], 1)[order], picture.reshape(-1, 3)[order]
    held_out = len(order) // 10

    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(2 * WAVES, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 3)
    )
    optimizer = BalancedAdam(model.parameters(), lr=lr, beta=beta)
    for step in range(1, run.budget + 1):
        optimizer.param_groups[0]["lr"] = lr * (0.55 + 0.45 * math.cos(math.pi * step / run.budget))
        chosen = torch.randint(held_out, len(order), (BATCH,))
        loss = nn.functional.mse_loss(model(inputs[chosen]), colours[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % (run.budget // 10) == 0:
            with torch.no_grad():
                run.log(step, val_loss=nn.functional.mse_loss(model(inputs[:held_out]), colours[:held_out]).item())


def by_pair(study) -> dict[tuple[float, float], list[float]]:
    """(beta, rate) -> the losses of its seeds."""
    found: dict[tuple[float, float], list[float]] = {}
    for row in study.rows():
        found.setdefault((row.beta, row.lr), []).append(row.best_loss)
    return found


def lowest(losses: dict[tuple[float, float], list[float]]) -> tuple[float, float]:
    """The pair with the lowest mean of those that have every seed."""
    whole = {pair: np.mean(seeds) for pair, seeds in losses.items() if len(seeds) == len(SEEDS)}
    return min(whole, key=lambda pair: whole[pair])


def main(out: Path, budget: int, jobs: int, larger: int) -> None:
    from oneclock import run_sweep

    asked = {
        "rates": tuple(RATE * 2.0**power for power in range(-3, 4 + larger)),
        "seeds": SEEDS,
        "arms": (),
        "jobs": jobs,
        "extend": larger > 0,
        "keep_runs": larger > 0,
    }
    few, whole = (
        by_pair(run_sweep(train, budget, out / kind, protocol=kind, **asked)) for kind in ("adaptive", "grid")
    )
    chosen, best = lowest(few), lowest(whole)
    floor = float(np.mean(whole[best]))
    error = np.std(whole[best], ddof=1) / math.sqrt(len(SEEDS)) / floor
    for kind, losses, pair in (("adaptive", few, chosen), ("grid", whole, best)):
        print(f"{kind:<10}{sum(map(len, losses.values())):>4} runs, lowest at beta {pair[0]:g}, rate {pair[1]:g}")
    gap = float(np.mean(whole[chosen])) / floor - 1
    print(f"gap       {100 * gap:.2f} % of the grid's lowest loss, whose own standard error is {100 * error:.2f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--larger", type=int, default=0)
    asked = parser.parse_args()
    main(asked.out, asked.budget, asked.jobs, asked.larger)
