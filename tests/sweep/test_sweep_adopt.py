"""Runs made elsewhere, taken into a plan: nothing that ended is trained twice, and each says where it comes from."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import chaos
import pytest

from oneclock.lab import experiment_target
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.store import Study
from oneclock.sweep import Execution, Grid, Plan, run_sweep
from oneclock.sweep.adopt import adopt
from oneclock.sweep.api import target_of
from oneclock.sweep.exec.worker import work
from oneclock.sweep.plan import base_of

BETAS, SEEDS = (0.5, 0.9), (1, 2)
TARGET = f"{chaos.TARGET}:train"


def planned(folder, betas=BETAS, budget=100, name=None):
    plan = Plan(folder, [target_of(TARGET, budget, name=name)], Grid(betas=betas, seeds=SEEDS))
    plan.write()
    return plan


def losses(study):
    return {(row.beta, row.seed): (row.best_loss, row.best_step, row.steps) for row in Study.open(study).rows()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study of four runs."""
    folder = tmp_path_factory.mktemp("made") / "made"
    run_sweep(
        TARGET, 100, folder, protocol="grid", betas=BETAS, seeds=SEEDS, where=Execution(in_process=True), quiet=True
    )
    return folder


def test_runs_of_another_study_are_taken_and_the_rest_is_trained(tmp_path, made, monkeypatch):
    monkeypatch.setenv("COMPLETED", str(tmp_path / "completed"))
    plan = planned(tmp_path / "s", betas=(*BETAS, 0.99))
    assert adopt(plan, made)[:2] == (4, [])
    assert adopt(plan, made)[:2] == (0, [])
    assert work(plan.path, quiet=True) is None
    trained = sorted(Path(line).name for line in (tmp_path / "completed").read_text().split())
    assert trained == ["beta-0.99-seed-1", "beta-0.99-seed-2"]
    assert {cell: row for cell, row in losses(plan.path).items() if cell[0] < 0.99} == losses(made)
    reasons = {row.beta: row.reason for row in Study.open(plan.path).rows()}
    assert reasons == {0.5: "adopted from made", 0.9: "adopted from made", 0.99: None}
    for path in made.glob("runs/*/*/curve.jsonl"):
        assert (plan.path / path.relative_to(made)).read_bytes() == path.read_bytes()


def test_runs_of_other_settings_are_left(tmp_path, made):
    taken, left, _ = adopt(planned(tmp_path / "s", budget=200), made)
    assert (taken, len(left)) == (0, 4)
    assert "budget: 100 -> 200" in left[0]


def test_runs_of_another_number_of_processes_are_left(tmp_path):
    """They have another batch."""
    twin = experiment_target("resnet-digits", 4)
    key = twin.with_spec(base_of(twin).at(0.9, 1))
    run = RunFolder.start(tmp_path / "from/runs" / key.folder, key, {"processes": 2})
    run.log(4, val_loss=1.0)
    run.finish("finished", 1.0)
    plans = {}
    for processes in (1, 2):
        target = replace(twin, processes=processes)
        plans[processes] = Plan(tmp_path / str(processes), [target], Grid(betas=(0.9,), seeds=(1,)))
        plans[processes].write()
    assert adopt(plans[1], tmp_path / "from")[:2] == (0, ["resnet-digits/beta-0.9-seed-1: processes: 2 -> 1"])
    assert adopt(plans[2], tmp_path / "from")[:2] == (1, [])
    assert RunFolder.read(plans[2].run_path(key)).environment == {"processes": 2, "adopted": "from"}


def test_a_long_table_is_taken_at_its_word(tmp_path, made):
    table = tmp_path / "runs.csv"
    with open(table, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["experiment", "beta", "seed", "budget", "step", "val_loss", "train_loss"])
        for path in sorted(made.glob("runs/*/*")):
            run = RunFolder.read(path)
            for point in run.points():
                row = [run.key.beta, run.key.seed, 100, point.step, repr(point.val_loss), point.train_loss]
                rows.writerow(["mine", *row])
    plan = planned(tmp_path / "s", name="mine")
    assert adopt(plan, table)[:2] == (4, [])
    assert losses(plan.path) == losses(made)
    assert work(plan.path, quiet=True) is None
    longer = planned(tmp_path / "t", name="mine", budget=200)
    taken, left, _ = adopt(longer, table)
    assert (taken, left[0]) == (0, "beta 0.5, seed 1: it ends at step 100, and the plan's runs at 200")


