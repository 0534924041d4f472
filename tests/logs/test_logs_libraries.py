"""Every format as its own library writes it: the curve comes back, and with it the horizon."""

import contextlib
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("KERAS_BACKEND", "torch")

from logs_known import BUDGET, CURVE, LOSSES, STEPS, same_horizon

import oneclock.torchvision_guard  # noqa: F401  (before transformers, lightning and keras)
from oneclock import logs
from oneclock.horizon import Curve, early_stop
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey

assert early_stop(CURVE, BUDGET).ran_out  # a curve that only fell would not tell readers apart


def test_summary_writer(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path), filename_suffix=".first") as writer:
        for step, loss in zip(STEPS[:25], LOSSES[:25], strict=True):
            writer.add_scalar("val/loss", loss, step)
            writer.add_scalar("train/loss", loss / 2, step)
            writer.add_scalar("val/accuracy", 0.5, step)
        writer.add_histogram("weights", np.arange(100), 1)
        writer.add_text("notes", "nothing of interest")
        writer.add_hparams({"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "optim": "adamw"}, {"hparam/val_loss": 1.0})
    with SummaryWriter(str(tmp_path), filename_suffix=".second", purge_step=STEPS[20]) as writer:
        for step, loss in zip(STEPS[20:], LOSSES[20:], strict=True):
            writer.add_scalar("val/loss", loss, step, new_style=True)
    log = logs.read_log(tmp_path)
    assert (log.format, log.metric, log.unit) == ("TensorBoard events", "val/loss", "steps")
    assert set(log.metrics) >= {"val/loss", "train/loss", "val/accuracy"}
    same_horizon(log.curves[0], CURVE, BUDGET)
    arguments = log.runs[0].arguments
    assert (arguments.beta1, arguments.beta2, arguments.lr, arguments.optimizer) == (0.9, 0.95, 1e-3, "adamw")


def test_summary_writer_as_tensorboard_itself_reads_it(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step, loss in zip(STEPS, LOSSES, strict=True):
            writer.add_scalars("loss", {"train": loss / 2, "val": loss}, step)
            writer.add_scalar("eval/loss_double", loss, step, new_style=True, double_precision=True)
    log = logs.read_log(tmp_path)
    assert log.metric == "loss_val/loss"
    same_horizon(log.curves[0], CURVE, BUDGET)
    theirs = EventAccumulator(str(tmp_path / "loss_val"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    assert log.curves[0].losses == tuple(point.value for point in theirs.Scalars("loss"))
    assert logs.read_log(tmp_path, metric="eval/loss_double").curves == [CURVE]


def test_damaged_event_files_keep_what_is_whole(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step, loss in zip(STEPS, LOSSES, strict=True):
            writer.add_scalar("val/loss", loss, step)
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    size = whole.rindex(b"val/loss") - whole[: whole.rindex(b"val/loss")].rindex(b"val/loss")
    path.write_bytes(whole[:-5])
    log = logs.read_log(path)
    assert log.curves[0].steps == tuple(STEPS[:-1])
    assert any("cut off" in warning for warning in log.warnings)
    at = len(whole) - 5 * size + 40  # in the data of a record near the end, past its tag
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :])
    log = logs.read_log(path)
    assert len(log.curves[0].steps) == len(STEPS) - 1
    assert any("1 damaged record" in warning for warning in log.warnings)
    at = len(whole) - 5 * size + 2  # in the length of that record: where the next one begins is lost
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :])
    log = logs.read_log(path)
    assert log.curves[0].steps == tuple(STEPS[:-5])
    assert any("damaged at byte" in warning for warning in log.warnings)


@pytest.fixture(scope="module")
def trainer_run(tmp_path_factory):
    """A transformers Trainer on a tiny GPT-2, logging to TensorBoard too; with the losses its callback saw."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    seen = {}

    class Watch(TrainerCallback):
        def on_evaluate(self, args, state, control, metrics, **rest):
            seen[state.global_step] = metrics["eval_loss"]

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("trainer")
    tokens = torch.randint(0, 32, (24, 8))
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    setting = pytest.MonkeyPatch()  # undone below: other tests' reporters would follow it
    setting.setenv("TENSORBOARD_LOGGING_DIR", str(folder / "tensorboard"))
    trainer = Trainer(
        GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2)),
        TrainingArguments(
            str(folder / "out"),
            max_steps=40,
            learning_rate=0.05,
            per_device_train_batch_size=4,
            eval_strategy="steps",
            eval_steps=2,
            logging_steps=1,
            save_steps=20,
            adam_beta2=0.95,
            report_to=["tensorboard"],
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=rows[:16],
        eval_dataset=rows[16:],
        callbacks=[Watch],
    )
    with open(folder / "output.log", "w") as output, contextlib.redirect_stdout(output):
        trainer.train()
    setting.undo()
    return folder, Curve(list(seen), list(seen.values()))


def test_trainer_state(trainer_run):
    folder, known = trainer_run
    log = logs.read_log(folder / "out")  # a folder of checkpoints: the newest
    assert (log.format, log.metric, log.step) == ("transformers trainer_state.json", "eval_loss", "step")
    same_horizon(log.curves[0], known, 40)
    assert log.runs[0].arguments.max_steps == 40
    assert not any("planned steps" in warning for warning in log.warnings)
    early = logs.read_log(folder / "out" / "checkpoint-20" / "trainer_state.json")
    assert early.curves[0].steps == tuple(range(2, 21, 2))
    assert any("20 of 40 planned steps" in warning for warning in early.warnings)


def test_trainer_with_tensorboard(trainer_run):
    folder, known = trainer_run
    log = logs.read_log(folder / "tensorboard")
    assert (log.format, log.metric) == ("TensorBoard events", "eval/loss")
    same_horizon(log.curves[0], known, 40)
    arguments = log.runs[0].arguments
    assert (arguments.beta1, arguments.beta2, arguments.max_steps) == (0.9, 0.95, 40)


def test_trainer_as_it_prints(trainer_run):
    """The dicts that a real Trainer prints, which name epochs only: four steps of 16 rows in batches of 4."""
    folder, known = trainer_run
    log = logs.read_log(folder / "output.log", steps_per_epoch=4)
    assert (log.format, log.metric) == ("terminal output, transformers", "eval_loss")
    assert log.curves[0].steps == known.steps
    assert all(abs(a - b) < 5e-4 for a, b in zip(log.curves[0].losses, known.losses, strict=True))


def test_lightning(tmp_path):
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers import CSVLogger

    known = {}

    class Module(LightningModule):
        def __init__(self, lr, betas):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(1, 1)
            self.evaluations = 0

        def training_step(self, batch, index):
            loss = self.layer(batch).square().mean()
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, index):
            self.log("val_loss", torch.tensor(LOSSES[self.evaluations], dtype=torch.float64))

        def on_validation_epoch_end(self):
            # Lightning numbers a row by the last step made, counted from 0.
            known[self.trainer.global_step - 1] = LOSSES[self.evaluations]
            self.evaluations += 1

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, betas=self.hparams.betas)

    loader = torch.utils.data.DataLoader(torch.ones(5, 1), batch_size=1)
    trainer = Trainer(
        max_epochs=len(LOSSES),
        logger=CSVLogger(tmp_path, name="runs"),
        log_every_n_steps=2,
        num_sanity_val_steps=0,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its advice on workers, and deprecations in its own code
        trainer.fit(Module(1e-3, (0.9, 0.95)), loader, torch.utils.data.DataLoader(torch.ones(1, 1)))
    for place in (
        tmp_path,
        tmp_path / "runs",
        tmp_path / "runs" / "version_0",
        tmp_path / "runs" / "version_0" / "metrics.csv",
    ):
        log = logs.read_log(place)
        assert (log.format, log.metric, log.step, log.unit) == ("Lightning CSVLogger", "val_loss", "step", "steps")
        same_horizon(log.curves[0], Curve(list(known), list(known.values())), 200)
        assert (log.runs[0].arguments.beta1, log.runs[0].arguments.beta2) == (0.9, 0.95)
        assert log.runs[0].arguments.lr == 1e-3


def test_keras(tmp_path):
    import keras

    class Known(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["val_loss"] = LOSSES[epoch]

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    path = tmp_path / "keras.log"
    callbacks = [Known(), keras.callbacks.CSVLogger(str(path))]
    with open(tmp_path / "output.log", "w") as output, contextlib.redirect_stdout(output):
        model.fit(np.ones((4, 1)), np.ones((4, 1)), epochs=len(LOSSES), verbose=2, callbacks=callbacks)
    printed = logs.read_log(tmp_path / "output.log", steps_per_epoch=500)
    assert printed.curves[0].steps == CURVE.steps
    assert all(abs(a - b) < 5e-4 for a, b in zip(printed.curves[0].losses, LOSSES, strict=True))
    log = logs.read_log(path)
    assert (log.format, log.metric, log.unit) == ("CSV", "val_loss", "epochs")
    log = logs.read_log(path, steps_per_epoch=500)
    assert log.unit == "steps"
    same_horizon(log.curves[0], CURVE, BUDGET)


@pytest.mark.parametrize("backend", ["file", "database"])
def test_mlflow(tmp_path, backend, monkeypatch):
    import mlflow
    from mlflow.entities import Metric

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = f"sqlite:///{tmp_path}/mlflow.db" if backend == "database" else (tmp_path / "mlruns").as_uri()
    client = mlflow.MlflowClient(store)
    experiment = client.create_experiment("known", artifact_location=(tmp_path / "artifacts").as_uri())
    run = client.create_run(experiment, run_name="the run").info.run_id
    client.log_param(run, "adam_beta1", 0.9)
    client.log_param(run, "adam_beta2", 0.95)
    points = list(zip(STEPS, LOSSES, strict=True))
    client.log_batch(run, metrics=[Metric("eval/loss", loss, 1000 + step, step) for step, loss in points])
    client.log_batch(run, metrics=[Metric("train/loss", loss / 2, 1000 + step, step) for step, loss in points])
    client.log_metric(run, "eval/loss", float("nan"), timestamp=99_000, step=BUDGET + 500)
    log = logs.read_log(tmp_path)
    assert log.format == ("MLflow database" if backend == "database" else "MLflow file store")
    assert (log.metric, log.runs[0].name) == ("eval/loss", "the run")
    assert log.curves[0].steps[-1] == BUDGET + 500
    same_horizon(Curve(log.curves[0].steps[:-1], log.curves[0].losses[:-1]), CURVE, BUDGET)
    assert early_stop(log.curves[0], BUDGET) == early_stop(CURVE, BUDGET)
    assert (log.runs[0].arguments.beta1, log.runs[0].arguments.beta2) == (0.9, 0.95)


def test_own_records(tmp_path):
    for seed in (1, 2):
        identity = RunKey("known", beta=0.95, seed=seed, budget=BUDGET)
        run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
        for step, loss in zip(STEPS, LOSSES, strict=True):
            run.log(step, val_loss=loss, train_loss=loss / 2)
        run.log(BUDGET + 500, val_loss=float("nan"))
        run.finish("finished", seconds=1.0)
    log = logs.read_log(tmp_path)
    assert (log.format, log.metric, len(log.runs)) == ("oneclock record", "val_loss", 2)
    for place in (run.path, run.path / "curve.jsonl"):
        curve = logs.read_log(place).curves[0]
        assert curve.steps[-1] == BUDGET + 500
        same_horizon(Curve(curve.steps[:-1], curve.losses[:-1]), CURVE, BUDGET)
    assert log.runs[0].arguments.beta2 == 0.95
    assert log.runs[0].arguments.max_steps == BUDGET


def test_a_study_of_several_experiments_is_not_mixed(tmp_path):
    for experiment in ("one", "two"):
        identity = RunKey(experiment, beta=0.95, seed=1, budget=BUDGET)
        run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
        for step, loss in zip(STEPS, LOSSES, strict=True):
            run.log(step, val_loss=loss)
    with pytest.raises(ValueError, match="the experiments one, two"):
        logs.read_log(tmp_path)
    same_horizon(logs.read_log(tmp_path / "runs" / "two").curves[0], CURVE, BUDGET)
