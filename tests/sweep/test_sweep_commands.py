"""A sweep of a command: its curve from what it prints, and an end at once where there is none to be had."""

import shlex
import subprocess
import sys
import time

import pytest

from oneclock.runs.folder import RunFolder
from oneclock.runs.store import Study

PRINTS = """
import sys, time
beta = float(sys.argv[1])
print("compiling ...")
for step in (10, 20):
    print(f"step {step}: train loss 1.0, val loss {3 - beta * step / 20}", flush=True)
    time.sleep(float(sys.argv[2]) if step == 10 and len(sys.argv) > 2 else 0)
"""


def swept(folder, script, *more, arguments="{beta}", budget="20", jobs="1"):
    (folder / "script.py").write_text(script)
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(folder / 'script.py'))} {arguments}"
    line = [sys.executable, "-m", "oneclock", "sweep", "--command", command, "--budget", budget, "--no-report"]
    line += ["--out", folder / "s", "--retries", "0", "--jobs", jobs, *more]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("where", [(), ("--in-process",)])
def test_a_script_that_only_prints_leaves_its_curve(tmp_path, where):
    code, out, err = told(swept(tmp_path, PRINTS, "--betas", "0.5,0.9", *where))
    assert code == 0, err
    assert [(row.beta, row.best_loss, row.best_step) for row in Study.open(tmp_path / "s").rows()] == [
        (0.5, 2.5, 20),
        (0.9, 2.1, 20),
    ]
    assert "the command has no {seed}: one run of each beta" in out


def test_the_output_is_read_while_the_run_goes_on(tmp_path):
    process = swept(tmp_path, PRINTS, "--betas", "0.5", arguments="{beta} 7")
    path, seen = tmp_path / "s/runs/command/beta-0.5-seed-1", []
    while process.poll() is None:
        if not seen and (path / "curve.jsonl").exists() and not (path / "result.json").exists():
            seen = [point.step for point in RunFolder.read(path).points()]
        time.sleep(0.1)
    assert told(process)[0] == 0
    assert seen[:1] == [10]


def test_a_first_run_without_a_curve_stops_the_sweep(tmp_path):
    code, _, err = told(swept(tmp_path, "print('all is well')", "--betas", "0.5,0.9,0.99"))
    assert code == 2
    assert err.count("\n") == 1
    assert "the sweep stops here" in err
    assert "print or log a step and a val_loss" in err
    assert len(Study.open(tmp_path / "s").failed()) == 1


def test_a_first_run_that_diverges_at_once_stops_nothing(tmp_path):
    script = PRINTS.replace("{3 - beta * step / 20}", "{'nan' if beta == 0.5 else 2.0}")
    code, _, err = told(swept(tmp_path, script, "--betas", "0.5,0.9"))
    assert code == 0, err
    assert [row.status for row in Study.open(tmp_path / "s").rows()] == ["diverged", "finished"]


def test_a_curve_a_little_beyond_the_budget_is_said(tmp_path):
    code, out, err = told(swept(tmp_path, PRINTS, "--betas", "0.5", budget="19"))
    assert code == 0, err
    assert "its curve goes on to step 20, beyond the budget of 19" in out


def test_a_training_loss_alone_is_said(tmp_path):
    code, out, err = told(swept(tmp_path, PRINTS.replace(", val loss", ", speed"), "--betas", "0.5"))
    assert code == 0, err
    assert "no validation loss was found: 'train_loss'" in out


def test_a_named_log_that_is_missing_is_not_replaced_by_the_output(tmp_path):
    code, _, err = told(swept(tmp_path, PRINTS, "--betas", "0.5", "--log", "{folder}/log.csv"))
    assert code == 2
    assert "log.csv does not exist" in err


def test_several_seeds_without_a_place_for_them_are_refused(tmp_path):
    code, _, err = told(swept(tmp_path, PRINTS, "--seeds", "1,2"))
    assert (code, err.count("\n")) == (2, 1)
    assert "seeds 1, 2 would repeat one run; add {seed}" in err
    assert not (tmp_path / "s").exists()


def test_arms_with_one_beta_in_the_command_are_refused_at_once(tmp_path):
    code, _, err = told(swept(tmp_path, PRINTS, "--baselines", "0.9/0.999"))
    assert (code, err.count("\n")) == (2, 1)
    assert "give it {beta1} and {beta2}" in err
    assert not (tmp_path / "s").exists()


def test_arms_with_a_function_of_a_float_are_refused_at_once(tmp_path, capsys):
    from oneclock import run_sweep
    from oneclock.cli import main

    (tmp_path / "mine.py").write_text("def train(beta: float, seed, run):\n    return beta\n")
    arguments = ["sweep", f"{tmp_path}/mine.py:train", "--budget", "5", "--baselines", "0.9/0.999"]
    with pytest.raises(SystemExit):
        main([*arguments, "--out", str(tmp_path / "s")])
    assert "takes beta as a float" in capsys.readouterr().err

    def typed(beta: float, seed, run):
        return beta

    with pytest.raises(ValueError, match="takes beta as a float"):
        run_sweep(typed, 5, tmp_path / "t", baselines=[(0.9, 0.999)])


def test_a_script_without_its_function_is_told_what_is_missing(tmp_path, capsys):
    from oneclock.cli import main

    with pytest.raises(SystemExit):
        main(["sweep", "train.py", "--budget", "5", "--out", str(tmp_path / "s")])
    assert "train.py:FUNCTION" in capsys.readouterr().err


def test_a_step_that_is_no_whole_number_is_refused_and_not_cut(tmp_path):
    script = """
import sys
from pathlib import Path
Path(sys.argv[2], "log.csv").write_text("step,val_loss\\n0.5,2.0\\n1.5,1.0\\n")
"""
    log = ("--log", "{folder}/log.csv")
    code, out, err = told(swept(tmp_path, script, "--betas", "0.5", *log, arguments="{beta} {folder}"))
    assert code != 0
    assert "steps are whole numbers" in out + err


def test_workers_elsewhere_are_not_silently_left_without_a_data_folder(tmp_path, capsys):
    from oneclock.cli import main

    for more in (["--plan-only"], ["--cluster", "slurm"]):
        with pytest.raises(SystemExit) as ended:
            main(["sweep", "resnet-digits", "--data-dir", str(tmp_path), "--out", str(tmp_path / "s"), *more])
        assert ended.value.code == 2
        assert "set ONECLOCK_DATA instead" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_an_accuracy_is_not_taken_for_a_loss(tmp_path):
    script = PRINTS.replace("train loss 1.0, val loss", "val_accuracy")
    code, _, err = told(swept(tmp_path, script, "--betas", "0.5,0.9"))
    assert code == 2
    assert "higher 'val_accuracy' is better" in err
    assert len(Study.open(tmp_path / "s").failed()) == 1
