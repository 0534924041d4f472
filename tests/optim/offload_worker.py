"""DeepSpeed's ZeRO-Offload with compact state, on the CPU, beside plain training. Not a test itself.

Usage: offload_worker.py
"""

import os
import socket

import torch
from torch import nn

from oneclock import (
    BalancedAdamW,
    torchvision_guard,  # noqa: F401
)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def train(stage, data):
    """The losses of training under ZeRO of this stage with the optimizer offloaded, and the wrapped optimizer."""
    import deepspeed

    net = model()
    optimizer = BalancedAdamW(net.parameters(), lr=1e-2, beta=0.95, weight_decay=0.1, state="compact")
    engine, *_ = deepspeed.initialize(
        model=net,
        optimizer=optimizer,
        config={
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": stage, "offload_optimizer": {"device": "cpu"}},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
        },
    )
    losses = []
    for x, y in data:
        loss = nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses, optimizer


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= dict(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ |= dict(DS_ACCELERATOR="cpu")
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(4, 8, generator=generator), torch.randn(4, 4, generator=generator)) for _ in range(10)]
    plain = model()
    reference = BalancedAdamW(plain.parameters(), lr=1e-2, beta=0.95, weight_decay=0.1, state="compact")
    expected = []
    for x, y in data:
        reference.zero_grad()
        loss = nn.functional.mse_loss(plain(x), y)
        loss.backward()
        reference.step()
        expected.append(loss.item())
    for stage in (1, 2, 3):
        losses, optimizer = train(stage, data)
        # One flat parameter, so another dither: a level of a ratio is lr / 127.
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=0.02, atol=0)
        kept = [state for state in optimizer.state.values() if state]
        assert {state["ratio"].dtype for state in kept} == {torch.int8}
        assert {state["ratio"].device.type for state in kept} == {"cpu"}
        weights = sum(p.numel() for p in plain.parameters())
        held = sum(t.nbytes for state in kept for name, t in state.items() if name != "step")
        assert held == 3 * sum(state["ratio"].numel() for state in kept)
        print(f"ZeRO stage {stage}: {held / weights:.1f} bytes of state per weight, on the CPU")


if __name__ == "__main__":
    main()
