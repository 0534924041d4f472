"""Loss of a GPT-2 of 11 million weights with full, compact and 8-bit state (torchao, bitsandbytes).

    python benchmarks/compact_gpt2.py RESULTS.jsonl                        # trains what is missing, prints the table
    python benchmarks/compact_gpt2.py RESULTS.jsonl --states full compact  # without the peers
    python benchmarks/compact_gpt2.py RESULTS.jsonl --only-print

Two tasks. "bible": 2,000 steps from scratch on the bytes of the King James Bible. "finetune": 500 steps on the source
of Python's library, from the weights that full state had at the end of "bible" with the same beta and seed. All states
of a pair have the same start, batches and schedule (warm-up over 100 steps, then cosine to a tenth). A finished run is
one line of the results file; a second call continues with what is missing. Runs are ordered by seed, so that one
complete set comes first. The loss is that of the last weights on 128 fixed validation windows. One core needs about
0.3 seconds per step with full or compact state (13 minutes for both tasks), and 0.6 with the 8-bit states, whose steps
are slow on a CPU (25 minutes).

torchao and bitsandbytes are not dependencies of ours: `pip install torchao bitsandbytes` in an environment of its own.

Expected before any run (18 November 2026): for each task and beta, compact lies within 0.5 % of full state, and the
95 % CI of the difference contains zero; the 8-bit states lie in the same range. If compact is worse anywhere, it is at
beta 0.993, where the rounding noise is averaged over 143 steps.
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
from typing import Any

import numpy as np
import torch

from oneclock import (
    BalancedAdamW,
    decay_groups,
    torchvision_guard,  # noqa: F401  (before transformers)
)
from oneclock.lab.data import bundled

BETAS, SEEDS = (0.968, 0.993), (1, 2, 3)
STATES = ("full", "compact", "torchao", "bitsandbytes")
TASKS = {"bible": (2_000, 1e-3), "finetune": (500, 2e-4)}  # steps, peak learning rate
BATCH, LENGTH, WARMUP, CLIP, DECAY = 4, 64, 100, 1.0, 0.1
Cell = dict[str, Any]


def new_model(seed: int) -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=256, n_positions=LENGTH, n_embd=384, n_layer=6, n_head=6, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def text_of(task: str) -> np.ndarray:
    parts = bundled.bible() if task == "bible" else bundled.python_library()
    return np.frombuffer("\n".join(parts).encode(), dtype=np.uint8)


def split(text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cut = int(0.95 * len(text))
    return text[:cut], text[cut:]


def windows(text: np.ndarray, count: int, generator: np.random.Generator) -> torch.Tensor:
    starts = generator.integers(0, len(text) - LENGTH, count)
    return torch.from_numpy(np.stack([text[start : start + LENGTH] for start in starts]).astype(np.int64))


def new_optimizer(model: torch.nn.Module, state: str, beta: float, lr: float) -> torch.optim.Optimizer:
    groups = decay_groups(model, DECAY)
    if state in ("full", "compact"):
        return BalancedAdamW(groups, lr=lr, beta=beta, state=state)  # type: ignore[arg-type]
    return importlib.import_module(f"{state}.optim").AdamW8bit(groups, lr=lr, betas=(beta, beta))


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):  # torchao compiles its step, and keeps the learning rate in a tensor
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def learning_rate(step: int, steps: int, peak: float) -> float:
    done = max(0.0, (step - WARMUP) / (steps - WARMUP))
    return peak * min(1.0, (step + 1) / WARMUP) * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def train(cell: Cell, weights: Path, steps: int | None = None) -> float:
    """The validation loss of one run. The weights of full state on "bible" are kept for "finetune"."""
    task, beta, seed, state = (cell[name] for name in ("task", "beta", "seed", "state"))
    planned, peak = TASKS[task]
    steps = steps or planned
    model = new_model(seed).train()
    start = weights / f"bible-{beta}-{seed}.pt"
    if task == "finetune":
        model.load_state_dict(torch.load(start, weights_only=True))
    training, validation = split(text_of(task))
    optimizer, generator = new_optimizer(model, state, beta, peak), np.random.default_rng(seed)
    for step in range(steps):
        set_learning_rate(optimizer, learning_rate(step, steps, peak))
        batch = windows(training, BATCH, generator)
        optimizer.zero_grad()
        model(batch, labels=batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    if task == "bible" and state == "full":
        weights.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), start)
    return validation_loss(model.eval(), validation)


@torch.no_grad()
def validation_loss(model: torch.nn.Module, text: np.ndarray) -> float:
    fixed = windows(text, 128, np.random.default_rng(0))
    return statistics.mean(model(batch, labels=batch).loss.item() for batch in fixed.split(16))


def run_missing(
    results: Path, weights: Path, tasks: list[str], states: list[str], betas: list[float], seeds: list[int]
) -> None:
    done = {key_of(line) for line in read(results)}
    for seed, task, beta, state in product(seeds, tasks, betas, states):
        cell = {"task": task, "beta": beta, "seed": seed, "state": state}
        if key_of(cell) in done:
            continue
        began = time.perf_counter()
        loss = train(cell, weights)
        line = {**cell, "loss": loss, "seconds": round(time.perf_counter() - began, 1), "torch": torch.__version__}
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{task} beta {beta} seed {seed} {state}: {loss:.5f}", flush=True)


def read(results: Path) -> list[Cell]:
    """The finished runs. A line that was cut off by a kill is not one."""
    lines = results.read_text().splitlines(keepends=True) if results.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def key_of(cell: Cell) -> tuple[Any, ...]:
    return tuple(cell[name] for name in ("task", "beta", "seed", "state"))


def table(lines: list[Cell]) -> list[str]:
    """One row for each task, beta and state: the paired difference to full state in per cent, with a 95 % CI."""
    from scipy import stats

    losses = {key_of(line): line["loss"] for line in lines}
    rows = [f"{'task':<10}{'beta':>7}  {'state':<14}{'pairs':>5}  {'to full, %':>10}  95 % CI"]
    for task, beta, state in sorted({(key[0], key[1], key[3]) for key in losses if key[3] != "full"}):
        pairs = [
            100 * math.log(loss / losses[task, beta, key[2], "full"])
            for key, loss in losses.items()
            if (key[0], key[1], key[3]) == (task, beta, state) and (task, beta, key[2], "full") in losses
        ]
        if not pairs:
            continue
        middle, interval = statistics.mean(pairs), ""
        if len(pairs) > 1:
            half = stats.t.ppf(0.975, len(pairs) - 1) * statistics.stdev(pairs) / math.sqrt(len(pairs))
            interval = f"{middle - half:.2f} to {middle + half:.2f}"
        rows.append(f"{task:<10}{beta:>7}  {state:<14}{len(pairs):>5}  {middle:>10.2f}  {interval}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="one JSON line per finished run")
    parser.add_argument("--weights", type=Path, help="where the weights for fine-tuning are kept; beside the results")
    parser.add_argument("--tasks", nargs="+", choices=[*TASKS], default=[*TASKS])
    parser.add_argument("--states", nargs="+", choices=STATES, default=list(STATES))
    parser.add_argument("--betas", nargs="+", type=float, default=list(BETAS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--only-print", action="store_true", help="train nothing")
    asked = parser.parse_args()
    weights = asked.weights or asked.results.with_suffix(".weights")
    if not asked.only_print:
        run_missing(asked.results, weights, asked.tasks, asked.states, asked.betas, asked.seeds)
    print("\n".join(table(read(asked.results))))


if __name__ == "__main__":
    main()
