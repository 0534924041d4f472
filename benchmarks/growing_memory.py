"""A memory that grows as training goes, 1 - beta(t) = d / (d + t) (arXiv 2602.05298), against constant betas.

    python benchmarks/growing_memory.py RESULTS.jsonl [--tasks joint-llama-1000 joint-vit-1000]

Every arm runs three learning rates with the first seed; its best rate gets the other two. A finished run is one line of
the results file; a second call goes on with what is missing. Printed: each arm's mean loss at its best rate, and its
difference to the best constant beta over the same seeds, in pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path

import torch
from compact_quality import optimizer_of, read, validation_loss

from oneclock.lab import data, models
from oneclock.lab.data import Task
from oneclock.lab.experiments import Experiment, find
from oneclock.lab.training.schedule import learning_rate

ARMS = {
    **{f"constant {beta:g}": (lambda step, beta=beta: beta) for beta in (0.68377, 0.82217, 0.9)},
    **{f"growing d={d}": (lambda step, d=d: 1 - d / (d + step)) for d in (4, 16, 64)},
}
FACTORS = (1.0, 2.0, 4.0)
SEEDS = (1, 2, 3)


def train(experiment: Experiment, task: Task, arm: str, factor: float, seed: int) -> float:
    torch.manual_seed(seed)
    model = models.build(experiment.model).train()
    optimizer = optimizer_of(experiment, model, 0.0, "full")
    for step in range(experiment.budget):
        optimizer.beta = ARMS[arm](step)  # type: ignore[attr-defined]
        rate = learning_rate(experiment.schedule, experiment.optimizer.lr, experiment.budget, step)
        for group in optimizer.param_groups:
            group["lr"] = factor * rate
        optimizer.zero_grad()
        task.loss(model, task.batch(seed, step, 0), training=True).backward()
        optimizer.step()
    return validation_loss(model.eval(), task)


def arm_losses(results: Path, name: str, arm: str) -> list[float]:
    """The losses of all seeds at the arm's best rate."""
    experiment = find(name)
    task = data.load_task(experiment)
    known = {(line["task"], line["arm"], line["factor"], line["seed"]): float(line["loss"]) for line in read(results)}  # type: ignore[arg-type]

    def loss(factor: float, seed: int) -> float:
        key = (name, arm, factor, seed)
        if key not in known:
            known[key] = train(experiment, task, arm, factor, seed)
            cell = dict(zip(("task", "arm", "factor", "seed", "loss"), (*key, known[key]), strict=True))
            with results.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            print(f"{name} {arm} rate x {factor:g} seed {seed}: {known[key]:.5f}", flush=True)
        return known[key]

    best = min(FACTORS, key=lambda factor: loss(factor, SEEDS[0]))
    return [loss(best, seed) for seed in SEEDS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--tasks", nargs="+", default=["joint-llama-1000", "joint-vit-1000"])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.tasks:
        losses = {arm: arm_losses(asked.results, name, arm) for arm in ARMS}
        constants = [arm for arm in ARMS if arm.startswith("constant")]
        best = min(constants, key=lambda arm: statistics.fmean(losses[arm]))
        print(f"\n{name}, against {best}")
        for arm, own in losses.items():
            print(f"{arm:<20}{statistics.fmean(own):.4f}  {difference(own, losses[best])}")


def difference(own: list[float], other: list[float]) -> str:
    """In pairs, with Student's interval of two degrees of freedom."""
    logs = [100 * math.log(one / two) for one, two in zip(own, other, strict=True)]
    middle, half = statistics.fmean(logs), 4.303 * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{middle:+.2f} % ({middle - half:+.2f} to {middle + half:+.2f})"


if __name__ == "__main__":
    main()
