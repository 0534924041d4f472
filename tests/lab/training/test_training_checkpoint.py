"""Killed at any point and started again, a run leaves the same curve to the last bit; damage is noticed and named."""

import errno
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_task import SPEC, Points, network

from oneclock.lab.experiments.spec import Evaluation
from oneclock.lab.training import checkpoint, train
from oneclock.runs.folder import RunFolder

InChild = Callable[[Callable[[], object]], int]


def run(path: Path, **options: Any) -> Any:
    options = {"task": Points(), "model": network, "checkpoint_every": 3} | options
    return train(options.pop("experiment", SPEC), options.pop("beta", 0.95), 1, path, **options)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Points):
    """Kills its process in the middle of update `step`, or in evaluation number `evaluation`."""

    def __init__(self, step: int = -1, evaluation: int = -1) -> None:
        super().__init__()
        self.deadly_step, self.evaluations = step, evaluation

    def batch(self, seed: int, step: int, micro: int) -> dict[str, torch.Tensor]:
        if (step, micro) == (self.deadly_step, 1):
            die()
        return super().batch(seed, step, micro)

    def evaluation(self, split: str) -> list[dict[str, torch.Tensor]]:
        self.evaluations -= 1
        if self.evaluations == 0:
            die()
        return super().evaluation(split)


