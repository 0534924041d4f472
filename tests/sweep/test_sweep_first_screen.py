"""What a person sees of a plan before it runs, and of a run that failed: pairs, betas, reasons, help."""

import json
import os
import sys

import pytest

from oneclock.cli import main
from oneclock.study.records import Run
from oneclock.sweep import Grid, Plan, Where
from oneclock.sweep.cells import Cell
from oneclock.sweep.drive import plan_in_words
from oneclock.sweep.targets import target_from

PAIRS = ((0.9, 0.999), (0.9, 0.95))


@pytest.fixture
def said(capsys, tmp_path):
    """What a command says; `s` is a folder of its own."""

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        assert (ended.value.code or 0) == code
        found = capsys.readouterr()
        return found.out + found.err

    return run


@pytest.mark.parametrize(
    ("target", "runs", "pairs"),
    [
        (["vit-digits"], 29, True),
        (["vit-digits", "--no-arms"], 23, False),
        (["vit-digits", "--arms", "0.9/0.98"], 26, False),
        (["--command", "train {beta1} {beta2} {seed}", "--budget", "10"], 29, True),
        (["--command", "train {beta} {seed}", "--budget", "10"], 23, False),
    ],
)
def test_the_usual_pairs_are_arms_by_default_and_counted(target, runs, pairs, said, tmp_path):
    text = said("sweep", *target, "--dry-run", "--out", tmp_path / "s")
    assert f"at most {runs} to go" in text
    assert ("pairs 0.9/0.999, 0.9/0.95" in text) == pairs


def test_a_function_gets_pairs_only_where_they_are_given(said, tmp_path):
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return 1.0\n")
    line = ["sweep", f"{tmp_path}/mine.py:train", "--budget", "5", "--dry-run", "--out", tmp_path / "s"]
    assert "at most 23 to go" in said(*line)
    assert "at most 29 to go" in said(*line, "--arms", "0.9/0.999,0.9/0.95")


def test_a_study_keeps_the_arms_it_has(said, tmp_path):
    line = ["sweep", "resnet-digits", "--budget", "2", "--set", "evaluation.every=1", "--betas", "0.9", "--seeds", "1"]
    line += ["--in-process", "--no-report", "--out", tmp_path / "s"]
    said(*line, "--no-arms")
    assert "0 to go" not in said(*line)
    assert Plan.read(tmp_path / "s").protocol.arms == ()


def test_a_dry_run_lists_the_betas(said, tmp_path):
    text = said("sweep", "vit-digits", "--betas", "0.5,0.9", "--dry-run", "--out", tmp_path / "s")
    assert "betas 0.5, 0.9; pairs" in text


def test_arms_and_no_arms_exclude_each_other(said, tmp_path):
    line = ["sweep", "vit-digits", "--arms", "0.9/0.98", "--no-arms", "--out", tmp_path / "s"]
    assert "not both" in said(*line, code=2)


def test_status_says_why_a_run_failed_and_where_its_output_lies(said, tmp_path):
    command = f"{sys.executable} -c \"import sys; sys.exit('no luck')\" {{beta}}"
    line = ["sweep", "--command", command, "--budget", "5", "--betas", "0.9", "--retries", "0", "--jobs", "1"]
    said(*line, "--out", tmp_path / "s", code=1)
    text = said("status", tmp_path / "s")
    output = tmp_path / "s/runs/command/beta-0.9-seed-1/output.log"
    assert "the command ended with exit code 1" in text
    assert f"its output: {output}" in text
    assert "no luck" in output.read_text()
    assert "command: 1 run has ended; done: " in text
    assert "no best beta: no run with one beta has left a loss" in text
    (told,) = json.loads(said("status", tmp_path / "s", "--json"))["runs"]
    assert told["output"] == str(output)
    assert "exit code 1" in told["reason"]


def test_retry_needs_nothing_but_the_study(said, tmp_path):
    script, ready = tmp_path / "train.py", tmp_path / "ready"
    script.write_text(f"import os\nassert os.path.exists({str(ready)!r})\nprint('step 5: val loss 1.0')\n")
    line = ["sweep", "--command", f"{sys.executable} {script} {{beta}}", "--budget", "5", "--betas", "0.9"]
    line += ["--retries", "0", "--jobs", "1", "--no-report", "--out", tmp_path / "s"]
    said(*line, code=1)
    ready.touch()
    assert "1 failed runs will be tried again" in said("retry", tmp_path / "s")
    said(*line)
    assert [row.state for row in Plan.read(tmp_path / "s").rows()] == ["finished"]


def test_the_time_left_is_that_of_the_workers_that_will_run(tmp_path):
    plan = Plan(tmp_path / "s", [target_from(lambda beta, seed, run: 1.0, 10)], Grid(betas=(0.5, 0.9), seeds=(1,)))
    plan.write()
    identity = plan.targets[0].identity(Cell(0.5, 1))
    run = Run.start(tmp_path / "s" / "runs" / identity.folder, identity)
    run.log(10, val_loss=1.0)
    run.finish("finished", seconds=60.0)
    plan = Plan.read(tmp_path / "s")
    assert plan_in_words(plan, Where(jobs=2).workers())[-1].endswith("about 30.0 s on 2 workers")
    assert plan_in_words(plan, Where(in_process=True).workers())[-1].endswith("about 1 min 00 s on one worker")
    assert Where().workers() == Where(jobs=len(os.sched_getaffinity(0))).workers()


@pytest.mark.parametrize("command", ["sweep", "analyse", "report", "train", "status"])
def test_help_has_no_type_behind_flags(command, said):
    assert "bool" not in said(command, "--help")
