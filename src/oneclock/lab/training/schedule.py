"""The learning rate of every step: linear warm-up, then cosine to a floor, in closed form. Pure Python, no torch.

Written for the n-th update of T, n = 1 .. T, with a warm-up of W updates:

    n <= W    lr * n / W
    n >  W    min_lr + (lr - min_lr) * (1 + cos(pi * (n - W) / (T - W))) / 2

So update W has the full learning rate, and the last update, T, has the floor: the `closed` phase. `step` counts the
updates already made: step 0 is update 1, and its learning rate is lr / W. A warm-up that starts at 0 would waste the
first batch: that update would change nothing. The paper's runs had other phases. `open` puts n - 1 for n in the cosine:
update W + 1 has the full rate again, and the last one stays just above the floor. `late` puts n - 1 in the warm-up too:
update 1 has rate 0.
"""

from __future__ import annotations

import math

from oneclock.lab.experiments.spec import Schedule


def warmup_steps(schedule: Schedule, budget: int) -> int:
    """W = max(warmup_steps, warmup_share * budget) in whole updates, at least 1: without warm-up the learning rate is
    full at once.

    >>> warmup_steps(Schedule(min_lr=0.0, warmup_steps=100, warmup_share=0.05), budget=12_800)
    640
    """
    share = math.floor(round(schedule.warmup_share * budget, 6))  # 0.29 * 100 is 28.999999999999996
    return max(1, schedule.warmup_steps, share)


def learning_rate(schedule: Schedule, lr: float, budget: int, step: int) -> float:
    """The learning rate of the update at `step` = 0 .. budget - 1; `lr` is the highest one.

    A budget shorter than the warm-up ends within it.

    >>> schedule = Schedule(min_lr=1e-4, warmup_steps=1000)
    >>> [round(learning_rate(schedule, 1e-3, 10_000, step), 9) for step in (0, 999, 5499, 9999)]
    [1e-06, 0.001, 0.00055, 0.0001]
    """
    warmup = warmup_steps(schedule, budget)
    rising = step + (schedule.phase != "late")
    if rising == warmup:
        return lr  # lr * W / W may round
    if rising < warmup:
        return lr * rising / warmup
    falling = step + (schedule.phase == "closed")
    cosine = math.cos(math.pi * (falling - warmup) / (budget - warmup))
    return schedule.min_lr + (lr - schedule.min_lr) * (1 + cosine) / 2
