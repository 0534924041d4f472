"""What a person sees of a plan before it runs, and of a run that failed: pairs, betas, reasons, help."""

import json
import os
import sys

import pytest

from oneclock.cli import main
from oneclock.runs.folder import RunFolder
from oneclock.sweep import Command, Execution, Grid, Plan
from oneclock.sweep.api import plan_in_words, target_of
from oneclock.sweep.plan import base_of

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
        (["vit-digits", "--baselines", "none"], 23, False),
        (["vit-digits", "--baselines", "0.9/0.98"], 26, False),
        (["--command", "train {beta1} {beta2} {seed}", "--budget", "10"], 29, True),
        (["--command", "train {beta} {seed}", "--budget", "10"], 23, False),
    ],
)
def test_the_usual_pairs_are_arms_by_default_and_counted(target, runs, pairs, said, tmp_path):
    text = said("sweep", *target, "--dry-run", "--out", tmp_path / "s")
    assert max(map(len, text.splitlines())) <= 80
    text = " ".join(text.split())
    assert f"at most {runs} to go" in text
    assert ("baselines 0.9/0.999, 0.9/0.95" in text) == pairs


def test_a_function_gets_pairs_only_where_they_are_given(said, tmp_path):
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return 1.0\n")
    line = ["sweep", f"{tmp_path}/mine.py:train", "--budget", "5", "--dry-run", "--out", tmp_path / "s"]
    assert "at most 23 to go" in said(*line)
    assert "at most 29 to go" in said(*line, "--baselines", "0.9/0.999,0.9/0.95")


def test_a_study_keeps_the_baselines_it_has(said, tmp_path):
    line = ["sweep", "resnet-digits", "--budget", "2", "--set", "evaluation.every=1", "--betas", "0.9", "--seeds", "1"]
    line += ["--in-process", "--no-report", "--out", tmp_path / "s"]
    said(*line, "--baselines", "none")
    assert "0 to go" not in said(*line)
    assert Plan.read(tmp_path / "s").protocol.baselines == ()


def test_a_dry_run_lists_the_betas(said, tmp_path):
    text = said("sweep", "vit-digits", "--betas", "0.5,0.9", "--dry-run", "--out", tmp_path / "s")
    assert "betas 0.5, 0.9; baselines" in text


def test_an_option_that_is_given_twice_counts_in_full(said, tmp_path):
    lists = {"--betas": ("0.5,0.9", "0.99"), "--seeds": ("1", "2"), "--baselines": ("0.9/0.999", "0.9/0.95")}
    words = [word for option, texts in lists.items() for text in texts for word in (option, text)]
    words += ["--protocol", "grid", "--learning-rates", "1,2", "--learning-rates", "3"]
    text = " ".join(said("sweep", "vit-digits", *words, "--dry-run", "--out", tmp_path / "s").split())
    assert "betas 0.5, 0.9, 0.99; learning rates 1, 2, 3; baselines 0.9/0.999, 0.9/0.95" in text
    assert "; seeds 1, 2 in all" in text
    assert "at most 30 to go" in text


def test_status_says_why_a_run_failed_and_where_its_output_lies(said, tmp_path):
    command = f"{sys.executable} -c \"import sys; sys.exit('no luck')\" {{beta}}"
    line = ["sweep", "--command", command, "--budget", "5", "--betas", "0.9", "--retries", "0", "--jobs", "1"]
    said(*line, "--out", tmp_path / "s", code=1)
    text = said("status", tmp_path / "s")
    first, second, *runs, last = text.splitlines()  # how far it is and who works on it, the target, the runs
    assert first == "1 run has ended, 1 failed; no sweep is running"
    assert second.startswith("command: no best beta")
    assert any("failed" in line for line in runs)
    assert last == f"Next: oneclock retry {tmp_path / 's'}"
    output = tmp_path / "s/runs/command/beta-0.9-seed-1/output.log"
    assert "the command ended with exit code 1" in text
    assert f"its output: {output}" in text
    assert "no luck" in output.read_text()
    assert "no best beta: no run with one beta has finished" in text
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
    assert "1 failed run will be tried again" in said("retry", tmp_path / "s")
    said(*line)
    assert [row.status for row in Plan.read(tmp_path / "s").rows()] == ["finished"]
    assert "has no failed run: nothing to try again" in said("retry", tmp_path / "s")
    assert "0 runs of together" not in said(*line)


def test_the_time_left_is_that_of_the_workers_that_will_run(tmp_path):
    plan = Plan(tmp_path / "s", [target_of(lambda beta, seed, run: 1.0, 10)], Grid(betas=(0.5, 0.9), seeds=(1,)))
    plan.write()
    identity = plan.targets[0].with_spec(base_of(plan.targets[0]).at(0.5, 1))
    run = RunFolder.start(tmp_path / "s" / "runs" / identity.folder, identity)
    run.log(10, val_loss=1.0)
    run.finish("finished", seconds=60.0)
    plan = Plan.read(tmp_path / "s")
    assert plan_in_words(plan, Execution(jobs=2).workers())[-1].endswith("about 30.0 s on 2 workers")
    assert plan_in_words(plan, Execution(in_process=True).workers())[-1].endswith("about 1 min 00 s on one worker")
    assert Execution().workers() == Execution(jobs=len(os.sched_getaffinity(0))).workers()


@pytest.mark.parametrize("command", ["sweep", "analyse", "report", "lab train", "status"])
def test_help_has_no_type_behind_flags(command, said):
    assert "bool" not in said(*command.split(), "--help")


def test_a_placeholder_with_a_typo_is_refused_before_the_first_run(said, tmp_path):
    line = [
        "sweep",
        "--command",
        "python train.py --beta {beta} --seed {sede}",
        "--budget",
        "5",
        "--out",
        tmp_path / "s",
    ]
    assert "did you mean {seed}?" in said(*line, "--dry-run", code=2)
    Command("echo {beta} ${seeds} {out}", 10)  # a variable of the shell, and a word of nobody


def test_extending_a_folder_without_a_study_says_so(said, tmp_path):
    assert "holds no study to extend" in said("sweep", "--out", tmp_path / "s", "--extend", "--betas", "0.9", code=2)
