"""Runs of several processes: started, ended and resumed as one."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import chaos
import pytest
from chaos import until

from oneclock.lab import experiment_target
from oneclock.runs.store import Study
from oneclock.sweep import Command, Grid, Plan
from oneclock.sweep.api import target_of
from oneclock.sweep.exec.worker import work

pytest.importorskip("torch")


def sweep(study, marked, *more):
    line = [sys.executable, "-m", "oneclock", "sweep", "--seeds", "1", "--betas", "0.9", "--no-report", "--out", study]
    return subprocess.Popen(
        [*line, "--processes", "2", *more], env=marked.environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ranks(marked, word):
    """The processes that torchrun has started, of those with the mark."""
    found = []
    for pid in marked.processes():
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            if word.encode() in line and any(value.startswith(b"LOCAL_RANK=") for value in environment):
                found.append(pid)
    return sorted(found)


SCRIPT = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
out, rank = pathlib.Path(sys.argv[2]), dist.get_rank()
state = out / "state.pt"
step, value = torch.load(state) if state.exists() else (0, torch.zeros(1))
while step < 12:
    step += 1
    mine = torch.full((1,), float(sys.argv[1]) * step * (rank + 1))
    dist.all_reduce(mine)
    value = value + mine
    if rank == 0:
        print(f"step {step}: val loss {1 / value.item()}", flush=True)
        torch.save((step, value), out / "new.pt")
        os.replace(out / "new.pt", state)
    dist.barrier()
    time.sleep(0.1)
dist.destroy_process_group()
"""


def killed_and_left_alone_end_alike(tmp_path, process, *asked):
    """A sweep of which one process is killed on its way, and one of which none is: the same table."""
    marked = chaos.Marked()
    struck = sweep(tmp_path / "struck", marked, *asked)
    until(lambda: any(tmp_path.glob("struck/runs/*/*/files/state.pt")), within=120)
    os.kill(ranks(marked, process)[-1], signal.SIGKILL)
    _, stderr = struck.communicate(timeout=240)
    assert struck.returncode == 0, stderr
    assert marked.gone(within=10)
    calm = sweep(tmp_path / "calm", chaos.Marked(), *asked)
    calm.communicate(timeout=240)
    assert chaos.table(tmp_path / "struck") == chaos.table(tmp_path / "calm")


