"""A real run with compact state, killed and started again until it is done: the same bits as one left alone."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).with_name("compact_worker.py")


def start(folder, twin, steps, every):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, str(WORKER), twin, str(steps), str(every), str(folder)])


@pytest.mark.slow
def test_a_twin_killed_again_and_again_ends_at_the_same_bits(tmp_path):
    run = ("vit-digits", 4000, 100)
    alone = start(tmp_path / "alone", *run)
    killed = 0
    while not (tmp_path / "killed" / "final.pt").exists():
        worker = start(tmp_path / "killed", *run)
        try:
            worker.wait(timeout=random.uniform(8, 15) if killed < 5 else 600)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
            killed += 1
        else:
            assert worker.returncode == 0
    assert alone.wait(timeout=600) == 0
    assert killed >= 2
    one, other = (torch.load(tmp_path / name / "final.pt", weights_only=True) for name in ("alone", "killed"))
    for name, value in one["model"].items():
        assert torch.equal(value, other["model"][name])
    for number, state in one["optimizer"]["state"].items():
        for name, value in state.items():
            assert value.dtype == other["optimizer"]["state"][number][name].dtype
            assert torch.equal(value, other["optimizer"]["state"][number][name])
