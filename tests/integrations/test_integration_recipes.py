"""The recipes of docs/integrations.md that need no code of ours: accelerate, timm, DeepSpeed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from oneclock import (
    BalancedAdamW,
    Refresh,
    RefreshScheduler,
    steps_from_epochs,
    torchvision_guard,  # noqa: F401
)

LR, DECAY, REFRESHES = 1e-2, 0.1, 4


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def loader():
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(80, 8, generator=generator), torch.randn(80, 4, generator=generator))
    return DataLoader(data, batch_size=4)


def test_accelerate_with_accumulation_matches_the_plain_run_and_resumes(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    steps = steps_from_epochs(2, samples=80, batch_size=4, accumulate=2)
    assert steps == 20

    def new_run():
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        net = model()
        optimizer = BalancedAdamW(net.parameters(), LR, horizon=steps, rule=f"refresh:{REFRESHES}", weight_decay=DECAY)
        net, optimizer, data = accelerator.prepare(net, optimizer, loader())
        scheduler = RefreshScheduler(optimizer, steps, rule=f"refresh:{REFRESHES}")
        accelerator.register_for_checkpointing(scheduler)
        return accelerator, net, optimizer, data, scheduler

    def epoch(accelerator, net, optimizer, data, scheduler):
        for x, y in data:
            with accelerator.accumulate(net):
                accelerator.backward(nn.functional.mse_loss(net(x), y))
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                scheduler.step()

    straight = new_run()
    epoch(*straight)
    straight[0].save_state(str(tmp_path))
    epoch(*straight)
    resumed = new_run()
    resumed[0].load_state(str(tmp_path))
    epoch(*resumed)

    plain = model()
    beta = Refresh(REFRESHES)(steps)
    optimizer = torch.optim.AdamW(plain.parameters(), LR, betas=(beta, beta), weight_decay=DECAY, fused=True)
    for _ in range(2):
        batches = list(loader())
        for pair in zip(batches[::2], batches[1::2], strict=True):
            for x, y in pair:
                (nn.functional.mse_loss(plain(x), y) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert straight[2].optimizer.beta == resumed[2].optimizer.beta == beta == 0.8
    assert straight[4].last_step == resumed[4].last_step == steps
    for p, q, r in zip(straight[1].parameters(), resumed[1].parameters(), plain.parameters(), strict=True):
        assert torch.equal(p, q)
        torch.testing.assert_close(p, r)


def test_timm_takes_tied_betas_by_name_and_our_class_once_registered():
    factory = pytest.importorskip("timm.optim")
    net, beta = model(), Refresh()(20_000)
    by_name = factory.create_optimizer_v2(net, "adamw", lr=LR, weight_decay=DECAY, betas=(beta, beta))
    assert {group["betas"] for group in by_name.param_groups} == {(0.95, 0.95)}

    from timm.optim._optim_factory import OptimInfo, default_registry

    default_registry.register(OptimInfo("balancedadamw", BalancedAdamW, "AdamW with one memory"))
    ours = factory.create_optimizer_v2(net, "balancedadamw", lr=LR, weight_decay=DECAY, horizon=20_000, rule="paper")
    assert isinstance(ours, BalancedAdamW)
    assert ours.beta == 0.95

    def shape(optimizer):
        return [(len(group["params"]), group["weight_decay"], group["lr"]) for group in optimizer.param_groups]

    assert shape(ours) == shape(by_name) == [(2, 0.0, LR), (2, DECAY, LR)]
    scaled = factory.create_optimizer_v2(
        net, "balancedadamw", lr=LR, weight_decay=DECAY, horizon=20_000, rule="paper", layer_decay=0.5
    )
    assert scaled.beta == 0.95


@pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="deepspeed is not installed")
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_deepspeed_matches_the_plain_run(stage, tmp_path):
    worker = Path(__file__).with_name("deepspeed_worker.py")
    done = subprocess.run([sys.executable, worker, str(stage), tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the same losses, and beta 0.95 after loading" in done.stdout
