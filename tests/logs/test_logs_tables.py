"""Plain CSV and JSON lines: what is guessed, what is named, what is warned of."""

import json
import math

import pytest

from oneclock import logs
from oneclock.horizon import Curve, early_stop


def test_csv_streams_the_chosen_columns(tmp_path):
    path = tmp_path / "any.log"
    path.write_text("time,global_step,loss,val_loss\n0.1,100,2.5,2.0\n0.2,200,1.9,1.5\n0.3,300,1.0,nan\n")
    log = logs.read(path)
    assert (log.metric, log.step, log.unit, log.format) == ("val_loss", "global_step", "steps", "CSV")
    assert log.curves[0].steps == (100, 200, 300)
    assert log.curves[0].losses[:2] == (2.0, 1.5)
    assert math.isnan(log.curves[0].losses[2])
    assert logs.read(path, metric="loss").curves[0].losses == (2.5, 1.9, 1.0)


def test_json_lines_nested_and_torn(tmp_path):
    path = tmp_path / "any.log"
    lines = [{"lr": 3e-4, "betas": [0.9, 0.95]}] + [{"step": s, "val": {"loss": 1 / s}, "loss": 2.0} for s in (10, 20)]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 30, "val": {"lo')
    log = logs.read(path)
    assert (log.metric, log.step) == ("val/loss", "step")
    assert log.curves == [Curve([10, 20], [0.1, 0.05])]
    assert log.runs[0].arguments.beta2 == 0.95
    assert any("cut off" in warning for warning in log.warnings)


def test_seeds_in_one_file_are_runs_of_their_own(tmp_path):
    path = tmp_path / "seeds.csv"
    path.write_text("seed,step,val_loss\n1,10,3\n1,20,2\n2,10,4\n2,20,5\n")
    assert logs.read_curves(path) == [Curve([10, 20], [3, 2]), Curve([10, 20], [4, 5])]


def test_read_curves_refuses_what_are_not_steps(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,val_loss\n0,3\n1,2\n")
    with pytest.raises(ValueError, match="counts epochs"):
        logs.read_curves(path)
    assert early_stop(logs.read_curves(path, steps_per_epoch=50)[0]).stop == 100
