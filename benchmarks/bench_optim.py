"""A step of BalancedAdamW against torch's AdamW: as people write it (no flags), foreach and fused.

All contenders take turns within each round, in random order, so that a noisy machine disturbs them alike. Printed: the
median over rounds of (time of the other / time of ours) with the quartiles; above 1, ours is faster.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

import torch

from oneclock import BalancedAdamW

WIDTH, LAYERS, VOCABULARY, CONTEXT = 384, 6, 50_304, 256
BLOCK = [(WIDTH,)] * 4 + [(WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
BLOCK += [(WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH), (WIDTH,)]
CASES: dict[str, tuple[list[tuple[int, ...]], int]] = {  # shapes, steps per turn
    "two tensors of 8 M": ([(2048, 4096)] * 2, 1),
    "nanoGPT, 30 M in 76": ([(VOCABULARY, WIDTH), (CONTEXT, WIDTH), *BLOCK * LAYERS, (WIDTH,), (WIDTH,)], 1),
    "a hundred of 64": ([(64,)] * 100, 50),
}
CONTENDERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "ours": lambda params: BalancedAdamW(params, lr=1e-4, beta=0.95, weight_decay=0.1),
    "AdamW as written": lambda params: torch.optim.AdamW(params, lr=1e-4, betas=(0.95, 0.95), weight_decay=0.1),
    "AdamW foreach": lambda params: torch.optim.AdamW(
        params, lr=1e-4, betas=(0.95, 0.95), weight_decay=0.1, foreach=True
    ),
    "AdamW fused": lambda params: torch.optim.AdamW(params, lr=1e-4, betas=(0.95, 0.95), weight_decay=0.1, fused=True),
}


def contender(make: Callable[..., torch.optim.Optimizer], shapes: list[tuple[int, ...]]) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    for p in params:
        p.grad = torch.randn_like(p)
    return make(params)


def turn(optimizer: torch.optim.Optimizer, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.step()
    return time.perf_counter() - start


def main(rounds: int = 30) -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {rounds} rounds; time of the other / ours")
    for case, (shapes, steps) in CASES.items():
        optimizers = {name: contender(make, shapes) for name, make in CONTENDERS.items()}
        times: dict[str, list[float]] = {name: [] for name in optimizers}
        for number in range(rounds + 3):
            for name in random.sample(list(optimizers), len(optimizers)):
                elapsed = turn(optimizers[name], steps)
                if number >= 3:
                    times[name].append(elapsed)
        for name in list(CONTENDERS)[1:]:
            ratios = [other / own for other, own in zip(times[name], times["ours"], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"{case:<22}{name:<18}{middle:6.2f}   [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
