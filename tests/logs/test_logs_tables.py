"""Plain CSV and JSON lines: what is guessed, what is named, what is warned of."""

import json
import math
import subprocess
import sys
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneclock import logs
from oneclock.horizon import Curve, early_stop
from oneclock.logs import names
from oneclock.logs.formats.table import _decimal_mark
from oneclock.logs.number_text import StepText
from oneclock.logs.series import MetricSeries, placeholders_in


def test_csv_streams_the_chosen_columns(tmp_path):
    path = tmp_path / "any.log"
    path.write_text("time,global_step,loss,val_loss\n0.1,100,2.5,2.0\n0.2,200,1.9,1.5\n0.3,300,1.0,nan\n")
    log = logs.read_log(path)
    assert (log.metric, log.step, log.unit, log.format) == ("val_loss", "global_step", "steps", "CSV")
    assert log.curves[0].steps == (100, 200, 300)
    assert log.curves[0].losses[:2] == (2.0, 1.5)
    assert math.isnan(log.curves[0].losses[2])
    assert logs.read_log(path, metric="loss").curves[0].losses == (2.5, 1.9, 1.0)


def test_json_lines_nested_and_torn(tmp_path):
    path = tmp_path / "any.log"
    lines = [{"lr": 3e-4, "betas": [0.9, 0.95]}] + [{"step": s, "val": {"loss": 1 / s}, "loss": 2.0} for s in (10, 20)]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 30, "val": {"lo')
    log = logs.read_log(path)
    assert (log.metric, log.step) == ("val/loss", "step")
    assert log.curves == [Curve([10, 20], [0.1, 0.05])]
    assert log.runs[0].arguments.beta2 == 0.95
    assert any("cut off" in warning for warning in log.warnings)


def test_seeds_in_one_file_are_runs_of_their_own(tmp_path):
    path = tmp_path / "seeds.csv"
    path.write_text("seed,step,val_loss\n1,10,3\n1,20,2\n2,10,4\n2,20,5\n")
    assert logs.read_log(path).curves == [Curve([10, 20], [3, 2]), Curve([10, 20], [4, 5])]


def test_epochs_are_no_steps(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,val_loss\n0,3\n1,2\n")
    assert logs.read_log(path).unit == "epochs"
    assert early_stop(logs.read_log(path, steps_per_epoch=50).curves[0]).stop == 100


def wandb_export(runs, steps):
    names = [f"{run} - val/loss{bound}" for run in runs for bound in ("", "__MIN", "__MAX")]
    rows = [["Step", *names]] + [[step, *[1 / (step + 1)] * len(names)] for step in steps]
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def test_wandb_export(tmp_path):
    """The columns of a chart's export, written by hand: W&B makes the file in its web application only."""
    path = tmp_path / "wandb_export.csv"
    path.write_text(wandb_export(["brisk - river-1", "calm-sea-2"], range(0, 1000, 10)))
    log = logs.read_log(path)
    assert (log.format, log.metric, log.step) == ("W&B CSV export", "val/loss", "Step")
    assert [run.name for run in log.runs] == ["brisk - river-1", "calm-sea-2"]
    assert log.curves == [Curve(range(0, 1000, 10), [1 / (step + 1) for step in range(0, 1000, 10)])] * 2
    assert not log.warnings


def test_sampled_exports_are_recognised(tmp_path):
    path = tmp_path / "sampled.csv"
    path.write_text(wandb_export(["a"], [step + step // 7 for step in range(500)]))
    assert any("sampled the history" in warning for warning in logs.read_log(path).warnings)
    path.write_text(wandb_export(["a"], range(500)))
    assert not logs.read_log(path).warnings
    path.write_text("Wall time,Step,Value\n" + "".join(f"1.5,{step * 3},{1 / (step + 1)}\n" for step in range(1000)))
    log = logs.read_log(path)
    assert (log.metric, log.step) == ("Value", "Step")
    assert any("random sample" in warning for warning in log.warnings)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("step,val_loss\n1,3\n2,2\n2,5\n3,4\n", "logged more than once: 1 step;"),
        ("step,val_loss\n1,3\n-2,2\n2,5\n3,4\n", "1 value at negative"),
        ("step,val_loss\n1,3\n2,5\n3,4,9\n3,4\n", "1 row without the header's 2 cells"),
        ("step,val_loss,lr\n1,3,1\n2,5,1\n3,4,1\n4,2", "last line is cut off"),
        ("step,loss\n1,3\n2,5\n3,4\n", "no validation loss was found"),
        ("step,val_a_loss,val_b_loss\n1,3,1\n2,5,1\n3,4,1\n", "would do as well"),
        ("val_loss\n3\n5\n4\n", "no step column"),
        ("epoch,val_loss\n1,3\n2,5\n3,4\n", "counts epochs, not steps"),
    ],
)
def test_warnings(tmp_path, text, warning):
    path = tmp_path / "log.csv"
    path.write_text(text)
    log = logs.read_log(path)
    assert [part for part in log.warnings if warning in part]
    assert log.curves == [Curve([1, 2, 3], [3, 5, 4])]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_delimiters_and_line_ends(tmp_path, encoding, delimiter, end):
    path = tmp_path / "log.csv"
    rows = [["step", "naïve", "val_loss"], ["100", "x", "2.5"], ["200", "y", "1.5"], []]
    path.write_bytes(end.join(map(delimiter.join, rows)).encode(encoding))
    assert logs.read_log(path).curves == [Curve([100, 200], [2.5, 1.5])]


def test_decimal_commas_quotes_and_repeated_headers(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('step;"val_loss";note\n100;2,5;"a;b"\nstep;val_loss;note\n200;1,5;"two\nlines"\n')
    assert logs.read_log(path).curves == [Curve([100, 200], [2.5, 1.5])]


def test_what_is_better_when_higher_is_negated(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,val_acc,val_f1\n100,0.5,0.1\n200,0.75,0.2\n")
    with pytest.raises(ValueError, match=r"name one of: .*'val_acc'"):
        logs.read_log(path)
    log = logs.read_log(path, metric="VAL_ACC")
    assert log.curves == [Curve([100, 200], [-0.5, -0.75])]
    assert log.runs[0].values == (0.5, 0.75)
    assert any("higher-is-better" in warning for warning in log.warnings)


def test_a_folder_is_read_where_one_log_is_in_it(tmp_path):
    (tmp_path / "a.csv").write_text("step,val_loss\n1,3\n2,2\n")
    (tmp_path / "notes.txt").write_text("nothing, of interest\nreally\n")
    assert logs.read_log(tmp_path).curves == [Curve([1, 2], [3, 2])]
    (tmp_path / "b.jsonl").write_text('{"step": 1, "val_loss": 2}\n')
    with pytest.raises(ValueError, match=r"2 logs: a\.csv, b\.jsonl"):
        logs.read_log(tmp_path)


def test_names_say_what_a_column_is():
    columns = ("trainer/global_step", "Step", "step_time", "consumed_samples", "tokens_per_second")
    assert [names.kind(name) for name in columns] == ["step", "step", None, "samples", None]
    metrics = ("val_loss", "eval/squad_loss", "test_loss", "loss", "train_loss", "accuracy")
    assert [names.rank(name) for name in metrics] == [0, 1, 3, 4, 5, None]
    assert names.choose_metric(["loss", "val_acc", "val_loss"], None, "a.csv") == "val_loss"
    assert names.choose_metric(["lr", "reward"], None, "a.csv") == "reward"


@pytest.mark.parametrize(
    ("losses", "placeholders"),
    [
        ([4.1, -1, 3.2, -1, 2.9], [-1]),
        ([2.0, 0.1, 0.001, 0.0], []),
        ([1, -1, -2], []),
        ([4.1, 999, 3.2, 999, 2.9], [999]),
        ([4.1, 3.2, 999, 999], []),
    ],
)
def test_values_that_stand_for_not_evaluated(losses, placeholders):
    assert placeholders_in(losses) == placeholders


def test_decimal_marks_and_thousands():
    marks = [_decimal_mark(cells) for cells in (["12.000", "2,31"], ["12,000", "2.31"], ["12.000", "2"])]
    assert marks == [",", ".", None]
    steps = StepText("log.csv")
    assert [steps.number(cell) for cell in ("500", "1.000", "1.500", "12.000")] == [500, 1000, 1500, 12000]
    with pytest.raises(ValueError, match=r"has the step '12\.000': is it 12000 or 12\? Write it without separators"):
        StepText("log.csv").number("12.000")


def test_no_pickle_is_opened(tmp_path):
    (tmp_path / "training_args.bin").write_bytes(b"PK\x03\x04anything")
    for path in (tmp_path, tmp_path / "training_args.bin"):
        with pytest.raises(ValueError, match="not a log"):
            logs.read_log(path)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=2000), st.sampled_from([2, 8, 64]))
def test_thinning_is_even_and_keeps_the_last(values, limit):
    thin = MetricSeries()
    with mock.patch("oneclock.logs.series.LIMIT", limit):
        for step, value in enumerate(values):
            thin.add(step, value)
    steps, kept = thin.steps, thin.values
    assert [*kept] == [values[int(step)] for step in steps]
    assert len(thin) == len(steps) <= limit
    assert steps[-1] == len(values) - 1
    assert {after - before for before, after in pairwise(steps[:-1])} <= {thin.stride}
    assert len(values) / thin.stride <= limit


def test_a_very_long_curve_is_thinned_with_a_warning(tmp_path):
    path = tmp_path / "long.csv"
    count = 140_000
    losses = [abs(step - 50_001) for step in range(count)]
    path.write_text("step,val_loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate(losses)))
    log = logs.read_log(path)
    [curve] = log.curves
    assert len(curve.steps) < 2**17
    assert abs(curve.best_step - 50_001) <= 1
    assert curve.steps[-1] == count - 1
    assert abs(early_stop(curve).stop - early_stop(Curve(range(count), losses)).stop) < 4
    assert any("of 2 evaluations in a row" in warning for warning in log.warnings)


def test_nothing_but_python_is_needed(tmp_path):
    """Every format is read where none of the packages that write them is installed."""
    path = tmp_path / "log.csv"
    path.write_text("step,val_loss\n100,2\n2000,1\n")
    absent = [
        "numpy",
        "torch",
        "pandas",
        "tensorboard",
        "mlflow",
        "transformers",
        "lightning",
        "keras",
        "yaml",
        "wandb",
    ]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); "
        f"from oneclock import logs; from oneclock.advise import advise; "
        f"print(len(logs.READERS), advise(logs.read_log({str(path)!r})).paper.stop)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(len(logs.READERS)), "2000"]