def test_a_table_without_curves_is_refused(tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("experiment,beta,seed,min_val_loss\nmine,0.5,1,2.0\nmine,0.9,1,1.0\n")
    with pytest.raises(ValueError, match="a run is adopted with its curve"):
        adopt(planned(tmp_path / "s", name="mine"), table)


def test_a_log_is_taken_where_it_says_its_beta(tmp_path):
    pytest.importorskip("tensorboard")
    from oneclock.export import export

    identity = RunKey("other", 0.9, 2, 100)
    run = RunFolder.start(tmp_path / "from" / "runs" / identity.folder, identity)
    for step in (50, 100):
        run.log(step, val_loss=1 / step)
    run.finish("finished", 1.0)
    export(tmp_path / "from", "tensorboard", tmp_path / "events")
    plan = planned(tmp_path / "s")
    assert adopt(plan, tmp_path / "events" / "other" / "beta-0.9-seed-2")[:2] == (1, [])
    assert losses(plan.path) == {(0.9, 1): (0.01, 100, 100)}  # a log says no seed: the first that is free
    silent = tmp_path / "log.csv"
    silent.write_text("step,val_loss\n50,1.0\n100,0.5\n")
    with pytest.raises(ValueError, match="does not state the beta"):
        adopt(plan, silent)


def jsonl(path, name, losses):
    rows = [{"beta": 0.9}, *({"step": 25 * (i + 1), name: loss} for i, loss in enumerate(losses))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("name", "losses", "message"),
    [
        ("train_loss", [2.0, 1.5, 1.2, 1.0], "no validation loss"),
        ("loss", [2.0, 1.5, 1.2, 1.0], "no validation loss"),
        ("val_accuracy", [0.1, 0.2, 0.4, 0.5], "higher 'val_accuracy' is better"),
        ("thing", [2.0, 1.5, 1.2, 1.0], "not known"),
    ],
)
def test_a_log_without_a_validation_loss_is_not_adopted(tmp_path, name, losses, message):
    plan = planned(tmp_path / "s")
    with pytest.raises(ValueError, match=message):
        adopt(plan, jsonl(tmp_path / "log.jsonl", name, losses))
    assert not Study.open(plan.path).rows()


def test_a_table_with_placeholders_among_its_losses_is_not_adopted(tmp_path):
    plan, table = planned(tmp_path / "s", name="mine"), tmp_path / "runs.csv"
    rows = [f"mine,0.5,1,{step},{-1 if step < 100 else 2}" for step in range(20, 120, 20)]
    table.write_text("\n".join(["experiment,beta,seed,step,val_loss", *rows]))
    done = adopt(plan, table)
    assert done.taken == 0
    assert "placeholders (-1)" in done.left[0]


def test_what_the_reader_warns_of_stays_with_an_adopted_run(tmp_path):
    plan = planned(tmp_path / "s")
    log = jsonl(tmp_path / "log.jsonl", "val_loss", [2.0, 1.5, 1.2, 1.0])
    log.write_text(log.read_text() + json.dumps({"step": 100, "val_loss": 0.9}) + "\n")
    done = adopt(plan, log)
    assert (done.taken, done.left) == (1, [])
    assert any("more than once" in note for note in done.notes)
    (row,) = Study.open(plan.path).rows()
    assert "more than once" in row.reason


def test_the_command_says_what_it_took(tmp_path, made, capsys):
    from oneclock.cli import main

    line = ["sweep", TARGET, "--budget", "100", "--protocol", "grid", "--betas", "0.5,0.9", "--seeds", "1,2"]
    with pytest.raises(SystemExit) as ended:
        main([*line, "--out", str(tmp_path / "s"), "--adopt", str(made), "--in-process", "--no-report"])
    assert ended.value.code in (0, None)
    out = capsys.readouterr().out
    assert f"4 runs were adopted from {made}, 0 left there" in out
    assert "4 runs have ended; all 4 runs of the grid have ended" in out


def test_in_python_what_was_adopted_is_not_trained(tmp_path, made, monkeypatch, capsys):
    monkeypatch.setenv("COMPLETED", str(tmp_path / "completed"))
    asked = {"protocol": "grid", "betas": (*BETAS, 0.99), "seeds": SEEDS, "where": Execution(in_process=True)}
    study = run_sweep(TARGET, 100, tmp_path / "s", adopt=made, **asked)
    assert f"4 runs were adopted from {made}, 0 left there\n" in capsys.readouterr().out
    trained = sorted(Path(line).name for line in (tmp_path / "completed").read_text().split())
    assert trained == ["beta-0.99-seed-1", "beta-0.99-seed-2"]
    assert {row.reason for row in study.rows()} == {"adopted from made", None}
    again = run_sweep(TARGET, 100, tmp_path / "t", adopt=[made, study.path], quiet=True, **asked)
    assert capsys.readouterr().out == ""
    assert losses(again.path) == losses(study.path)
    assert len((tmp_path / "completed").read_text().split()) == 2
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        run_sweep(TARGET, 100, tmp_path / "u", adopt="nowhere", **asked)
