"""Full against compact state on the joint study's tasks at tuned rates: paired differences of the validation loss.

    python benchmarks/compact_quality.py RESULTS.jsonl [--tasks joint-llama-1000 ..] [--states full compact torchao ..]

Every cell is task x beta x seed x state, the same batches and the same start for all states. A finished run is one line
of the results file, and a second call goes on with what is missing; stop it whenever you like. With the defaults about
half an hour on one quiet core. At the end, for every task, beta and state: the mean over seeds of
log(its loss / loss of full) in per cent, its 95 % interval (Student's t over the pairs), and beside it the spread of
full state from seed to seed, which is what a difference has to be compared with.

The 8-bit AdamWs of torchao and bitsandbytes take part with `--states` where they are installed; they are no
dependencies of ours. They scale blocks of 256, and keep small tensors in full precision.

The loop is its own, so that nothing but the state differs: the model, data, rate, schedule, decay and clipping of the
task, and the loss of the last weights on its validation batches.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import time
from itertools import product
from pathlib import Path

import torch
from scipy import stats

from oneclock import BalancedAdam, BalancedAdamW, decay_groups
from oneclock.lab import data, models
from oneclock.lab.data import Task
from oneclock.lab.experiments import Experiment, find
from oneclock.lab.training.schedule import learning_rate

BETAS = (0.68377, 0.82217, 0.9, 0.96838, 0.99)
SEEDS = (1, 2, 3)
STATES = ("full", "compact")
TASKS = ("joint-llama-1000", "joint-gpt2-1000", "joint-vit-1000")


def optimizer_of(experiment: Experiment, model: torch.nn.Module, beta: float, state: str) -> torch.optim.Optimizer:
    settings = experiment.optimizer
    params = decay_groups(model, settings.weight_decay) if settings.decay == "weights" else model.parameters()
    options = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if state in STATES:
        make = {"adam": BalancedAdam, "adamw": BalancedAdamW}[settings.name]
        return make(params, beta=beta, state=state, **options)
    assert settings.name == "adamw", "the 8-bit optimizers take part as AdamW"
    library = importlib.import_module({"torchao": "torchao.optim", "bitsandbytes": "bitsandbytes.optim"}[state])
    return library.AdamW8bit(params, betas=(beta, beta), **options)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):  # torchao compiles its step, and keeps the rate in a tensor
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def train(experiment: Experiment, task: Task, beta: float, seed: int, state: str, steps: int) -> float:
    """The validation loss after `steps` steps."""
    torch.manual_seed(seed)
    model = models.build(experiment.model).train()
    settings = experiment.optimizer
    optimizer = optimizer_of(experiment, model, beta, state)
    for step in range(steps):
        set_rate(optimizer, learning_rate(experiment.schedule, settings.lr, steps, step))
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


def run_all(results: Path, tasks: list[str], betas: list[float], seeds: list[int], states: list[str]) -> None:
    """Every cell that is not in the results yet, the states of a pair one after the other."""
    done = {key_of(line) for line in read(results)}
    for name in tasks:
        experiment = find(name)
        task = data.load_task(experiment)
        for beta, seed, state in product(betas, seeds, states):
            cell = {"task": name, "beta": beta, "seed": seed, "state": state}
            if key_of(cell) in done:
                continue
            start = time.perf_counter()
            loss = train(experiment, task, beta, seed, state, experiment.budget)
            with results.open("a") as file:
                file.write(json.dumps({**cell, "loss": loss, "seconds": round(time.perf_counter() - start, 1)}) + "\n")
            print(f"{name} beta {beta} seed {seed} {state}: {loss:.5f}", flush=True)


def read(results: Path) -> list[dict[str, object]]:
    """The finished runs; a line that a kill cut short is not one."""
    lines = results.read_text().splitlines(keepends=True) if results.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def key_of(cell: dict[str, object]) -> tuple[object, ...]:
    return tuple(cell[name] for name in ("task", "beta", "seed", "state"))


def summarise(lines: list[dict[str, object]]) -> None:
    """One row for every task, beta and state that has at least two whole pairs with full state."""
    losses = {key_of(line): float(line["loss"]) for line in lines}  # type: ignore[arg-type]
    heads = ("task", "beta", "state", "pairs", "to full, %", "95 % interval", "seed spread, %")
    print("".join(f"{head:>18}" for head in heads))
    for task, beta, state in sorted({(key[0], key[1], key[3]) for key in losses if key[3] != "full"}, key=str):
        seeds = [key[2] for key in losses if (key[0], key[1], key[3]) == (task, beta, state)]
        pairs = [
            (losses[full], losses[task, beta, seed, state])
            for seed in seeds
            if (full := (task, beta, seed, "full")) in losses
        ]
        if len(pairs) < 2:
            continue
        differences = [100 * math.log(other / full) for full, other in pairs]
        spread = 100 * statistics.stdev(math.log(full) for full, _ in pairs)
        middle = statistics.mean(differences)
        half = stats.t.ppf(0.975, len(pairs) - 1) * statistics.stdev(differences) / math.sqrt(len(pairs))
        interval = f"[{middle - half:.2f}, {middle + half:.2f}]"
        cells = (task, beta, state, len(pairs), f"{middle:.2f}", interval, f"{spread:.2f}")
        print("".join(f"{cell:>18}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--betas", nargs="+", type=float, default=list(BETAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--states", nargs="+", default=list(STATES), choices=[*STATES, "torchao", "bitsandbytes"])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    run_all(asked.results, asked.tasks, asked.betas, asked.seeds, asked.states)
    summarise(read(asked.results))


if __name__ == "__main__":
    main()
