"""Two processes with accumulation A compute what one does with 2 A; one writes. And the slow proof of kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_data import SETTINGS, small

from oneclock.lab.experiments import EXPERIMENTS, override
from oneclock.lab.training import train


def command(name: str, out: Path, data: Path, *more: str) -> list[str]:
    settings = [word for setting in SETTINGS[name] for word in ("--set", setting)]
    return ["lab", "train", name, "--beta", "0.9", "--out", str(out), "--data-dir", str(data), *settings, *more]


def curve(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nanogpt-wikitext103", "vitb16-cifar100", "t5small-bookcorpus"])
def test_two_processes_equal_one_with_twice_the_accumulation(name: str, tmp_path: Path) -> None:
    """accelerate takes the launcher of several GPUs for several CPU processes too."""
    experiment = override(small(name, tmp_path / "data"), ["accumulate=4"])
    train(experiment, 0.9, 1, tmp_path / "one", data_dir=tmp_path / "data")
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    flags = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    arguments = command(name, tmp_path / "two", tmp_path / "data", "--set", "accumulate=2")
    done = subprocess.run(
        [*launch, *flags, "-m", "oneclock", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished") == 1
    (two,) = (tmp_path / "two").glob("runs/*/*")
    assert json.loads((two / "run.json").read_text())["environment"]["processes"] == 2
    assert len(curve(two)) == len(curve(tmp_path / "one"))
    for ours, theirs in zip(curve(two), curve(tmp_path / "one"), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_killed_from_outside_and_started_again(name: str, tmp_path: Path) -> None:
    """The command itself, killed once its first evaluation is on disk, and started again."""
    data = tmp_path / "data"
    small(name, data)
    steps = ["--set", "budget=60", "--set", "evaluation.every=3", "--checkpoint-steps", "2"]
    arguments = [sys.executable, "-m", "oneclock", *command(name, tmp_path / "killed", data, *steps)]
    folder = tmp_path / "killed/runs" / name / "beta-0.9-seed-1"
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (folder / "curve.jsonl").exists() or not (folder / "curve.jsonl").stat().st_size:
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not (folder / "result.json").exists()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    changed = override(EXPERIMENTS[name], [*SETTINGS[name], "budget=60", "evaluation.every=3"])
    train(changed, 0.9, 1, tmp_path / "whole", data_dir=data)
    assert (folder / "curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()
