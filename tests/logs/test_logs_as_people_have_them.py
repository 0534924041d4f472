"""What new users met with their own logs, one test each, called after what they met."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from logs_corpus import CORPUS, POINTS, SAMPLES
from logs_known import BUDGET, CURVE, LOSSES, same_horizon

from oneclock import logs
from oneclock.advise import advise
from oneclock.cli import main
from oneclock.recommend import short_beta


def complaint(path, **options):
    with pytest.raises(ValueError, match=".+") as error:
        logs.read_log(path, **options)
    return str(error.value)


def test_a_wandb_run_file_that_cannot_be_read_says_the_csv_export(tmp_path):
    data = (SAMPLES / "run-plain.wandb").read_bytes()
    (tmp_path / "run-new.wandb").write_bytes(data[:4] + b"\0\0\1" + data[7:])
    assert "export the run's chart as CSV" in complaint(tmp_path / "run-new.wandb")
    (tmp_path / "wandb").mkdir()
    assert "export the run's chart as CSV" in complaint(tmp_path / "wandb")


def test_a_wandb_run_file_damaged_or_cut_says_so(tmp_path):
    data, path = bytearray((SAMPLES / "run-trainer.wandb").read_bytes()), tmp_path / "run-1.wandb"
    path.write_bytes(data[:-9])
    assert any("the run may still go on" in warning for warning in logs.read_log(path).warnings)
    data[20_000] ^= 1
    path.write_bytes(data)
    log = logs.read_log(path)
    assert any("1 damaged part," in warning for warning in log.warnings)
    known = dict(zip(CURVE.steps, CURVE.losses, strict=True))
    assert 0 < len(log.curves[0].steps) < len(CURVE.steps)
    assert all(known[step] == loss for step, loss in zip(log.curves[0].steps, log.curves[0].losses, strict=True))


def test_the_steps_of_wandb_may_be_calls():
    plain, trainer = (logs.read_log(SAMPLES / f"run-{name}.wandb") for name in ("plain", "trainer"))
    assert (plain.step, trainer.step) == ("_step", "train/global_step")
    assert any("count calls to log" in warning for warning in plain.warnings)
    assert not trainer.warnings
    assert (plain.runs[0].name, plain.runs[0].arguments.beta2, plain.runs[0].arguments.max_steps) == (
        "the-run",
        0.95,
        20_000,
    )


def test_nanogpt_log_is_no_csv_that_holds_nothing(tmp_path):
    (tmp_path / "nanogpt.log").write_text(CORPUS["nanoGPT"].content)
    log = logs.read_log(tmp_path / "nanogpt.log")
    assert (log.format, log.metric) == ("terminal output, nanoGPT", "val_loss")
    assert set(log.metrics) == {"val_loss", "train_loss", "loss"}


def test_a_headerless_csv_says_to_name_its_columns(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("".join(f"{step},{loss}\n" for step, loss in POINTS))
    assert complaint(path).endswith(
        "it seems to be a table without a header; name its columns: --columns step,val_loss"
    )
    same_horizon(logs.read_log(path, columns=["step", "val_loss"]).curves[0], CURVE, BUDGET)
    assert "has 2 columns, and 3 are named" in complaint(path, columns=["step", "val_loss", "lr"])


def test_an_aim_repository_says_what_to_do(tmp_path):
    (tmp_path / ".aim").mkdir()
    assert "an Aim repository, which only Aim itself can open; export the metric as CSV" in complaint(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04" + b"\0" * 50, "a PyTorch checkpoint"),
        (b"\x80\x04\x95abc", "a pickle, which is never opened"),
        (b"PAR1" + b"\0" * 50, "a Parquet table; save it as CSV"),
        (b"\x1f\x8b\x08" + b"\0" * 50, "a gzip file; unpack it"),
        (b"\0\1\2\3" * 20, "not text"),
        (b"hello\nworld\n", "text without two lines that name a step and a loss"),
        (b'{"name": "a"', "JSON without a loss"),
        (b"a,b\nc,d\n", "a table without a number in its first row"),
    ],
)
def test_where_nothing_is_found_the_message_says_what_it_seems_to_be(tmp_path, content, words):
    (tmp_path / "thing").write_bytes(content)
    assert words in complaint(tmp_path / "thing")


def test_a_folder_of_nothing_names_what_is_in_it(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 20)
    assert "a folder without a log, with 'model.safetensors' in it" in complaint(tmp_path)


def test_tokens_taken_for_steps(tmp_path, capsys):
    path = tmp_path / "tokens.csv"
    path.write_text("tokens,val_loss\n" + "".join(f"{step * 131_072},{loss}\n" for step, loss in POINTS))
    log = logs.read_log(path, step="tokens")
    advice = advise(log)
    assert (log.unit, advice.unit, advice.beta) == ("tokens", "tokens", None)
    assert advice.next.endswith("add --tokens-per-step N.")
    same_horizon(logs.read_log(path, tokens_per_step=131_072).curves[0], CURVE, BUDGET)
    with pytest.raises(SystemExit) as end:
        main(["advise", str(path), "--step", "tokens", "--tokens-per-step", "131,072", "--budget", "20k"])
    assert end.value.code in (0, None)
    assert f"Beta {short_beta(advise(CURVE_RUN, budget=BUDGET).beta)} " in capsys.readouterr().out


CURVE_RUN = logs.LoggedRun("known", CURVE, logs.read_log(SAMPLES / "run-plain.wandb").runs[0].arguments)


@pytest.mark.parametrize("name", ["long CSV", "long CSV with a split"])
def test_a_long_csv_does_not_mix_train_and_validation(name, tmp_path):
    path = CORPUS[name].written(tmp_path)
    log = logs.read_log(path)
    assert set(log.metrics) >= ({"val_loss", "train_loss"} if name == "long CSV" else {"val/loss", "train/loss"})
    assert not any("logged more than once" in warning for warning in log.warnings)
    assert "has no metric 'value'" in complaint(path, metric="value")
    train = next(metric for metric in log.metrics if "train" in metric)
    assert logs.read_log(path, metric=train).curves[0].losses == tuple(loss / 2 for loss in LOSSES)


def test_csvloggers_save_dir_of_two_names_is_not_mixed(tmp_path):
    for name in ("one", "two"):
        CORPUS["CSVLogger's save_dir"].written(tmp_path / name)
        (tmp_path / name / "lightning_logs").rename(tmp_path / f"logs_{name}")
    assert "holds the logs of 'logs_one', 'logs_two'" in complaint(tmp_path)


def test_one_line_at_the_end_is_a_curve_where_it_is_known_to_be_printed(tmp_path):
    path = tmp_path / "output.log"
    path.write_text("compiling ...\nstep 20000: val loss 1.25\n")
    (curve,) = logs.read_text(path).curves
    assert (curve.steps, curve.losses) == ((20_000,), (1.25,))
    assert "text without two lines that name a step and a loss" in complaint(path)


def test_a_folder_with_output_and_a_log_asks_which(tmp_path):
    (tmp_path / "output.log").write_text(CORPUS["nanoGPT"].content)
    assert logs.read_log(tmp_path).format == "terminal output, nanoGPT"
    (tmp_path / "metrics.csv").write_text(CORPUS["CSV"].content)
    assert "holds 2 logs: metrics.csv, output.log" in complaint(tmp_path)


@pytest.mark.parametrize(
    ("line", "unit"),
    [
        ("Epoch [{n}/20], Loss: 1.5, Val Loss: {loss}", "epoch"),
        ("2026-01-01 10:00:00 INFO Step {n} | Validation Loss: {loss}", "step"),
        ("INFO:root:step {n} val_loss {loss}", "step"),
        ("step {n} val {loss:.3f}", "step"),
        ("epoch {n} train 1.5 valid {loss:.3f}", "epoch"),
        ("step {n} tr=1.5 va={loss:.3f}", "step"),
    ],
)
def test_lines_of_loops_and_of_logging(tmp_path, line, unit):
    path = tmp_path / "train.log"
    path.write_text("".join(line.format(n=n, loss=3 - n / 10) + "\n" for n in range(1, 11)))
    log = logs.read_log(path)
    assert (log.step, log.curves[0].steps[-1], log.curves[0].losses[-1]) == (unit, 10, 2.0)


def test_steps_that_begin_anew_in_each_epoch_are_not_taken_for_steps(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("".join(f"Epoch [{n}/9], Step [100/600], Val Loss: {3 - n / 10}\n" for n in range(1, 9)))
    assert "not a log that can be read" in complaint(path)


def test_lightnings_folder_without_hyperparameters(tmp_path):
    CORPUS["CSVLogger's save_dir"].written(tmp_path / "one")
    for file in (tmp_path / "one").rglob("hparams.yaml"):
        file.unlink()
    assert logs.read_log(tmp_path / "one").format == "Lightning CSVLogger"
