"""Full against compact state on laptop-sized twins at their tuned rates: paired differences of the validation loss.

    python benchmarks/compact_quality.py RESULTS.jsonl [--twins gpt2-bible resnet-digits vit-digits] [--steps 2000]

Every cell is twin x beta x seed x state, the same batches and the same start for both states of a pair. A finished run
is one line of the results file, and a second call goes on with what is missing; stop it whenever you like. With the
defaults about half an hour on one quiet core. At the end, for every twin and beta: the mean over seeds of
log(loss of compact / loss of full) in per cent, its 95 % interval (Student's t over the pairs), and beside it the
spread of full state from seed to seed, which is what a difference has to be compared with.

The loop is its own, thirty lines, so that nothing but the state differs: the twin's model, task, rate, schedule, decay
and clipping, the loss of the last weights on the validation batches.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from itertools import product
from pathlib import Path

import torch
from scipy import stats

from oneclock import BalancedAdam, BalancedAdamW, data, decay_groups, models
from oneclock.data import Task
from oneclock.experiments import Experiment, find
from oneclock.training.schedule import learning_rate

BETAS = (0.68377, 0.82217, 0.9, 0.96838, 0.99)
SEEDS = (1, 2, 3)
STATES = ("full", "compact")


def train(experiment: Experiment, task: Task, beta: float, seed: int, state: str, steps: int) -> float:
    """The validation loss after `steps` steps."""
    torch.manual_seed(seed)
    model = models.build(experiment.model).train()
    settings = experiment.optimizer
    make = {"adam": BalancedAdam, "adamw": BalancedAdamW}[settings.name]
    params = decay_groups(model, settings.weight_decay) if settings.decay == "weights" else model.parameters()
    optimizer = make(params, lr=settings.lr, beta=beta, weight_decay=settings.weight_decay, state=state)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(experiment.schedule, settings.lr, steps, step)
        optimizer.zero_grad()
        for micro in range(experiment.accumulate):
            (task.loss(model, task.batch(seed, step, micro), training=True) / experiment.accumulate).backward()
        if settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
    return validation_loss(model.eval(), task)


@torch.no_grad()
def validation_loss(model: torch.nn.Module, task: Task) -> float:
    batches = task.evaluation("validation")
    weights = [task.weight(batch) for batch in batches]
    losses = [task.loss(model, batch, training=False).item() for batch in batches]
    return sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)


def run_all(results: Path, twins: list[str], betas: list[float], seeds: list[int], steps: int) -> None:
    """Every cell that is not in the results yet, the two states of a pair one after the other."""
    done = {key_of(line) for line in read(results)}
    for twin in twins:
        experiment = find(twin)
        task = data.load(experiment)
        for beta, seed, state in product(betas, seeds, STATES):
            cell = {"twin": twin, "steps": steps, "beta": beta, "seed": seed, "state": state}
            if key_of(cell) in done:
                continue
            start = time.perf_counter()
            loss = train(experiment, task, beta, seed, state, steps)
            with results.open("a") as file:
                file.write(json.dumps({**cell, "loss": loss, "seconds": round(time.perf_counter() - start, 1)}) + "\n")
            print(f"{twin} beta {beta} seed {seed} {state}: {loss:.5f}", flush=True)


def read(results: Path) -> list[dict[str, object]]:
    """The finished runs; a line that a kill cut short is not one."""
    lines = results.read_text().splitlines(keepends=True) if results.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def key_of(cell: dict[str, object]) -> tuple[object, ...]:
    return tuple(cell[name] for name in ("twin", "steps", "beta", "seed", "state"))


def summarise(lines: list[dict[str, object]]) -> None:
    """One row for every twin and beta with at least two whole pairs."""
    losses = {key_of(line): float(line["loss"]) for line in lines}  # type: ignore[arg-type]
    print(f"{'twin':<22}{'beta':>8}{'pairs':>6}{'compact - full, %':>20}{'95 % interval':>20}{'seed spread, %':>16}")
    for twin, steps, beta in sorted({key[:3] for key in losses}, key=str):
        pairs = [
            (loss, losses[twin, steps, beta, key[3], "compact"])
            for key, loss in losses.items()
            if key[:3] == (twin, steps, beta) and key[4] == "full" and (*key[:4], "compact") in losses
        ]
        if len(pairs) < 2:
            continue
        differences = [100 * math.log(compact / full) for full, compact in pairs]
        spread = 100 * statistics.stdev(math.log(full) for full, _ in pairs)
        middle = statistics.mean(differences)
        half = stats.t.ppf(0.975, len(pairs) - 1) * statistics.stdev(differences) / math.sqrt(len(pairs))
        interval = f"[{middle - half:.2f}, {middle + half:.2f}]"
        print(f"{twin:<22}{beta:>8}{len(pairs):>6}{middle:>20.2f}{interval:>20}{spread:>16.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--twins", nargs="+", default=["gpt2-bible", "resnet-digits", "vit-digits"])
    parser.add_argument("--betas", nargs="+", type=float, default=list(BETAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--steps", type=int, default=2000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    run_all(asked.results, asked.twins, asked.betas, asked.seeds, asked.steps)
    summarise(read(asked.results))


if __name__ == "__main__":
    main()
