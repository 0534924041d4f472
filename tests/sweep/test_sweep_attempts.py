"""What counts as the same attempt, and as a complete run: only the last attempt's curve, and only a whole budget."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from oneclock import Execution, open_study, run_sweep

DIES_ONCE = """
import os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[2])
first = not (folder / "tried").exists()
(folder / "tried").touch()
for step in (10, 20) if first else (10, 20, 30, 40):
    print(f"step {step}: val_loss {0.001 if first else 1.0 + step / 100}", flush=True)
if first:
    END
"""


def sweep(folder, script, *more, budget=40, betas="0.5", arguments="{beta} {folder} {seed}"):
    (folder / "script.py").write_text(script)
    command = f"{shlex.quote(sys.executable)} {folder}/script.py {arguments}"
    line = [sys.executable, "-m", "oneclock", "sweep", "--command", command, "--budget", str(budget), "--no-report"]
    line += ["--out", folder / "s", "--jobs", "1", "--betas", betas, "--seeds", "1", *more]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)


def rows(folder):
    return open_study(folder / "s").rows()


def test_a_failed_attempts_losses_do_not_count_in_the_next(tmp_path):
    done = sweep(tmp_path, DIES_ONCE.replace("END", "os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == 0, done.stderr
    (row,) = rows(tmp_path)
    assert (row.status, row.best_loss, row.best_step) == ("finished", 1.1, 10)
    (run,) = (tmp_path / "s/runs/command").iterdir()
    assert "0.001" in (run / "output-1.log").read_text()
    assert "0.001" not in (run / "output.log").read_text()


def test_a_retry_after_an_error_reads_its_own_output_alone(tmp_path):
    script = DIES_ONCE.replace("END", "raise ValueError('no data')")
    assert sweep(tmp_path, script).returncode == 1
    assert rows(tmp_path)[0].status == "failed"
    subprocess.run([sys.executable, "-m", "oneclock", "retry", tmp_path / "s"], check=True, capture_output=True)
    assert sweep(tmp_path, script).returncode == 0
    assert rows(tmp_path)[0].best_loss == 1.1


@pytest.mark.parametrize("folder", [False, True])
def test_a_log_that_was_there_before_the_run_is_not_its_log(tmp_path, folder):
    old = tmp_path / "logs/0.5/log.csv"
    old.parent.mkdir(parents=True)
    old.write_text("step,val_loss\n20,0.001\n40,0.001\n")
    os.utime(old, (time.time() - 60,) * 2)
    log = "logs/{beta}" if folder else "logs/{beta}/log.csv"
    more = ["--log", f"{tmp_path}/{log}"]
    assert sweep(tmp_path, "", *more).returncode == 2
    assert (rows(tmp_path)[0].status, rows(tmp_path)[0].best_loss) == ("failed", None)
    subprocess.run([sys.executable, "-m", "oneclock", "retry", tmp_path / "s"], check=True, capture_output=True)
    assert sweep(tmp_path, "", *more).returncode == 2  # nor is it that of the next attempt
    subprocess.run([sys.executable, "-m", "oneclock", "retry", tmp_path / "s"], check=True, capture_output=True)
    new = f"open({str(old)!r}, 'w').write('step,val_loss\\n20,1.5\\n40,1.2\\n')"
    assert sweep(tmp_path, new, *more).returncode == 0
    assert rows(tmp_path)[0].best_loss == 1.2


def test_an_attempt_that_goes_on_from_a_checkpoint_keeps_what_came_before(tmp_path):
    script = """
import os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[2])
steps = (30, 40) if (folder / "tried").exists() else (10, 20)
print("\\n".join(f"step {step}: val_loss {step / 10}" for step in steps), flush=True)
if steps[0] == 10:
    (folder / "tried").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert sweep(tmp_path, script).returncode == 0
    (row,) = rows(tmp_path)
    assert (row.best_loss, row.best_step, row.steps) == (1.0, 10, 40)


LATER = """
import os, pathlib, signal, sys
folder, tried = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[0] + ".tried")
first = not tried.exists()
tried.touch()
MARK
for step in (10, 20) if first else STEPS:
    print(f"step {step}: val_loss {0.001 if first else 1.5}", flush=True)
if first:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("mark", "steps"), [("", "(30, 60, 90)"), ("(folder / 'vocabulary').touch()", "(50, 75, 100)")]
)
def test_a_retry_from_zero_that_evaluates_later_counts_alone(tmp_path, mark, steps):
    script = LATER.replace("MARK", mark).replace("STEPS", steps)
    assert sweep(tmp_path, script, budget=100).returncode == 0
    (row,) = rows(tmp_path)
    assert (row.status, row.best_loss) == ("finished", 1.5)
    assert "up to step 20, do not count" in row.reason


@pytest.mark.parametrize(
    ("first", "files", "best"), [(30, True, 0.001), (30, False, 1.5), (15, True, 1.5), (70, True, 1.5)]
)
def test_a_function_tried_again_goes_on_only_where_it_can_have(tmp_path, first, files, best):
    tried = tmp_path / "tried"

    def train(beta, seed, run):
        if not tried.exists():
            tried.touch()
            if files:
                (run.folder / "last.pt").touch()
            for step in (10, 20):
                run.log(step, val_loss=0.001)
            os.kill(os.getpid(), signal.SIGKILL)
        for step in range(first, 101, 10):
            run.log(step, val_loss=1.5)

    study = run_sweep(train, 100, tmp_path / "s", betas=[0.5], seeds=[1], where=Execution(jobs=1), quiet=True)
    (row,) = study.rows()
    assert (row.status, row.best_loss) == ("finished", best)
    assert "of an earlier attempt, up to step" in row.reason


def test_a_log_that_two_attempts_wrote_says_so(tmp_path):
    script = """
