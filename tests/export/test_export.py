"""A study in other tools' own files, read back by those tools and by our readers: the same runs, the same losses."""

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import wandb_server

from oneclock import logs
from oneclock.export import export
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey

needs = {name: pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed") for name in
         ("tensorboard", "mlflow", "wandb")}  # fmt: skip
STEPS = (10, 20, 30)


def losses(beta, seed):
    start = 1.0 if isinstance(beta, tuple) else beta
    return [start + seed / 7 + 1 / step for step in STEPS]


@pytest.fixture
def study(tmp_path):
    """Two betas and a pair with two seeds, a run that diverged, and one that has not ended."""
    for beta in (0.5, 0.9, (0.9, 0.999)):
        for seed in (1, 2):
            run = started(tmp_path / "s", beta, seed)
            for step, loss in zip(STEPS, losses(beta, seed), strict=True):
                run.log(step, val_loss=loss, train_loss=loss / 2)
            run.finish("finished", seconds=3.0)
    run = started(tmp_path / "s", 0.99, 1)
    run.log(10, val_loss=3.0)
    run.log(20, val_loss=math.nan)
    run.finish("diverged", seconds=1.0, reason="val_loss was nan at step 20")
    started(tmp_path / "s", 0.99, 2).log(10, val_loss=1.0)
    return tmp_path / "s"


def started(study, beta, seed):
    identity = RunKey("my digits", beta, seed, 30)
    return RunFolder.start(study / "runs" / identity.folder, identity)


@needs["tensorboard"]
def test_tensorboard_and_our_reader_read_the_losses_back(study, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    count, look = export(study, "tensorboard", tmp_path / "out")
    assert (count, look) == (7, f"tensorboard --logdir {tmp_path / 'out'}")
    for beta, name in ((0.5, "beta-0.5-seed-2"), ((0.9, 0.999), "betas-0.9-0.999-seed-2")):
        folder = tmp_path / "out" / "my%20digits" / name
        theirs = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
        events = theirs.Tensors("val_loss")
        assert [event.step for event in events] == [*STEPS]
        assert [event.tensor_proto.double_val[0] for event in events] == losses(beta, 2)
        log = logs.read_log(folder)
        assert (log.metric, list(log.curves[0].losses)) == ("val_loss", losses(beta, 2))
    arguments = logs.read_log(folder).runs[0].arguments
    assert (arguments.beta1, arguments.beta2) == (0.9, 0.999)


@pytest.mark.slow
@needs["mlflow"]
def test_mlflow_and_our_reader_read_the_losses_back(study, tmp_path):
    from mlflow.tracking import MlflowClient

    count, _ = export(study, "mlflow", tmp_path / "out")
    assert count == 7
    client = MlflowClient(f"sqlite:///{tmp_path / 'out' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("my digits").experiment_id
    runs = {run.info.run_name: run for run in client.search_runs([experiment])}
    assert len(runs) == 7
    one = runs["beta-0.9-seed-1"]
    assert (one.data.params["beta"], one.data.params["seed"], one.info.status) == ("0.9", "1", "FINISHED")
    history = sorted(client.get_metric_history(one.info.run_id, "val_loss"), key=lambda metric: metric.step)
    assert [metric.value for metric in history] == losses(0.9, 1)
    assert (runs["beta-0.99-seed-1"].info.status, runs["beta-0.99-seed-1"].data.tags["status"]) == (
        "FAILED",
        "diverged",
    )
    ours = {run.name: run.curve for run in logs.read_log(tmp_path / "out" / "mlflow.db").runs}
    assert [*ours["beta-0.5-seed-1"].losses] == losses(0.5, 1)


@needs["wandb"]
def test_wandb_writes_offline_runs_that_our_reader_reads_back(study, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    count, look = export(study, "wandb", tmp_path / "out")
    assert (count, look) == (7, f"wandb sync {tmp_path / 'out'}/wandb/offline-*")
    found = sorted((tmp_path / "out").glob("wandb/offline-run-*/*.wandb"))
    assert len(found) == 7
    read = [tuple(logs.read_log(path, metric="val_loss").curves[0].losses) for path in found]
    wanted = [tuple(losses(beta, seed)) for beta in (0.5, 0.9, (0.9, 0.999)) for seed in (1, 2)]
    assert sorted(one for one in read if len(one) == len(STEPS)) == sorted(wanted)


@needs["wandb"]
def test_wandb_itself_reads_them_and_sends_every_loss(study, tmp_path, monkeypatch):
    """`wandb sync`, to a server of this machine: what it sends is what the library has read from our files."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    export(study, "wandb", tmp_path / "out")
    with wandb_server.serving() as received:
        own = {"WANDB_BASE_URL": received.address, "WANDB_API_KEY": 40 * "a", "WANDB_MODE": "online"}
        own |= {"HOME": str(tmp_path), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        found = sorted((tmp_path / "out").glob("wandb/offline-run-*"))
        line = [sys.executable, "-m", "wandb", "sync", "--yes", *found]
        done = subprocess.run(line, env=os.environ | own, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    runs = {run["name"]: run for run in received.runs.values()}
    assert len(runs) == 7
    for beta, name in ((0.5, "beta-0.5-seed-2"), (0.9, "beta-0.9-seed-2"), ((0.9, 0.999), "betas-0.9-0.999-seed-2")):
        run = runs[f"my digits/{name}"]
        betas = {"beta": beta} if isinstance(beta, float) else dict(zip(("beta1", "beta2"), beta, strict=True))
        given = {key: value for key, value in run["config"].items() if key != "_wandb"}
        assert given == {**betas, "seed": 2, "budget": 30, "experiment": "my digits"}
        assert run["group"] == "my digits"
        assert [row["_step"] for row in run["history"]] == [*STEPS]
        assert [row["val_loss"] for row in run["history"]] == losses(beta, 2)
        assert [row["train_loss"] for row in run["history"]] == [loss / 2 for loss in losses(beta, 2)]
    first, second = (row["val_loss"] for row in runs["my digits/beta-0.99-seed-1"]["history"])
    assert first == 3.0
    assert math.isnan(second)


def test_bad_input_is_one_line(study, tmp_path, capsys):
    from oneclock.cli import main

    for arguments, complaint in (
        (["no-study", "--to", "tensorboard"], "holds no study"),
        ([str(study), "--to", "paper"], "choose among tensorboard, mlflow, wandb"),
        ([str(study), "--to", "tensorboard", "--out", str(study)], "exists already"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["export", *arguments])
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert complaint in error
        assert error.count("\n") == 1


@needs["tensorboard"]
def test_the_command_writes_beside_the_study(study, capsys):
    from oneclock.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["export", str(study), "--to", "tensorboard"])
    assert ended.value.code in (0, None)
    beside = study.with_name("s-tensorboard")
    assert capsys.readouterr().out == f"7 runs are in {beside}; look: tensorboard --logdir {beside}\n"
    assert json.loads((study / "runs/my%20digits/beta-0.5-seed-1/result.json").read_text())["status"] == "finished"
