"""One DeepSpeed process on the CPU: trains beside plain torch, saves and loads. Not a test itself.

Usage: deepspeed_worker.py ZERO_STAGE FOLDER
"""

import os
import socket
import sys

import torch
from torch import nn

from oneclock import (
    BalancedAdamW,
    torchvision_guard,  # noqa: F401
)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def main(stage, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= dict(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ |= dict(DS_ACCELERATOR="cpu")
    import deepspeed

    net, plain = model(), model()
    optimizer = BalancedAdamW(net.parameters(), lr=1e-2, horizon=20_000, rule="paper", weight_decay=0.1)
    engine, wrapped, _, _ = deepspeed.initialize(
        model=net,
        optimizer=optimizer,
        config={
            "train_micro_batch_size_per_gpu": 4,
            "gradient_clipping": 0.0,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
        },
    )
    reference = torch.optim.AdamW(plain.parameters(), lr=1e-2, betas=(0.95, 0.95), weight_decay=0.1)
    generator = torch.Generator().manual_seed(1)
    for _ in range(10):
        x, y = torch.randn(4, 8, generator=generator), torch.randn(4, 4, generator=generator)
        loss, expected = nn.functional.mse_loss(engine(x), y), nn.functional.mse_loss(plain(x), y)
        torch.testing.assert_close(loss, expected)
        engine.backward(loss)
        engine.step()
        reference.zero_grad()
        expected.backward()
        reference.step()
    engine.save_checkpoint(folder)
    engine.load_checkpoint(folder)
    assert {group["betas"] for group in wrapped.param_groups} == {(0.95, 0.95)}
    print(f"the same losses, and beta {optimizer.beta} after loading")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
