"""A step with compact state against torch's AdamW (as people write it, foreach, fused) and, where installed, the 8-bit
AdamW of torchao and bitsandbytes and DeepSpeed's CPUAdam: time and bytes, as ratios, on this machine's CPU.

All contenders take turns within each round, in random order, so that a noisy machine disturbs them alike. Printed: the
median over rounds of (time of compact / time of the other) with the quartiles; below 1, compact is faster. Bytes are
those of the tensors that an optimizer keeps, per weight. Nanoseconds per weight are those of this machine, today. The
traffic limit is what a step must at least move: 18 bytes per weight for compact state (parameter and state read and
written, gradient read), 28 for full state.

torchao, bitsandbytes and DeepSpeed are not dependencies of ours. Install them in an environment of their own:

    pip install torchao bitsandbytes deepspeed && python benchmarks/bench_compact.py
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from oneclock import BalancedAdamW

WIDTH, LAYERS = 384, 6
BLOCK = [(WIDTH,)] * 4 + [(WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
BLOCK += [(WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH), (WIDTH,)]
CASES: dict[str, tuple[list[tuple[int, ...]], int]] = {  # shapes, steps per turn
    "two tensors of 16 M": ([(4096, 4096)] * 2, 1),
    "nanoGPT, 30 M in 76": ([(50_304, WIDTH), (256, WIDTH), *BLOCK * LAYERS, (WIDTH,), (WIDTH,)], 1),
    "a hundred of 64": ([(64,)] * 100, 50),
}
SETTINGS: dict[str, Any] = {"lr": 1e-4, "weight_decay": 0.1}
TIED = {**SETTINGS, "betas": (0.95, 0.95)}
Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def contenders() -> dict[str, Make]:
    makers: dict[str, Make] = {
        "compact": lambda params: BalancedAdamW(params, beta=0.95, state="compact", **SETTINGS),
        "full": lambda params: BalancedAdamW(params, beta=0.95, **SETTINGS),
        "AdamW as written": lambda params: torch.optim.AdamW(params, **TIED),
        "AdamW foreach": lambda params: torch.optim.AdamW(params, foreach=True, **TIED),
        "AdamW fused": lambda params: torch.optim.AdamW(params, fused=True, **TIED),
    }
    peers = {"torchao": "torchao.optim", "bitsandbytes": "bitsandbytes.optim", "deepspeed": "deepspeed.ops.adam"}
    for name, module in peers.items():
        if importlib.util.find_spec(name):
            made = "DeepSpeedCPUAdam" if name == "deepspeed" else "AdamW8bit"
            label = f"{name} {'CPUAdam' if name == 'deepspeed' else '8-bit'}"
            makers[label] = lambda params, module=module, made=made: getattr(importlib.import_module(module), made)(
                params, **TIED
            )
    return makers


def ready(make: Make, shapes: list[tuple[int, ...]]) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer = make(params)
    optimizer.step()
    return optimizer


def all_ready(shapes: list[tuple[int, ...]], case: str) -> dict[str, torch.optim.Optimizer]:
    """The optimizers that work on this machine; the others are named with the reason."""
    optimizers = {}
    for name, make in contenders().items():
        try:
            optimizers[name] = ready(make, shapes)
        except Exception as error:  # noqa: PERF203  a peer that fails must not end it
            print(f"{case:<22}{name:<20}does not run here: {str(error).splitlines()[0][:70]}")
    return optimizers


def turn(optimizer: torch.optim.Optimizer, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.step()
    return time.perf_counter() - start


def bytes_per_weight(optimizer: torch.optim.Optimizer) -> float:
    kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors_of(optimizer.state)}
    return sum(kept.values()) / sum(p.numel() for group in optimizer.param_groups for p in group["params"])


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors kept in a state, also those inside tensor subclasses."""
    if isinstance(value, torch.Tensor):
        inner = getattr(value, "__tensor_flatten__", None)
        return [t for name in inner()[0] for t in tensors_of(getattr(value, name))] if inner else [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for entry in values for tensor in tensors_of(entry)]


def versions() -> str:
    names = [
        name for name in ("torch", "numba", "torchao", "bitsandbytes", "deepspeed") if importlib.util.find_spec(name)
    ]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def compare(case: str, rounds: int) -> None:
    shapes, steps = CASES[case]
    optimizers = all_ready(shapes, case)
    times: dict[str, list[float]] = {name: [] for name in optimizers}
    for number in range(rounds + 2):
        for name in random.sample(list(optimizers), len(optimizers)):
            elapsed = turn(optimizers[name], steps)
            if number >= 2:
                times[name].append(elapsed)
    weights = sum(torch.Size(shape).numel() for shape in shapes)
    for name, optimizer in optimizers.items():
        ratios = [own / other for own, other in zip(times["compact"], times[name], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        spread = "" if name == "compact" else f"{middle:6.2f}   [{low:.2f}, {high:.2f}]"
        each = statistics.median(times[name]) / steps / weights * 1e9
        print(f"{case:<22}{name:<20}{bytes_per_weight(optimizer):6.2f} bytes{each:9.2f} ns  {spread}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A step with compact state against torch's AdamW and its peers.")
    parser.add_argument("--rounds", type=int, default=30, help="30 by default")
    parser.add_argument("--threads", type=int, help="torch's and the loop's; as many as there are cores by default")
    asked = parser.parse_args()
    if asked.threads is not None:
        torch.set_num_threads(asked.threads)
    print(
        f"{versions()}; {torch.get_num_threads()} threads, {asked.rounds} rounds; time of compact / other [quartiles]"
    )
    print(f"traffic limit against full state: {18 / 28:.2f}")
    for case in CASES:
        compare(case, asked.rounds)


if __name__ == "__main__":
    main()