import os, pathlib, signal, sys
log = pathlib.Path(sys.argv[2]) / "log.csv"
first = not log.exists()
with open(log, "a") as file:
    file.write("step,val_loss\\n10,0.001\\n20,0.001\\n" if first else "30,1.5\\n60,1.5\\n90,1.5\\n")
if first:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert sweep(tmp_path, script, budget=100).returncode == 0
    (row,) = rows(tmp_path)
    assert (row.status, row.best_loss) == ("finished", 0.001)
    assert "earlier attempt" in row.reason


@pytest.mark.parametrize(("last", "budget"), [(20, 100), (100, 20)])
def test_a_command_that_trains_another_length_fails_and_says_so(tmp_path, last, budget):
    script = f"for step in range(10, {last + 1}, 10):\n    print(f'step {{step}}: val_loss 1.0')\n"
    done = sweep(tmp_path, script, budget=budget, arguments=f"{{beta}} {{seed}} | tee {tmp_path}/out.txt")
    assert done.returncode != 0
    (row,) = rows(tmp_path)
    assert row.status == "failed"
    assert row.reason.startswith("it did not train its budget")
    assert f"step {last}" in row.reason


def test_an_early_stop_that_is_intended_counts(tmp_path):
    script = "for step in (10, 20):\n    print(f'step {step}: val_loss 1.0')\n"
    done = sweep(tmp_path, script, "--allow-early-stop", budget=100)
    assert done.returncode == 0, done.stderr
    assert [row.status for row in rows(tmp_path)] == ["finished"]


def test_a_function_that_returns_early_fails_unless_it_says_so(tmp_path):
    def train(beta, seed, run):
        for step in (10, 20):
            run.log(step, val_loss=1 + beta)
        if beta == 0.9:
            run.stop_early("no improvement for 10 steps")

    study = run_sweep(
        train, 100, tmp_path / "s", betas=[0.5, 0.9], seeds=[1], where=Execution(in_process=True), quiet=True
    )
    short, stopped = study.rows()
    assert (short.status, stopped.status) == ("failed", "finished")
    assert "step 20 of 100" in short.reason
    assert "run.stop_early" in short.reason
    assert "no improvement for 10 steps" in stopped.reason


def test_a_function_that_stops_to_validate_fails(tmp_path):
    def train(beta, seed, run):
        run.log(10, val_loss=1.0)
        for step in range(20, 110, 10):
            run.log(step, train_loss=1.0)

    study = run_sweep(train, 100, tmp_path / "s", betas=[0.9], seeds=[1], where=Execution(in_process=True), quiet=True)
    assert [row.status for row in study.rows()] == ["failed"]


@pytest.mark.parametrize(
    "steps", [range(100), range(0, 100, 10), (25, 50, 75), (99,), (1, 2, 4, 8, 16, 32, 64), (100,)]
)
def test_a_run_that_trained_its_budget_is_complete_whatever_its_evaluations(tmp_path, steps):
    def train(beta, seed, run):
        for step in steps:
            run.log(step, val_loss=1.0)

    study = run_sweep(train, 100, tmp_path / "s", betas=[0.9], seeds=[1], where=Execution(in_process=True), quiet=True)
    assert [row.status for row in study.rows()] == ["finished"]


def test_exceptions_are_not_tried_again_and_deaths_are(tmp_path):
    def train(beta, seed, run):
        with open(run.folder / "tries", "a") as file:
            file.write("x")
        if beta == 0.5:
            raise KeyError("layer")
        if beta == 0.9 and len((run.folder / "tries").read_text()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        run.log(run.budget, val_loss=1.0)

    study = run_sweep(train, 10, tmp_path / "s", betas=[0.5, 0.9, 0.99], seeds=[1], where=Execution(jobs=1), quiet=True)
    tries = {path.parents[1].name: len(path.read_text()) for path in tmp_path.glob("s/runs/*/*/files/tries")}
    assert tries == {"beta-0.5-seed-1": 1, "beta-0.9-seed-1": 3, "beta-0.99-seed-1": 1}
    assert [row.status for row in study.rows()] == ["failed", "finished", "finished"]


def test_a_failed_command_shows_its_last_words(tmp_path):
    done = sweep(tmp_path, "import sys\nsys.exit('CUDA is not here')\n")
    assert "CUDA is not here" in done.stdout + done.stderr
    assert rows(tmp_path)[0].reason == "the command ended with exit code 1: CUDA is not here"
