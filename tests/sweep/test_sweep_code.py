"""Changed code is another experiment: it is refused in one line, whatever form the user's code has."""

import subprocess
import sys

import pytest

from oneclock import Execution, run_sweep
from oneclock.runs.store import Study
from oneclock.sweep import fingerprint as code

TRAIN = '''
"""A training."""
from helper import scale

def train(beta, seed, run):
    run.log(run.budget, val_loss=scale * (1 + (beta - 0.9) ** 2))
'''
SCRIPT = """
import sys
beta, seed, folder = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with open(folder + "/log.csv", "w") as file:
    file.write("step,val_loss\\n50,2.0\\n100,%r\\n" % (1 + (beta - 0.9) ** 2))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helper.py").write_text("scale = 1.0\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def command(*more, target=("train.py:train",)):
    line = [sys.executable, "-m", "oneclock", "sweep", *target, "--budget", "100", "--out", "study"]
    line += ["--protocol", "grid", "--betas", "0.5,0.9,0.99", "--seeds", "1", "--jobs", "1", *more]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def refused(done, name):
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "the code behind study has changed since its runs were made" in line
    assert f"({name})" in line
    assert "--keep-runs" in line
    assert "another folder" in line


@pytest.mark.parametrize("file", ["train.py", "helper.py"])
def test_an_edited_function_or_a_helper_beside_it_is_refused(own, file):
    assert command().returncode == 0
    before = {path: path.read_bytes() for path in own.glob("study/runs/*/*/*.json*")}
    text = (own / file).read_text()
    (own / file).write_text(text.replace("0.9", "0.5").replace("1.0", "3.0"))
    refused(command(), file)
    assert {path: path.read_bytes() for path in before} == before
    (own / file).write_text("# words\n" + text.replace('"""A training."""', '"""Other words."""'))
    assert command().returncode == 0  # comments, docstrings and layout change no loss


def test_runs_can_be_kept_and_unfinished_ones_start_anew(own):
    assert command().returncode == 0
    unfinished = own / "study/runs/train.train/beta-0.5-seed-1"
    (unfinished / "result.json").unlink()
    (own / "helper.py").write_text("scale = 2.0\n")
    kept = command("--keep-runs")
    assert kept.returncode == 0, kept.stderr
    losses = {row.beta: row.best_loss for row in Study.open(own / "study").rows()}
    assert losses == {0.5: pytest.approx(2 * 1.16), 0.9: 1.0, 0.99: pytest.approx(1.0081)}
    assert (own / "study/damaged/train.train/beta-0.5-seed-1/curve.jsonl").exists()
    assert command().returncode == 0  # from here on the new code is the study's


def test_an_edited_script_of_a_command_is_refused(own):
    target = ("--command", f"{sys.executable} script.py {{beta}} {{seed}} {{folder}}", "--log", "{folder}/log.csv")
    done = command(target=target)
    assert done.returncode == 0, done.stdout + done.stderr
    (own / "script.py").write_text(SCRIPT.replace("0.9", "0.4"))
    refused(command(target=target), "script.py")


def test_another_lambda_is_refused(tmp_path):
    def sweep(train, **more):
        return run_sweep(
            train, 10, tmp_path / "s", betas=[0.5, 0.9], seeds=[1], where=Execution(in_process=True), quiet=True, **more
        )

    sweep(lambda beta, seed, run: 1 + beta)
    sweep(lambda beta, seed, run: 1 + beta)
    with pytest.raises(ValueError, match="the code behind .* has changed"):
        sweep(lambda beta, seed, run: 2 + beta)
    study = sweep(lambda beta, seed, run: 2 + beta, keep_runs=True)
    assert [row.best_loss for row in study.rows()] == [1.5, 1.9]


def test_what_a_function_closes_over_and_refers_to_is_part_of_it():
    def made(offset):
        def helper(beta):
            return beta + offset

        return lambda beta, seed, run: helper(beta)

    assert code.of_callable(made(1)) == code.of_callable(made(1))
    assert code.of_callable(made(1)) != code.of_callable(made(2))


def test_a_file_edited_while_a_sweep_runs_fails_the_later_runs(own):
    text = TRAIN.replace("run.log", "open('train.py', 'a').write('later = 1\\n')\n    run.log")
    (own / "train.py").write_text(text)
    done = command("--retries", "0")
    assert done.returncode == 1
    states = [row.status for row in Study.open(own / "study").rows()]
    assert sorted(states) == ["failed", "failed", "finished"]
    reasons = {row.reason for row in Study.open(own / "study").rows()} - {None}
    assert all("the code was edited while the sweep ran (train.py)" in reason for reason in reasons)


def test_a_title_or_a_split_orphans_no_run(tmp_path):
    from dataclasses import replace

    from oneclock.lab.experiments import find
    from oneclock.lab.training.run import identify

    spec = find("vit-digits")
    words = replace(spec, title="Another title", split="heldout", t_es=123, seeds=(1,))
    assert identify(spec, 0.9, 1).hash == identify(words, 0.9, 1).hash
    assert identify(spec, 0.9, 1).hash != identify(replace(spec, batch_size=17), 0.9, 1).hash


def test_a_lost_study_json_is_made_anew_by_the_same_command_and_by_no_other(own):
    assert command().returncode == 0
    header = (own / "study/study.json").read_text()
    (own / "study/study.json").unlink()
    other = command(target=("script.py:train",))
    assert other.returncode == 2
    assert command().returncode == 0
    assert (own / "study/study.json").read_text() == header


def test_help_names_the_way_on():
    told = subprocess.run([sys.executable, "-m", "oneclock", "sweep", "--help"], capture_output=True, text=True).stdout
    assert "--keep-runs" in told


def test_a_study_goes_on_and_grows_without_its_target_being_said_again(own):
    assert command().returncode == 0
    line = [sys.executable, "-m", "oneclock", "sweep", "--out", "study", "--jobs", "1"]
    again = subprocess.run(line, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert subprocess.run([*line, "--extend", "--betas", "0.992"], capture_output=True, check=False).returncode == 0
    assert [row.beta for row in Study.open(own / "study").rows()] == [0.5, 0.9, 0.99, 0.992]
