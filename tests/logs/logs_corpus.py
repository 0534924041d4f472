"""Logs in the forms people have them, each with the known curve in it: what writes them, and how they are read.

What trainers print is written here in the form that their own source has it; `samples` holds what W&B (0.31.0)
wrote itself, offline.
"""

import json
import sqlite3
import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from logs_known import BUDGET, LOSSES, STEPS
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

SAMPLES = Path(__file__).parent / "samples"
PER_EPOCH = 500
POINTS = list(zip(STEPS, LOSSES, strict=True))


@dataclass(frozen=True)
class Form:
    """A log as a text (or bytes, or files by name), the format it is read as, and the options that it needs."""

    format: str
    content: str | bytes | dict[str, str] | dict[str, bytes] | Path
    options: dict = field(default_factory=dict)
    validation: bool = True

    def written(self, folder):
        """Where it lies, once written below the folder."""
        if isinstance(self.content, Path):
            return self.content
        files = self.content if isinstance(self.content, dict) else {"log": self.content}
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder if isinstance(self.content, dict) else folder / "log"


def lines(*forms, before="Using device cuda\nnumber of parameters: 10.65M\ncompiling the model...\n"):
    return before + "".join(form(step, loss) + "\n" for step, loss in POINTS for form in forms)


def printed(trainer, *forms, **rest):
    return Form(f"terminal output, {trainer}" if trainer else "terminal output", lines(*forms), **rest)


def record(data):
    """Bytes framed as TensorBoard's own writer frames them."""
    length = struct.pack("<Q", len(data))
    return b"".join([length, struct.pack("<I", masked_crc32c(length)), data, struct.pack("<I", masked_crc32c(data))])


def events():
    """An event file: its version, then a training and a validation loss."""
    pairs = [(step, tag, value) for step, loss in POINTS for tag, value in (("loss", loss / 2), ("val/loss", loss))]
    summaries = [(step, Summary(value=[Summary.Value(tag=tag, simple_value=value)])) for step, tag, value in pairs]
    written = [Event(wall_time=1.0, step=step, summary=summary) for step, summary in summaries]
    first = Event(wall_time=1.0, file_version="brain.Event:2")
    return b"".join(record(one.SerializeToString()) for one in [first, *written])


