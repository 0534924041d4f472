"""Prints the bytes that one optimizer step needs beyond what it keeps, by dtype. Linux only. Not a test itself.

Usage: memory_worker.py PATH: definition, loop, transposed, negated, expanded, stochastic, compiled, triton,
full or load

"load" is no step: it loads a checkpoint of compact state, and what it keeps of it counts too.

The peak is that of the process (VmHWM), set back before a step. A small step before it loads all code.
"""

import os
import sys
from pathlib import Path

import torch

from oneclock import BalancedAdamW

WEIGHTS = 2**23
LOADED: list[BalancedAdamW] = []  # kept, so that no memory is used twice
OPTIONS: dict[str, dict] = {
    "definition": {"fused": False},
    "stochastic": {"fused": False, "stochastic_rounding": True},
    "full": {"state": "full"},
}


def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def arranged(path, x):
    if path == "transposed":
        return x.view(1024, -1).T
    if path == "expanded":  # the gradient of a sum: one number in memory
        return x[:1].clone().expand(len(x))
    return torch._neg_view(x) if path == "negated" else x


def stepper(path, weights, dtype):
    p = torch.nn.Parameter(torch.zeros(weights, dtype=dtype) if path != "transposed" else
                           torch.zeros(weights // 1024, 1024, dtype=dtype))  # fmt: skip
    optimizer = BalancedAdamW(
        [p], beta=0.9, **{"state": "compact", "stochastic_rounding": False, **OPTIONS.get(path, {})}
    )
    p.grad = arranged(path, torch.ones(weights, dtype=dtype))
    if path == "load":
        optimizer.step()
        return p, lambda: load(p, optimizer.state_dict())
    return p, torch.compile(optimizer.step) if path == "compiled" else optimizer.step


def load(p, checkpoint):
    LOADED.append(BalancedAdamW([p], beta=0.9, state="compact"))
    LOADED[-1].load_state_dict(checkpoint)


def use_interpreter():
    """Let the GPU kernel update tensors on the CPU. Large blocks, because the interpreter is slow."""
    os.environ["TRITON_INTERPRET"] = "1"
    from oneclock.optim import compact_group, compact_triton

    compact_triton.BLOCK = 2**15
    compact_group.KERNELS["cpu"] = ("triton", "compact_triton", "")
    compact_group.kernel_for.cache_clear()


def main(path, dtype):
    small = stepper(path, 2**17, dtype)
    small[1]()
    large = stepper(path, WEIGHTS, dtype)
    for _ in range(2):  # creates the state; a compiled step may be compiled again
        large[1]()
    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    large[1]()
    print((kilobytes("VmHWM") - before) * 1024)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "triton":
        use_interpreter()
    for dtype in (torch.float32, torch.bfloat16):
        main(sys.argv[1], dtype)
