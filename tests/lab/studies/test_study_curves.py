"""A study as curves only: what is written is read again, and the turn rule is the same for dense curves."""

import math
from pathlib import Path

import pytest

from oneclock.lab.studies.curves import CURVES, read_curves, write_curves
from oneclock.lab.studies.turns import parts, turn
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey

ROOT = Path(__file__).parents[3]


def test_curves_are_read_as_they_were_written(tmp_path):
    key = RunKey("one", 0.9, seed=1, budget=300, split="heldout", spec={"schedule": {"kind": "wsd"}})
    run = RunFolder.start(tmp_path / "runs" / key.folder, key)
    for step, loss in ((100, 2.0), (200, 1.2345678), (300, 1.5)):
        run.log(step, val_loss=loss)
    other = RunKey("one", 0.9, seed=2, budget=300)
    RunFolder.start(tmp_path / "runs" / other.folder, other).log(100, val_loss=2.0)  # still under way
    assert [found.key for found in read_curves(tmp_path)] == []
    run.finish("finished", seconds=1.0)
    assert write_curves([], tmp_path, tmp_path / "packed") == (1, 0)
    (found,) = read_curves(tmp_path / "packed")
    assert (found.key.hash, found.key.split, found.key.spec) == (key.hash, "heldout", {"schedule": {"kind": "wsd"}})
    assert (found.curve.steps, found.curve.losses) == ((100, 200, 300), (2.0, 1.2346, 1.5))


@pytest.mark.parametrize("count", [64, 100, 1000])
def test_a_dense_curve_turns_where_a_thin_one_does(count):
    losses = [1 + abs(at / count - 0.4) for at in range(1, count + 1)]
    kind, place = turn(parts(losses))
    assert kind == "turn"
    assert place == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize(("study", "count"), [("horizon", 528), ("third", 510)])
def test_the_fresh_runs_are_whole_small_and_held_out(study, count):
    runs = [*read_curves(ROOT / "studies" / study)]
    assert (ROOT / "studies" / study / CURVES).stat().st_size < 1_000_000
    assert len({run.key.folder for run in runs}) == len(runs) == count
    assert {run.key.split for run in runs} == {"heldout"}
    assert all(map(math.isfinite, (loss for run in runs for loss in run.curve.losses)))
    assert {len(run.curve.steps) for run in runs} == {100, 1000}