@pytest.mark.slow
def test_one_of_two_processes_of_a_command_dies_and_the_run_is_resumed(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = ["--budget", "12", "--command", f"{sys.executable} {tmp_path}/train.py {{beta}} {{folder}} {{seed}}"]
    killed_and_left_alone_end_alike(tmp_path, "train.py", *command)
    assert (Study.open(tmp_path / "struck").header or {})["targets"][0]["processes"] == 2


FUNCTION = """
import os, time
import torch, torch.distributed as dist

def train(beta, seed, run):
    dist.init_process_group("gloo")
    rank, kept = dist.get_rank(), run.folder / "state.pt"
    step, value = torch.load(kept) if kept.exists() else (0, torch.zeros(1))
    while step < run.budget:
        step += 1
        mine = torch.full((1,), beta * step * (rank + 1))
        dist.all_reduce(mine)
        value = value + mine
        run.log(step, val_loss=1 / value.item() + rank)
        if rank == 0:
            torch.save((step, value), run.folder / "new.pt")
            os.replace(run.folder / "new.pt", kept)
        dist.barrier()
        time.sleep(0.1)
    dist.destroy_process_group()
"""

APART = """
import math, os, time

def train(beta, seed, run):
    rank = int(os.environ["RANK"])
    (run.folder / f"rank-{rank}").write_text(os.environ["WORLD_SIZE"])
    if rank == 1 and beta == 0.9:
        time.sleep(3600)  # as one that waits for the other
    run.log(1, val_loss=beta + rank)
    run.log(2, val_loss=math.nan if beta == 0.9 and rank == 0 else 1.0 + rank)
"""


@pytest.mark.slow
def test_one_of_two_processes_of_a_function_dies_and_the_run_is_resumed(tmp_path):
    (tmp_path / "train.py").write_text(FUNCTION)
    killed_and_left_alone_end_alike(
        tmp_path, "oneclock.sweep.exec.processes", f"{tmp_path}/train.py:train", "--budget", "12"
    )
    (row,) = Study.open(tmp_path / "calm").rows()
    assert row.best_loss == pytest.approx(1 / (0.9 * 3 * 78), rel=1e-6)  # both took part, and the first one logged


def test_each_process_calls_a_function_and_the_first_one_records(tmp_path):
    """Where it diverges, the others end with it, whatever they wait for."""
    (tmp_path / "apart.py").write_text(APART)
    two = target_of(f"{tmp_path}/apart.py:train", 2, processes=2)
    Plan(tmp_path / "s", [two], Grid(betas=(0.5, 0.9), seeds=(1,))).write()
    assert Plan.read(tmp_path / "s").targets == [two]
    assert work(tmp_path / "s", quiet=True) is None
    rows = {row.beta: row for row in Study.open(tmp_path / "s").rows()}
    assert (rows[0.5].status, rows[0.5].best_loss, rows[0.5].steps) == ("finished", 0.5, 2)
    assert (rows[0.9].status, rows[0.9].reason) == ("diverged", "val_loss was nan at step 2")
    for beta in (0.5, 0.9):
        files = tmp_path / f"s/runs/apart.train/beta-{beta}-seed-1/files"
        assert {path.name: path.read_text() for path in files.iterdir()} == {"rank-0": "2", "rank-1": "2"}


@pytest.mark.slow
def test_two_processes_of_an_experiment_are_ended_and_one_is_killed_and_the_losses_stay_the_same(
    tmp_path,
):
    pytest.importorskip("sklearn")
    struck, calm, marked = tmp_path / "struck", tmp_path / "calm", chaos.Marked()
    for study in (struck, calm):
        twin = experiment_target("resnet-digits", 40, ("evaluation.every=4",), processes=2)
        Plan(study, [twin], Grid(betas=(0.9,), seeds=(1,))).write()

    def worker():
        line = [sys.executable, "-m", "oneclock", "work", struck, "--jobs", "1", "--grace", "60"]
        return subprocess.Popen(line, env=marked.environment(), text=True, stderr=subprocess.PIPE)

    def evaluations():
        return sum(len(path.read_text().splitlines()) for path in struck.glob("runs/*/*/curve.jsonl"))

    first = worker()
    until(lambda: evaluations() > 1, within=240)
    first.terminate()
    first.communicate(timeout=120)
    (saved,) = struck.glob("runs/*/*/checkpoint/*.pt")
    assert int(saved.name.split("-")[1]) >= 8
    second, before = worker(), evaluations()
    until(lambda: evaluations() > before, within=240)
    os.kill(ranks(marked, "oneclock.sweep.exec.processes")[-1], signal.SIGKILL)
    _, stderr = second.communicate(timeout=400)
    assert second.returncode == 0, stderr
    assert marked.gone(within=10)
    assert work(calm, quiet=True) is None
    assert chaos.table(struck) == chaos.table(calm)


def test_processes_are_part_of_the_study_and_what_cannot_have_them_is_refused(tmp_path):
    command = "python train.py {beta} {seed}"
    two = Command(command, 10, processes=2)
    Plan(tmp_path / "s", [two], Grid(betas=(0.9,), seeds=(1,))).write()
    assert Plan.read(tmp_path / "s").targets == [two]
    with pytest.raises(ValueError, match="processes of command is 2 there"):
        Plan(tmp_path / "s", [Command(command, 10)], Grid(betas=(0.9,), seeds=(1,))).check()
    with pytest.raises(ValueError, match=r"runs in one process: name it \(file.py:train\)"):
        target_of(lambda beta, seed, run: 1.0, 10, processes=2)
    with pytest.raises(ValueError, match="begins with python"):
        Command("cd there; python train.py {beta}", 10, processes=2)
    with pytest.raises(ValueError, match="at least 1"):
        Command(command, 10, processes=0)
