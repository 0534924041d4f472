"""What the loop computes: the reference written out, the same for every beta of a seed, and an honest end."""

import json
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_task import SPEC, Points, network

from oneclock.lab.experiments.spec import Evaluation, Experiment
from oneclock.lab.training import train
from oneclock.runs.folder import RunFolder
from oneclock.runs.record import RunRecord


def run(path: Path, experiment: Experiment = SPEC, beta: Any = 0.95, seed: int = 1, **options: Any) -> RunRecord:
    return train(experiment, beta, seed, path, **{"task": Points(), "model": network} | options)


def curve(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (path / "curve.jsonl").read_text().splitlines()]


def reference(beta: float, seed: int) -> list[dict[str, float]]:
    """The same training written out plainly: one loop, torch's AdamW, no accelerate, nothing of ours but the task."""
    torch.manual_seed(seed)
    task, model = Points(), network()
    decaying = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(beta, beta), fused=True)
    points, since = [], []
    for step in range(SPEC.budget):
        losses = []
        for micro in range(SPEC.accumulate):
            torch.manual_seed(zlib.crc32(struct.pack("<qqq", seed, step, micro)))
            loss = task.loss(model, task.batch(seed, step, micro), training=True)
            (loss / SPEC.accumulate).backward()
            losses.append(loss.item())
        since.append(sum(losses) / SPEC.accumulate)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            cosine = math.cos(math.pi * (step - 2) / 19)
            group["lr"] = 1e-2 * (step + 1) / 3 if step < 3 else 1e-4 + (1e-2 - 1e-4) * (1 + cosine) / 2
        optimizer.step()
        optimizer.zero_grad()
        if step + 1 in (1, 5, 10, 15, 20, 22):
            model.eval()
            with torch.no_grad():
                batches = task.evaluation("validation")
                total = sum(task.loss(model, batch, training=False).item() * len(batch["y"]) for batch in batches)
            model.train()
            points.append({"step": step + 1, "val_loss": total / 13, "train_loss": sum(since) / len(since)})
            since = []
    return points


def test_equals_the_loop_written_out(tmp_path: Path) -> None:
    run(tmp_path)
    got, wanted = curve(tmp_path), reference(0.95, seed=1)
    assert [point["step"] for point in got] == [1, 5, 10, 15, 20, 22]
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_same_start_and_batches_for_every_beta(tmp_path: Path) -> None:
    """The first update of Adam does not depend on beta: so neither does the first evaluation. Later ones do."""
    for beta in (0.5, 0.99, (0.9, 0.999)):
        run(tmp_path / str(beta), beta=beta)
    first, second, baseline = (curve(tmp_path / str(beta)) for beta in (0.5, 0.99, (0.9, 0.999)))
    assert first[0] == pytest.approx(second[0], rel=1e-6)
    assert first[0] == pytest.approx(baseline[0], rel=1e-6)
    assert first[-1]["val_loss"] != second[-1]["val_loss"]