@pytest.mark.parametrize(
    "moment", [*({"step": step} for step in (0, 1, 2, 3, 4, 11, 12, 21)), {"evaluation": 1}, {"evaluation": 6}], ids=str
)
def test_killed_at_any_step(tmp_path: Path, in_child: InChild, moment: dict[str, int]) -> None:
    run(tmp_path / "whole")
    assert in_child(lambda: run(tmp_path / "killed", task=Deadly(**moment))) == -signal.SIGKILL
    assert not (tmp_path / "killed/result.json").exists()
    assert run(tmp_path / "killed").status == "finished"
    assert (tmp_path / "killed/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()
    assert not (tmp_path / "killed/checkpoint").exists()


# A function of the standard library or torch, the file it works on, and which of its calls on such a file kills.
MOMENTS = [
    ("torch.save", "", 1, "before"),
    ("os.fsync", "checkpoint/new", 1, "before"),
    ("os.fsync", "curve.jsonl", 1, "before"),
    ("os.replace", "run.json", 1, "before"),
    ("os.replace", "run.json", 1, "after"),
    ("os.replace", "checkpoint/step-", 1, "before"),
    ("os.replace", "checkpoint/step-", 1, "after"),
    ("os.replace", "checkpoint/step-", 2, "before"),
    ("os.replace", "checkpoint/step-", 2, "after"),  # two checkpoints are there
    ("os.unlink", "checkpoint/step-", 1, "after"),  # the older checkpoint is gone
    ("os.replace", "result.json", 1, "before"),
    ("shutil.rmtree", "checkpoint", 1, "before"),  # result.json is there, and the checkpoint still
]


def named(argument: object) -> str:
    """The file that an argument means: a path, or the number of an open file."""
    return os.readlink(f"/proc/self/fd/{argument}") if isinstance(argument, int) else str(argument)


@pytest.mark.parametrize(("function", "file", "call", "when"), MOMENTS)
def test_killed_while_writing(
    tmp_path: Path, in_child: InChild, function: str, file: str, call: int, when: str
) -> None:
    run(tmp_path / "whole")

    def killed() -> None:
        module = __import__(function.partition(".")[0])
        name = function.partition(".")[2]
        original, calls = getattr(module, name), []

        def deadly(*arguments: Any, **options: Any) -> Any:
            struck = file in " ".join(map(named, arguments))
            calls.extend([1] * struck)
            if struck and len(calls) == call and when == "before":
                die()
            value = original(*arguments, **options)
            if struck and len(calls) == call:
                die()
            return value

        setattr(module, name, deadly)
        run(tmp_path / "killed")

    assert in_child(killed) == -signal.SIGKILL
    run(tmp_path / "killed")
    assert (tmp_path / "killed/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()
    assert sorted(path.name for path in (tmp_path / "killed").iterdir() if not path.name.startswith(".")) == [
        "curve.jsonl",
        "result.json",
        "run.json",
    ]


def test_killed_at_random_moments_until_done(tmp_path: Path, in_child: InChild) -> None:
    """From outside, at moments nobody chose, again and again."""
    experiment = replace(SPEC, budget=200, evaluation=Evaluation(every=20))
    run(tmp_path / "whole", experiment=experiment)
    pause = random.Random(0)
    kills = 0
    while not (tmp_path / "killed/result.json").exists():
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            try:
                run(tmp_path / "killed", experiment=experiment, checkpoint_every=2)
            finally:
                os._exit(0 if os.getpid() != parent else 1)
        time.sleep(pause.uniform(0.02, 0.4))
        os.kill(child, signal.SIGKILL)
        kills += os.waitpid(child, 0)[1] == signal.SIGKILL
    assert kills
    assert (tmp_path / "killed/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()


def test_stopped_between_steps_it_is_saved_as_it_stands(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    asked: list[int] = []
    with pytest.raises(KeyboardInterrupt, match="stopped at step 8"):
        run(tmp_path / "stopped", checkpoint_every=None, stop=lambda: len(asked) == 7 or asked.append(1) is not None)
    assert checkpoint.load(tmp_path / "stopped")["position"]["step"] == 8
    assert len(list((tmp_path / "stopped/checkpoint").iterdir())) == 1
    run(tmp_path / "stopped")
    assert (tmp_path / "stopped/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()


def test_minutes_make_checkpoints_too(tmp_path: Path, monkeypatch: Any) -> None:
    saved: list[int] = []
    monkeypatch.setattr(checkpoint, "save", lambda path, step, state: saved.append(step))
    run(tmp_path, checkpoint_every=None, checkpoint_minutes=0.0)
    assert saved == list(range(1, SPEC.budget))


def damaged(path: Path, change: Callable[[bytes], bytes]) -> None:
    (file,) = (path / "checkpoint").glob("*.pt")
    file.write_bytes(change(file.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [lambda data: b"", lambda data: data[:1000], lambda data: data[:900] + bytes([data[900] ^ 1]) + data[901:]],
    ids=["empty", "torn", "one bit"],
)
def test_a_damaged_checkpoint_is_one_line_and_harms_nothing(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", stop=(tmp_path / "run/checkpoint").exists)
    damaged(tmp_path / "run", change)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.json*")}
    with pytest.raises(ValueError, match="is damaged .* delete that folder") as caught:
        run(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.json*")} == before
    checkpoint.remove(tmp_path / "run")
    run(tmp_path / "run")
    assert (tmp_path / "run/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(tmp_path / "sprung"),))

    checkpoint.save(tmp_path, 1, {"trap": Trap()})
    with pytest.raises(ValueError, match="is damaged"):
        checkpoint.load(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stop=lambda: True)
    with pytest.raises(ValueError, match="is damaged"):
        run(tmp_path, model=lambda: torch.nn.Linear(2, 2))


def test_a_newer_checkpoint_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    checkpoint.save(tmp_path, 1, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 2"):
        checkpoint.load(tmp_path)


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(tmp_path: Path, in_child: InChild) -> None:
    run(tmp_path / "whole")

    def starved() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))  # run.json fits, a checkpoint does not
        with pytest.raises(OSError, match=r"no room to write the run .* free some") as caught:
            run(tmp_path / "full", checkpoint_every=7)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__.errno == errno.EFBIG  # type: ignore[union-attr]

    assert in_child(starved) == 0
    assert [point.step for point in RunFolder.read(tmp_path / "full").points()] == [1, 5]
    assert not list((tmp_path / "full/checkpoint").iterdir())
    run(tmp_path / "full")
    assert (tmp_path / "full/curve.jsonl").read_bytes() == (tmp_path / "whole/curve.jsonl").read_bytes()


def test_every_generator_is_restored() -> None:
    before = checkpoint.random_state()

    def draw() -> tuple[float, float, float, float]:
        return random.random(), random.gauss(0, 1), float(np.random.normal()), torch.rand(()).item()  # noqa: NPY002

    random.gauss(0, 1)  # leaves one in store
    stored = checkpoint.random_state()
    first = draw()
    checkpoint.restore_random_state(stored)
    assert draw() == first
    checkpoint.restore_random_state(before)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_every_flipped_bit_is_noticed(tmp_path_factory: Any, place: int, bit: int) -> None:
    path = tmp_path_factory.mktemp("flip")
    checkpoint.save(path, 3, {"model": {"weight": torch.arange(50.0)}})
    (file,) = (path / "checkpoint").iterdir()
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 1 << bit
    file.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        checkpoint.load(path)
