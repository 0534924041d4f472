"""Slurm as the place where runs execute, on a real Slurm of this machine; left out where none is installed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import chaos
import pytest
from chaos import slurm_machine, until

from oneclock.runs.store import Study
from oneclock.sweep.exec import slurm

BETAS = ["--betas", "0.5,0.9", "--seeds", "1,2", "--protocol", "grid"]


@pytest.fixture
def machine():
    """A Slurm of this machine; where there can be none, the test is left out and says why."""
    if (why := slurm_machine.missing()) is not None:
        pytest.skip(why)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(slurm_machine.Slurm())
        except slurm_machine.Unable as error:
            pytest.skip(str(error))
        yield made


def oneclock(machine, *arguments, **environment):
    line = [sys.executable, "-m", "oneclock", *map(str, arguments)]
    return subprocess.run(line, env=machine.environment | environment, capture_output=True, text=True)


def lines(study):
    return sum(len(path.read_text().splitlines()) for path in study.glob("runs/*/*/curve.jsonl"))


def test_jobs_of_slurm_share_a_study_are_ended_and_go_on(machine, tmp_path):
    calm, study, hold = tmp_path / "calm", tmp_path / "study", tmp_path / "hold"
    sweep = [f"{chaos.TARGET}:train", "--budget", "200", *BETAS]
    assert oneclock(machine, "sweep", *sweep, "--out", calm, "--in-process", "--no-report").returncode == 0
    hold.touch()
    asked = ["--cluster", "slurm", "--array", "2", "--sbatch", "--partition=low --time=1:00:00"]
    told = oneclock(machine, "sweep", *sweep, "--out", study, *asked, HOLD=str(hold))
    assert told.returncode == 0, told.stderr
    assert "Slurm has it as job 1, 2 worker(s)" in told.stdout
    until(lambda: lines(study) == 2)
    shown = json.loads(oneclock(machine, "status", study, "--json").stdout)
    assert (len(shown["workers"]), {job["state"] for job in shown["jobs"]}) == (2, {"RUNNING"})
    machine.ask("scancel", "--signal=USR1", "--batch", "1_1")  # what Slurm does before a job's time is up
    machine.ask("scontrol", "requeue", "1_2")
    until(lambda: [state for state, _ in machine.queue().values()] == ["PENDING", "PENDING"])
    assert "SIGUSR1" in (study / "slurm/1_1.log").read_text()
    assert "SIGTERM" in (study / "slurm/1_2.log").read_text()
    assert list(study.glob("runs/*/*/claim-*")) == []
    hold.unlink()
    machine.release()
    until(lambda: not machine.queue())
    assert chaos.table(study) == chaos.table(calm)
    assert Study.open(study).failed() == []


def test_a_job_that_someone_cancels_is_not_queued_again(machine, tmp_path):
    study, hold = tmp_path / "study", tmp_path / "hold"
    hold.touch()
    sweep = ["sweep", f"{chaos.TARGET}:train", "--budget", "200", "--out", study, "--cluster", "slurm"]
    told = oneclock(machine, *sweep, HOLD=str(hold))
    assert told.returncode == 0, told.stderr
    until(lambda: lines(study))
    machine.ask("scancel", "1")
    until(lambda: not machine.queue())
    assert list(study.glob("runs/*/*/claim-*")) == []
    assert signal.SIGTERM.name in (study / "slurm/1_1.log").read_text()


def test_the_script_asks_for_what_was_asked_for_and_quotes_what_needs_it(tmp_path):
    text = slurm.script(tmp_path / "my study", 3, 2, ("--time=24:00:00", "--comment=a b"), ("--jobs", "2"))
    assert "--array=1-3 --cpus-per-task=2\n" in text
    assert "#SBATCH --time=24:00:00\n#SBATCH '--comment=a b'\n" in text
    assert text.splitlines()[-1].endswith(f"-m oneclock work '{tmp_path}/my study' --jobs 2")


def test_the_options_of_a_sweep_reach_its_workers(tmp_path, monkeypatch):
    from oneclock.cli import main

    taken = (
        tmp_path / "bin" / "sbatch"
    )  # Slurm's own is in the tests above: here it is what is handed to it that counts
    taken.parent.mkdir()
    taken.write_text("#!/bin/sh\necho 7\n")
    taken.chmod(0o755)
    monkeypatch.setenv("PATH", str(taken.parent), prepend=os.pathsep)
    line = ["sweep", f"{chaos.TARGET}:train", "--budget", "5", "--out", str(tmp_path / "s"), "--cluster", "slurm"]
    with pytest.raises(SystemExit) as ended:
        main([*line, "--array", "2", "--jobs", "3", "--timeout", "60"])
    assert ended.value.code in (0, None)
    script = (tmp_path / "s/slurm/workers.sh").read_text()
    assert "--array=1-2 --cpus-per-task=3" in script
    assert script.endswith("--jobs 3 --threads 1 --gpus-per-run 1 --retries 2 --timeout 60\n")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--cluster", "slurm", "--array", "0"], "--array must be at least 1, got 0"),
        (["--sbatch", "--time=1:00:00"], "--sbatch: only for --cluster slurm"),
        (["--array", "8"], "--array: only for --cluster slurm or kubernetes or skypilot"),
    ],
)
def test_what_no_worker_could_follow_is_one_line(tmp_path, capsys, options, complaint):
    from oneclock.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["sweep", f"{chaos.TARGET}:train", "--budget", "5", "--out", str(tmp_path / "s"), *options])
    assert (ended.value.code, capsys.readouterr().err) == (2, f"oneclock: {complaint}\n")
    assert not (tmp_path / "s").exists()


def test_where_there_is_no_slurm_it_says_so(tmp_path, monkeypatch, capsys):
    from oneclock.cli import main

    monkeypatch.setenv("PATH", str(tmp_path))
    arguments = ["sweep", f"{chaos.TARGET}:train", "--budget", "5", "--out", str(tmp_path / "s"), "--cluster", "slurm"]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "sbatch was not found" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
