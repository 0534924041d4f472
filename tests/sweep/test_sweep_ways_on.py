"""What stands in a user's way is said early and once, with the way on."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from oneclock import Command, Execution, open_study, run_sweep
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import protocol_from
from oneclock.sweep import Plan
from oneclock.sweep.exec import slurm
from oneclock.sweep.exec.execution import environments
from oneclock.sweep.view import hang_in_words

HERE = Execution(in_process=True)
BROKEN = "def train(beta, seed, run):\n    raise KeyError(f'no layer {beta}')\n"


def oneclock(*words, folder):
    line = [sys.executable, "-m", "oneclock", *map(str, words)]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_the_same_exception_twice_stops_the_sweep_and_fixed_code_goes_on(tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    line = ["sweep", "mine.py:train", "--budget", "5", "--out", "s", "--jobs", "1", "--seeds", "1", "--no-report"]
    done = oneclock(*line, folder=tmp_path)
    assert done.returncode == 2
    assert "stops here" in done.stderr
    assert 'mine.py", line 2' in done.stderr  # the last lines of the traceback, which are the user's
    assert "oneclock/sweep" not in done.stderr
    assert [row.status for row in open_study(tmp_path / "s").rows()].count("failed") == 2
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return beta\n")
    fixed = oneclock(*line, folder=tmp_path)
    assert fixed.returncode == 0, fixed.stderr
    assert {row.status for row in open_study(tmp_path / "s").rows()} == {"finished"}


def test_where_every_run_failed_that_is_the_answer(tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    line = ["sweep", "mine.py:train", "--budget", "5", "--out", "s", "--jobs", "1", "--seeds", "1", "--betas", "0.9"]
    done = oneclock(*line, folder=tmp_path)
    assert "failed (KeyError" in done.stderr
    assert "finish the sweep" not in (done.stdout + done.stderr).lower()
    for command in ("analyse", "report"):
        assert "1 failed: KeyError" in oneclock(command, "s", folder=tmp_path).stderr


def test_losses_below_zero_have_a_best_beta_and_no_percentages(tmp_path):
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return (beta - 0.9) ** 2 - 5\n")
    line = ["sweep", "mine.py:train", "--budget", "5", "--out", "s", "--jobs", "1", "--seeds", "1"]
    done = oneclock(*line, "--betas", "0.5,0.9,0.99", folder=tmp_path)
    assert "best beta 0.9" in done.stdout
    assert "%" not in done.stdout.partition("best beta")[2]
    assert "need losses above 0" in done.stderr


def test_a_try_shows_the_curve_of_one_run_and_leaves_nothing(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import time\ndef train(beta, seed, run):\n    for step in range(10, run.budget, 10):\n"
        "        run.log(step, val_loss=1 / step)\n        time.sleep(0.3)\n"
    )
    done = oneclock("sweep", "mine.py:train", "--budget", "100k", "--try", "--out", "s", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step 10: val_loss 0.1" in done.stdout
    assert not (tmp_path / "s").exists()
    (tmp_path / "mine.py").write_text(BROKEN)
    failed = oneclock("sweep", "mine.py:train", "--budget", "100", "--try", folder=tmp_path)
    assert failed.returncode == 1
    assert "KeyError" in failed.stderr


def test_a_failed_command_shows_what_it_printed_and_no_line_of_ours(tmp_path):
    (tmp_path / "mine.sh").write_text("echo reading the data\necho 'no data at /x' >&2\nexit 3\n")
    line = ["sweep", "--command", "sh mine.sh {beta} {seed}", "--budget", "5", "--out", "s", "--jobs", "1"]
    done = oneclock(*line, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == ["  reading the data", "  no data at /x"]


def test_a_try_of_a_quick_run_shows_three_evaluations(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def train(beta, seed, run):\n    for step in range(10, 1001, 10):\n        run.log(step, val_loss=1 / step)\n"
    )
    done = oneclock("sweep", "mine.py:train", "--budget", "1000", "--try", folder=tmp_path)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()][1:4] == ["step 10", "step 20", "step 30"]
    assert "step 40" not in done.stdout


def test_a_silent_run_is_called_a_hang_after_ten_usual_intervals(tmp_path):
    key = RunKey("mine", 0.9, 1, 100)
    run = RunFolder.start(tmp_path / "run", key)
    run.log(10, val_loss=1.0)
    run.log(20, val_loss=1.0)
    now = time.time()
    os.utime(tmp_path / "run/run.json", (now - 700, now - 700))
    os.utime(tmp_path / "run/curve.jsonl", (now - 600, now - 600))
    assert "may hang" in hang_in_words(tmp_path / "run")
    os.utime(tmp_path / "run/curve.jsonl", (now - 400, now - 400))
    assert hang_in_words(tmp_path / "run") is None


@pytest.mark.parametrize(("folder", "option"), [("s", "--mem=1G\necho x"), ("a\necho x", "--mem=1G")])
def test_a_newline_never_becomes_a_line_of_the_script(tmp_path, folder, option):
    with pytest.raises(ValueError, match="one line of printable text"):
        slurm.script(tmp_path / folder, 1, 1, [option])


def test_a_controller_that_does_not_answer_does_not_lose_the_job(tmp_path, monkeypatch):
    for name, text in {"squeue": "exit 1", "scontrol": f"echo $@ > {tmp_path}/asked"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(slurm, "PAUSE", 0.01)
    assert slurm.queue_again()
    assert (tmp_path / "asked").read_text() == "requeue 7\n"
    (tmp_path / "asked").unlink()
    assert not slurm.queue_again(terminated=True)  # someone may have cancelled it


def test_more_jobs_than_gpus_is_said(monkeypatch):
    monkeypatch.setattr("oneclock.sweep.exec.execution._gpus", lambda: ["0"])
    assert "1 of the 4 jobs" in Execution(jobs=4).note()
    assert "gpus_per_run 0.25" in Execution(jobs=4).note()
    assert Execution(jobs=4, gpus_per_run=0.25).note() is None
    assert len(environments(8, ["0"], jobs=4, gpus_per_run=0.25)) == 4


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"budget": "20k"}, "whole number of steps, such as 20_000, got '20k'"),
        ({"betas": 0.9}, "betas must be a list"),
        ({"seeds": 3}, "seeds must be a list"),
        ({"baselines": [0.9]}, "baselines must be"),
        ({"name": "x" * 300}, "300 letters"),
        ({"processes": "2"}, "processes must be a whole number"),
        ({"where": "local"}, "where must be an Execution"),
        ({"train": 3}, "must be a function"),
        ({"train": "vit-digits"}, "experiment_target"),
        ({"budget": None}, "give the budget of a run in steps"),
        ({"out": 3}, "out must be a folder, got 3"),
        ({"name": 3}, "name must be text"),
        ({"observers": 3}, "observers must be a list"),
        ({"observers": [3]}, "observers must be a list"),
    ],
)
def test_bad_values_are_one_clear_line_without_options_of_the_command_line(tmp_path, values, words):
    asked = {"train": lambda beta, seed, run: 1.0, "budget": 10, "out": tmp_path / "s"} | values
    with pytest.raises(ValueError, match=words) as raised:
        run_sweep(**{"where": HERE, "quiet": True} | asked)
    assert "--" not in str(raised.value)
    assert not (tmp_path / "s").exists()


def test_numbers_of_numpy_are_plain_numbers(tmp_path):
    values = {"betas": np.array([0.5, 0.9]), "seeds": np.arange(1, 3), "protocol": "grid", "name": "mine"}
    study = run_sweep(lambda beta, seed, run: 1 + beta, np.int64(10), tmp_path / "s", **values, where=HERE, quiet=True)
    assert sorted(path.name for path in (tmp_path / "s/runs/mine").iterdir())[0] == "beta-0.5-seed-1"
    assert len(study.rows()) == 4


def test_a_different_study_is_described_in_words(tmp_path):
    def sweep(**more):
        return run_sweep(lambda beta, seed, run: 1.0, 10, tmp_path, seeds=[1], where=HERE, quiet=True, **more)

    sweep(betas=[0.5, 0.9])
    with pytest.raises(ValueError, match=r"betas are \[0.5, 0.9\] there and \[0.5\] here"):
        sweep(betas=[0.5])
    with pytest.raises(ValueError, match="protocol is paper there and adaptive here"):
        sweep(betas=[0.5, 0.9], protocol="adaptive")


def test_a_finished_adaptive_study_is_extended_by_a_beta_far_away(tmp_path):
    def sweep(**more):
        return run_sweep(train, 6000, tmp_path, seeds=[1], protocol="adaptive", where=HERE, quiet=True, **more)

    def train(beta, seed, run):
        return 1 + (beta - 0.9) ** 2

    before = {row.beta for row in sweep().rows()}
    after = {row.beta for row in sweep(betas=[0.05], extend=True).rows()}
    assert after == before | {0.05}


def test_a_command_and_a_dry_run_from_python(tmp_path, capsys):
    command = Command(f"{sys.executable} -c \"print('step 5: val_loss', {{beta}}{{seed}})\"", 5)
    run_sweep(command, out=tmp_path / "s", betas=[0.5, 0.9], seeds=[1], dry_run=True)
    assert "in all at most 2 runs" in capsys.readouterr().out
    assert not (tmp_path / "s").exists()
    study = run_sweep(command, out=tmp_path / "s", betas=[0.5, 0.9], seeds=[1], where=HERE, quiet=True)
    assert [row.best_loss for row in study.rows()] == [0.51, 0.91]


def test_older_names_of_a_protocol_are_read():
    old = {"kind": "grid", "betas": [0.9], "arms": [[0.9, 0.999]], "rates": [1.0], "again": [4], "seeds": [1]}
    assert protocol_from(**old).baselines == ((0.9, 0.999),)


def test_metrics_are_kept_and_observers_see_them_as_they_come(tmp_path):
    seen = []

    class Observer:
        def evaluated(self, key, step, values):
            seen.append((key.beta, step, values))

        def ended(self, record):
            seen.append((record.beta, record.status))

    def train(beta, seed, run):
        run.log(5, val_loss=2.0, accuracy=0.5)
        run.log(10, val_loss=1.0, accuracy=0.75)

    run_sweep(train, 10, tmp_path, betas=[0.9], seeds=[1], where=HERE, observers=[Observer()], quiet=True)
    assert seen == [
        (0.9, 5, {"val_loss": 2.0, "accuracy": 0.5}),
        (0.9, 10, {"val_loss": 1.0, "accuracy": 0.75}),
        (0.9, "finished"),
    ]


def test_tensorboard_shows_a_sweep(tmp_path):
    pytest.importorskip("tensorboard")
    from oneclock import read_log
    from oneclock.export.live import TensorBoard

    def train(beta, seed, run):
        run.log(5, val_loss=2.0)
        run.log(10, val_loss=1.0 + beta)

    watched = {"where": HERE, "observers": [TensorBoard(tmp_path / "events")], "quiet": True}
    run_sweep(train, 10, tmp_path / "s", name="mine", betas=[0.5], seeds=[1], **watched)
    (curve,) = read_log(tmp_path / "events").curves
    assert [*curve.losses] == [2.0, 1.5]


def test_a_function_that_says_so_gets_the_default_baselines(tmp_path):
    def pairs(beta: float | tuple[float, float], seed, run):
        return 1.0

    def one(beta, seed, run):
        return 1.0

    from oneclock.sweep.api import make_plan, target_of

    assert make_plan(tmp_path, [target_of(pairs, 5)], "paper", {}).protocol.baselines == ((0.9, 0.999), (0.9, 0.95))
    assert make_plan(tmp_path, [target_of(one, 5)], "paper", {}).protocol.baselines == ()


def test_the_plan_is_checked_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(Plan, "_check_against", lambda self, before: calls.append(1))
    for _ in range(2):
        run_sweep(lambda beta, seed, run: 1.0, 5, tmp_path, betas=[0.9], seeds=[1], where=HERE, quiet=True)
    assert len(calls) == 1


def test_a_child_that_returns_from_the_function_records_nothing(tmp_path):
    def train(beta, seed, run):
        run.log(5, val_loss=2.0)
        if os.fork():
            os.wait()
            run.log(10, val_loss=1.0)

    study = run_sweep(train, 10, tmp_path, betas=[0.9], seeds=[1], where=Execution(jobs=1), quiet=True)
    assert [(row.status, row.best_loss) for row in study.rows()] == [("finished", 1.0)]


def test_one_analysis_makes_the_last_lines_and_the_report(tmp_path, monkeypatch, capsys):
    from oneclock.cli import main
    from oneclock.report import folder

    calls = []
    plain = folder.analyse
    monkeypatch.setattr(folder, "analyse", lambda *words, **more: calls.append(1) or plain(*words, **more))
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return 1 + (beta - 0.9) ** 2\n")
    line = ["sweep", f"{tmp_path}/mine.py:train", "--budget", "50", "--betas", "0.5,0.9,0.99", "--in-process"]
    with pytest.raises(SystemExit):
        main([*line, "--out", str(tmp_path / "s")])
    assert str(tmp_path / "s/report/report.html") in capsys.readouterr().out.replace("\n", "")
    assert len(calls) == 1


@pytest.mark.parametrize(
    "values", [{"jobs": "4"}, {"timeout": "1h"}, {"threads": 1.5}, {"grace": -1}, {"retries": None}], ids=str
)
def test_bad_values_of_an_execution_are_named(values):
    with pytest.raises(ValueError, match=next(iter(values))):
        Execution(**values)