def test_seeds_differ_and_repeat(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(tmp_path / name, seed=seed)
    assert (tmp_path / "a/curve.jsonl").read_bytes() == (tmp_path / "b/curve.jsonl").read_bytes()
    assert curve(tmp_path / "a") != curve(tmp_path / "c")


def test_a_tied_pair_is_the_balanced_one(tmp_path: Path) -> None:
    run(tmp_path / "tied", beta=0.95)
    run(tmp_path / "pair", beta=(0.95, 0.95))
    assert (tmp_path / "tied/curve.jsonl").read_bytes() == (tmp_path / "pair/curve.jsonl").read_bytes()


def test_learns(tmp_path: Path) -> None:
    long = replace(SPEC, budget=300, evaluation=Evaluation(every=100))
    assert run(tmp_path, long).best_loss < 0.35


def test_fixed_train_batches_are_evaluated_without_dropout_or_smoothing(tmp_path: Path) -> None:
    fixed = replace(SPEC, evaluation=replace(SPEC.evaluation, train_loss="fixed"))
    models = []
    run(tmp_path, fixed, model=lambda: models.append(network()) or models[0])
    model, task = models[0].eval(), Points()
    with torch.no_grad():
        total = sum(
            task.loss(model, batch, training=False).item() * len(batch["y"]) for batch in task.evaluation("train")
        )
    assert curve(tmp_path)[-1]["train_loss"] == pytest.approx(total / 13, rel=1e-9)


@pytest.mark.parametrize("poison", [0, 7, 21])
def test_a_training_loss_that_is_not_finite_ends_it(tmp_path: Path, poison: int) -> None:
    run(tmp_path / "whole")
    result = run(tmp_path / "poisoned", task=Points(poison))
    assert (result.status, result.steps) == ("diverged", poison + 1)
    assert f"training loss was not finite at step {poison + 1}" in str(result.reason)
    *before, last = curve(tmp_path / "poisoned")
    assert before == [point for point in curve(tmp_path / "whole") if point["step"] <= poison]
    assert last == {"step": poison + 1, "train_loss": None}


def test_a_validation_loss_that_is_not_finite_ends_it(tmp_path: Path) -> None:
    class Overflow(Points):
        def loss(self, model: torch.nn.Module, batch: dict[str, torch.Tensor], training: bool) -> torch.Tensor:
            return super().loss(model, batch, training) * (1.0 if training else math.inf)

    result = run(tmp_path, task=Overflow())
    assert (result.status, result.steps, result.best_loss) == ("diverged", 1, None)
    assert [point["val_loss"] for point in curve(tmp_path)] == [None]


def test_a_finished_run_is_returned_and_not_repeated(tmp_path: Path) -> None:
    result = run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "checkpoint").mkdir()  # what a kill between result and removal leaves
    assert run(tmp_path, task=None, model=None) == result
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_of_other_settings_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    other = replace(SPEC, optimizer=replace(SPEC.optimizer, lr=0.5))
    with pytest.raises(ValueError, match=r"different run \(spec.optimizer.lr: 0.01 -> 0.5\)"):
        run(tmp_path, other)


def test_progress_tells_where_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int, float, float | None]] = []
    run(tmp_path, progress=lambda *values: told.append(values))
    assert {1, 5, 10, 15, 20, 22} <= {values[0] for values in told}
    assert told[-1] == (22, 22, curve(tmp_path)[-1]["train_loss"], curve(tmp_path)[-1]["val_loss"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 1.2}, r"beta must be a number in \[0, 1\)"),
        ({"beta": (0.9, 1.0)}, r"beta must be a number in \[0, 1\)"),
        ({"beta": (0.9, 0.9, 0.9)}, "a pair"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"experiment": replace(SPEC, budget=0)}, "budget must be at least 1"),
        ({"experiment": replace(SPEC, accumulate=0)}, "accumulate must be at least 1"),
        ({"experiment": replace(SPEC, evaluation=Evaluation(every=0))}, "evaluation.every must be at least 1"),
        ({"log_with": "abacus"}, "no tracker 'abacus'"),
    ],
)
def test_bad_settings_leave_no_record(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "run", **change)
    assert not (tmp_path / "run" / "run.json").exists()


def test_workers_change_nothing(tmp_path: Path) -> None:
    run(tmp_path / "none")
    run(tmp_path / "two", workers=2)
    assert (tmp_path / "none/curve.jsonl").read_bytes() == (tmp_path / "two/curve.jsonl").read_bytes()


def test_tensorboard_shows_the_curve(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(tmp_path, log_with="tensorboard")
    events = EventAccumulator(str(tmp_path / "logs" / "tiny")).Reload()
    for name in ("val_loss", "train_loss"):
        assert [(event.step, event.value) for event in events.Scalars(name)] == [
            (point["step"], pytest.approx(point[name], rel=1e-6)) for point in curve(tmp_path)
        ]


def test_a_tracker_that_is_missing_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    find_spec: Callable[..., Any] = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "wandb" else find_spec(name))
    with pytest.raises(ImportError, match="pip install wandb"):
        run(tmp_path, log_with="wandb")


def test_the_environment_names_no_place(tmp_path: Path) -> None:
    import os
    import platform

    run(tmp_path)
    found = RunFolder.read(tmp_path).environment
    assert found["device"] == "cpu"
    assert found["threads"] == torch.get_num_threads()
    assert found["versions"]["torch"] == torch.__version__
    text = json.dumps(found)
    assert platform.node() not in text
    assert os.getcwd() not in text