def database(statements):
    """The bytes of a SQLite file after the statements."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA page_size = 512")
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return path.read_bytes()


TITAN = "[rank0]:[titan] 2025-02-01 10:00:00,123 - root - INFO - "
FAIRSEQ = "2020-08-06 05:19:16 | INFO | "
CORPUS = {
    "nanoGPT": printed(
        "nanoGPT",
        lambda step, loss: f"step {step}: train loss {loss / 2:.4f}, val loss {loss}",
        lambda step, loss: f"iter {step}: loss {loss / 2:.4f}, time 35.88ms, mfu 17.20%",
    ),
    "nanochat": printed(
        "nanochat",
        lambda step, loss: f"Step {step:05d} | Validation bpb: {loss}",
        lambda step, loss: (
            f"step {step:05d}/20000 (0.05%) | loss: {loss / 2:.6f} | lrm: 1.00 | dt: 1234.56ms | "
            "tok/sec: 424,242 | mfu: 48.00 | total time: 0.21m"
        ),
    ),
    "modded-nanogpt": printed(
        "modded-nanogpt",
        lambda step, loss: f"step:{step}/20000 val_loss:{loss} train_time:11500ms step_avg:92.00ms",
        lambda step, loss: f"step:{step + 1}/20000 train_time:11592ms step_avg:92.01ms",
    ),
    "Megatron": printed(
        "Megatron",
        lambda step, loss: (
            f" [2024-05-01 10:00:00] iteration {step:8d}/   20000 | consumed samples: {step * 256:12d} | "
            f"elapsed time per iteration (ms): 512.3 | learning rate: 1.000000E-04 | lm loss: {loss / 2:.6E} | "
            "loss scale: 1.0 | grad norm: 1.023 | number of skipped iterations:   0 |"
        ),
        lambda step, loss: "-" * 100,
        lambda step, loss: (
            f" validation loss at iteration {step} | lm loss value: {loss:.6E} | lm loss PPL: 2.48E+01 | "
        ),
        lambda step, loss: (
            f" validation loss at iteration {step} on test set | lm loss value: 9.0E+00 | lm loss PPL: 1 | "
        ),
    ),
    "GPT-NeoX": printed(
        "Megatron",
        lambda step, loss: (
            f" samples/sec: 22.1 | iteration {step:8d}/   20000 | elapsed time per iteration (ms): 1449.6 | "
            f"learning rate: 6.000E-04 | approx flops per GPU: 33.0TFLOPS | lm_loss: {loss / 2:.6E} | loss scale: 1.0 |"
        ),
        lambda step, loss: (
            f" validation results at iteration {step} | lm_loss value: {loss:.6E} | lm_loss_ppl value: 8.1E+00 | "
        ),
    ),
    "DeepSpeed": printed(
        None,
        lambda step, loss: (
            f"[2023-03-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, "
            "lr=[0.0001], mom=[[0.9, 0.999]]"
        ),
        lambda step, loss: f"steps: {step} loss: {loss} iter time (s): 0.512 samples/sec: 62.500",
        validation=False,
    ),
    "torchtitan": printed(
        "torchtitan",
        lambda step, loss: (
            f"{TITAN}\x1b[31mstep: {step:2}  \x1b[32mloss: {loss / 2:7.4f}  \x1b[38;2;180;60;0mgrad_norm: "
            " 4.3000  \x1b[38;2;54;234;195mmemory: 20.10GiB(21.16%)  \x1b[34mtps: 1,234  \x1b[36mtflops: 1,200.12"
        ),
        lambda step, loss: (
            f"{TITAN}\x1b[33mvalidate step: {step:2}  \x1b[32mloss: {loss:9.6f}  "
            "\x1b[38;2;54;234;195mmemory: 20.10GiB(21.16%)  \x1b[34mtps: 1,234\x1b[0m"
        ),
    ),
    "torchtune": printed(
        None,
        lambda step, loss: f"1|{step}|Loss: {loss / 2}:  10%|#         | {step}/20000 [00:10<01:30,  1.00it/s]",
        lambda step, loss: f"Step {step} | loss:{loss / 2} lr:2e-05 tokens_per_second_per_gpu:1234.5 val_loss:{loss} ",
    ),
    "fairseq": printed(
        "fairseq",
        lambda step, loss: (
            f"{FAIRSEQ}train_inner | epoch 001:    100 / 160 loss={loss / 2:.3f}, nll_loss=12.9, ppl=7000, "
            f"wps=10, num_updates={step - 1}, lr=1e-05"
        ),
        lambda step, loss: (
            f"{FAIRSEQ}valid | epoch 001 | valid on 'valid' subset | loss {loss} | nll_loss 8.8 | "
            f"ppl 455.6 | wps 33 | wpb 100 | bsz 10 | num_updates {step}"
        ),
    ),
    "fairseq, JSON": printed(
        "fairseq",
        lambda step, loss: (
            '[2020-08-06 05:19:16][fairseq_cli.train][INFO] - {"epoch": 1, '
            f'"valid_loss": "{loss}", "valid_nll_loss": "8.8", "valid_num_updates": "{step}"}}'
        ),
    ),
    "transformers' printed dicts": printed(
        "transformers",
        lambda step, loss: f"{{'loss': {loss / 2}, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': {step / 500}}}",
        lambda step, loss: f"{{'eval_loss': {loss}, 'eval_runtime': 1.2, 'epoch': {step / 500}}}",
        options={"steps_per_epoch": PER_EPOCH},
    ),
    "transformers' printed dicts of words": printed(
        "transformers",
        lambda step, loss: f"{{'eval_loss': '{loss}', 'eval_runtime': '1.2', 'epoch': '{step / 500}'}}",
        options={"steps_per_epoch": PER_EPOCH},
    ),
    "Keras' two lines": printed(
        None,
        lambda step, loss: f"Epoch {step // 500}/40",
        lambda step, loss: f"1/1 - 0s - 3ms/step - loss: {loss / 2:.4f} - val_loss: {loss}",
        options={"steps_per_epoch": PER_EPOCH},
    ),
    "a loop of one's own": printed(
        None, lambda step, loss: f"[12:00:01] epoch 1, step {step:,}: train_loss={loss / 2:.3f} val_loss={loss}"
    ),
    "printed tokens": printed(
        None,
        lambda step, loss: f"tokens: {step * 1024} | train loss: {loss / 2} | val loss: {loss}",
        options={"tokens_per_step": 1024},
    ),
    "JSON array": Form("JSON document", json.dumps([{"step": s, "val_loss": v, "loss": v / 2} for s, v in POINTS])),
    "JSON array, indented": Form(
        "JSON document", json.dumps([{"step": s, "val_loss": v} for s, v in POINTS], indent=2)
    ),
    "JSON array below a key": Form(
        "JSON document", json.dumps({"lr": 0.1, "history": [{"step": s, "val": {"loss": v}} for s, v in POINTS]})
    ),
    "column JSON": Form(
        "JSON document", json.dumps({"step": STEPS, "loss": [v / 2 for v in LOSSES], "val_loss": LOSSES})
    ),
    "history.json of Keras": Form(
        "JSON document",
        json.dumps({"loss": [v / 2 for v in LOSSES], "val_loss": LOSSES}),
        {"steps_per_epoch": PER_EPOCH},
    ),
    "column JSON of pandas": Form(
        "JSON document",
        json.dumps({name: {str(i): v for i, v in enumerate(c)} for name, c in [("step", STEPS), ("val_loss", LOSSES)]}),
    ),
    "JSON lines": Form("JSON lines", "".join(json.dumps({"step": s, "val": {"loss": v}}) + "\n" for s, v in POINTS)),
    "JSON lines with a split": Form(
        "JSON lines",
        "".join(
            json.dumps({"step": s, "split": split, "loss": v * scale}) + "\n"
            for s, v in POINTS
            for split, scale in (("train", 0.5), ("val", 1))
        ),
    ),
    "CSV": Form("CSV", "step,loss,val_loss\n" + "".join(f"{s},{v / 2},{v}\n" for s, v in POINTS)),
    "TSV": Form("CSV", "global_step\teval_loss\n" + "".join(f"{s}\t{v}\n" for s, v in POINTS)),
    "CSV with decimal commas": Form(
        "CSV", "step;val_loss\n" + "".join(f"{s};{v:.6f}\n".replace(".", ",") for s, v in POINTS)
    ),
    "CSV in UTF-16": Form("CSV", ("step,val_loss\n" + "".join(f"{s},{v}\n" for s, v in POINTS)).encode("utf-16")),
    "headerless CSV": Form(
        "CSV", "".join(f"{s},{v / 2},{v}\n" for s, v in POINTS), {"columns": ["step", "loss", "val_loss"]}
    ),
    "long CSV": Form(
        "CSV",
        "step,metric,value\n" + "".join(f"{s},train_loss,{v / 2}\n{s},val_loss,{v}\n" for s, v in POINTS),
    ),
    "long CSV with a split": Form(
        "CSV", "split,step,loss,acc\n" + "".join(f"train,{s},{v / 2},1\nval,{s},{v},1\n" for s, v in POINTS)
    ),
    "CSV of tokens": Form(
        "CSV", "tokens,val_loss\n" + "".join(f"{s * 131_072},{v}\n" for s, v in POINTS), {"tokens_per_step": 131_072}
    ),
    "CSV of samples": Form(
        "CSV", "samples_seen,val_loss\n" + "".join(f"{s * 96},{v}\n" for s, v in POINTS), {"tokens_per_step": 96}
    ),
    "W&B run file": Form("W&B run file", SAMPLES / "run-plain.wandb"),
    "W&B run file of a Trainer": Form("W&B run file", SAMPLES / "run-trainer.wandb"),
    "W&B folder": Form(
        "W&B run file", {"wandb/offline-run-1/run-1.wandb": (SAMPLES / "run-trainer.wandb").read_bytes()}
    ),
    "CSVLogger's save_dir": Form(
        "Lightning CSVLogger",
        {
            "lightning_logs/version_0/metrics.csv": "epoch,step,train_loss,val_loss\n"
            + "".join(f"0,{s},{v / 2},\n0,{s},,{v}\n" for s, v in POINTS),
            "lightning_logs/version_0/hparams.yaml": "{}\n",
        },
    ),
    "transformers' state": Form(
        "transformers trainer_state.json",
        json.dumps(
            {
                "global_step": BUDGET,
                "log_history": [
                    e for s, v in POINTS for e in ({"loss": v / 2, "step": s}, {"eval_loss": v, "step": s})
                ],
                "max_steps": BUDGET,
            },
            indent=2,
        ),
    ),
    "MLflow's files": Form(
        "MLflow file store",
        {"0/a/meta.yaml": "run_name: a\n", "0/a/metrics/val_loss": "".join(f"1 {v} {s}\n" for s, v in POINTS)},
    ),
    "TensorBoard's events": Form("TensorBoard events", events()),
    "MLflow's database": Form(
        "MLflow database",
        database(
            [
                "CREATE TABLE metrics (key TEXT, value FLOAT, timestamp INT, run_uuid TEXT, step INT, is_nan BOOL)",
                "CREATE TABLE runs (run_uuid TEXT, name TEXT)",
                "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT)",
                "INSERT INTO runs VALUES ('a', 'run')",
                *(f"INSERT INTO metrics VALUES ('val_loss', {v}, {s}, 'a', {s}, 0)" for s, v in POINTS),
            ]
        ),
    ),
}
