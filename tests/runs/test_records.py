"""A run's record survives what happens to files, and refuses what it did not write."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneclock.runs.files import SCHEMA, read_json, write_json
from oneclock.runs.folder import RunFolder, runs_of
from oneclock.runs.key import RunKey, differences, hash_of, safe_name
from oneclock.runs.table import read_source

DIGITS = RunKey("digits", beta=0.94377, seed=1, budget=300, spec={"lr": 1e-3})


@pytest.fixture
def run(tmp_path):
    return RunFolder.start(tmp_path / "runs" / DIGITS.folder, DIGITS, {"torch": "2"})


def read_whole(path):
    again = RunFolder.read(path)
    return again.result, again.points()


def test_a_run_written_is_a_run_read(run):
    run.log(100, val_loss=2.0, train_loss=2.5)
    run.log(200, val_loss=1.5)
    run.log(300, val_loss=math.nan, train_loss=math.inf)
    assert run.result is None
    written = run.finish("diverged", seconds=1.23456, reason="loss is not finite")
    again = RunFolder.read(run.path)
    assert again.key == DIGITS
    assert again.environment == {"torch": "2"}
    assert again.result == written
    assert (written.best_loss, written.best_step, written.steps, written.seconds) == (1.5, 200, 300, 1.235)
    record = again.record()
    assert record.val.steps == (100, 200, 300)
    assert math.isnan(record.val.losses[2])
    assert record.train.steps == (100, 300)
    for file in ("run.json", "result.json"):
        assert json.loads((run.path / file).read_text())["schema"] == SCHEMA
    assert "NaN" not in (run.path / "curve.jsonl").read_text()


def test_folder_names_say_what_they_hold(run):
    assert run.path.parts[-2:] == ("digits", "beta-0.94377-seed-1")
    assert RunKey("digits", beta=(0.9, 0.999), seed=2, budget=3).folder == "digits/betas-0.9-0.999-seed-2"


def test_an_untied_arm_comes_back_as_a_pair(tmp_path):
    identity = RunKey("digits", beta=(0.9, 0.999), seed=2, budget=3)
    RunFolder.start(tmp_path, identity)
    assert RunFolder.read(tmp_path).key == identity
    assert RunFolder.start(tmp_path, identity).key == identity


def test_a_torn_last_line_is_dropped_and_written_over(run):
    run.log(100, val_loss=2.0)
    with open(run.path / "curve.jsonl", "a") as file:
        file.write('{"step": 200, "val')
    assert [p.step for p in run.points()] == [100]
    again = RunFolder.start(run.path, DIGITS)
    again.log(200, val_loss=1.0)
    assert [p.step for p in again.points()] == [100, 200]


def test_rewind_forgets_what_will_be_repeated(run):
    for step in (100, 200, 300):
        run.log(step, val_loss=1 / step, train_loss=math.nan)
    before = (run.path / "curve.jsonl").read_bytes()
    run.rewind(100)
    assert [p.step for p in run.points()] == [100]
    run.log(200, val_loss=1 / 200, train_loss=math.nan)
    run.log(300, val_loss=1 / 300, train_loss=math.nan)
    assert (run.path / "curve.jsonl").read_bytes() == before


def test_a_different_run_in_the_folder_is_refused_with_the_difference(run):
    with pytest.raises(ValueError, match=r"spec.lr: 0.001 -> 0.01"):
        RunFolder.start(run.path, RunKey("digits", beta=0.94377, seed=1, budget=300, spec={"lr": 1e-2}))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("run.json", "", "not JSON"),
        ("run.json", "[1]", "no schema"),
        ("run.json", '{"schema": 99}', "newer than this oneclock knows"),
        ("run.json", '{"schema": 1}', "not a run of oneclock"),
        ("result.json", '{"schema": 1}', "lacks"),
        ("curve.jsonl", "nonsense\n", "line 1 is not an evaluation"),
        ("curve.jsonl", '{"step": 1, "val_loss": 2}\n[]\n', "line 2 is not an evaluation"),
        (
            "curve.jsonl",
            '{"step": 1, "val_loss": 2}\n{"step": 1.5, "val_loss": 2}\n',
            "line 2 .*step 1.5 is not a step",
        ),
        ("curve.jsonl", '{"step": 1},{"step": 2}\n', "line 1 is not an evaluation"),
        ("curve.jsonl", '{"step": 1e999, "val_loss": 2}\n', "line 1 is not an evaluation"),
        ("curve.jsonl", '{"step": -5, "val_loss": 2}\n', "line 1 is not an evaluation: .*step -5 is not a step"),
    ],
)
def test_foreign_files_are_refused_in_one_line(run, file, text, message):
    (run.path / file).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_whole(run.path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("result.json", "finished", "finiched", "'finiched' is not a final status"),
        ("result.json", '"best_loss": 1.5', '"best_loss": 1.25', "its best loss is not the one in result.json"),
        ("result.json", '"best_step": 200', '"best_step": 100', "its best loss is not the one in result.json"),
        ("result.json", '"steps": 300', '"steps": 200', "its best loss is not the one in result.json"),
        ("curve.jsonl", '{"step": 200, "val_loss": 1.5}\n', "", "its best loss is not the one in result.json"),
    ],
)
def test_a_record_without_a_seal_is_compared_with_its_curve(run, file, old, new, message):
    for step, loss in ((100, 2.0), (200, 1.5), (300, 1.75)):
        run.log(step, val_loss=loss)
    run.finish("finished", seconds=1.0)
    for name in ("run.json", "result.json"):
        written = json.loads((run.path / name).read_text())
        kept = {key: value for key, value in written.items() if key not in ("seal", "curve")}
        (run.path / name).write_text(json.dumps(kept | {"schema": 1}))
    assert len(RunFolder.read(run.path).whole()[1]) == 3
    text = (run.path / file).read_text()
    assert old in text
    (run.path / file).write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        RunFolder.read(run.path).whole()


@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_in_a_curve_give_points_or_a_value_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("run")
    run = RunFolder.start(path, DIGITS)
    (path / "curve.jsonl").write_bytes(data)
    try:
        points = run.points()
    except ValueError:
        return
    assert all(isinstance(p.step, int) for p in points)


def test_a_step_that_is_not_whole_is_refused_when_it_is_logged(run):
    with pytest.raises(ValueError, match=r"step 1.5 is not a step"):
        run.log(1.5, val_loss=1.0)
    run.log(2.0, val_loss=1.0)
    assert [point.step for point in run.points()] == [2]


def test_a_seal_counts_whatever_the_schema_says(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    text = (tmp_path / "a.json").read_text()
    assert f'"schema": {SCHEMA}' in text
    for schema in range(SCHEMA):  # 1 is one bit away from 3; a record of schema 1 has no seal
        (tmp_path / "a.json").write_text(text.replace(f'"schema": {SCHEMA}', f'"schema": {schema}'))
        with pytest.raises(ValueError, match="its seal does not match"):
            read_json(tmp_path / "a.json")


def test_a_missing_run_says_so(tmp_path):
    with pytest.raises(ValueError, match="missing"):
        RunFolder.read(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", {"schema": 1, "x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"schema": 1, "x": math.nan})
    assert json.loads((tmp_path / "a.json").read_text())["x"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_runs_of_a_study_in_a_fixed_order(tmp_path):
    for seed in (2, 1):
        for name in ("b", "a"):
            identity = RunKey(name, beta=0.9, seed=seed, budget=10)
            RunFolder.start(tmp_path / "runs" / identity.folder, identity)
    found = [(r.key.experiment, r.key.seed) for r in runs_of(tmp_path)]
    assert found == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


@given(st.text(max_size=30))
def test_any_name_is_one_safe_folder(name):
    folder = safe_name(name)
    assert folder
    assert "/" not in folder
    assert folder not in {".", ".."}
    assert not folder.startswith(".")


@given(st.text(max_size=10), st.text(max_size=10))
def test_different_names_are_different_folders(a, b):
    assert (safe_name(a) == safe_name(b)) == (a == b)


def test_hashes_and_differences():
    assert hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1})
    assert hash_of({"a": 1}) != hash_of({"a": 2})
    assert list(differences({"a": {"b": 1}, "c": 1}, {"a": {"b": 2}, "c": 1})) == ["a.b: 1 -> 2"]


def test_runs_of_two_lengths_are_not_one_experiment(tmp_path):
    for beta, budget in ((0.5, 10), (0.9, 20)):
        key = RunKey("mine", beta, seed=1, budget=budget)
        run = RunFolder.start(tmp_path / "runs" / key.folder, key)
        run.log(budget, val_loss=1.0)
        run.finish("finished", seconds=1.0)
    with pytest.raises(ValueError, match=r"beta-0\.9-seed-1 has 20 steps"):
        read_source(tmp_path)
