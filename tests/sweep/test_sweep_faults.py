"""What befalls runs, with real processes: each ends as a clear status and the rest complete."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from oneclock.runs.store import Study
from oneclock.sweep import Command, Execution, Grid, Plan, run_sweep, source
from oneclock.sweep.api import target_of

HERE = Path(__file__).parent
TARGET = f"{HERE}/sweep_target.py"


def by_beta(study):
    return {row.beta: row for row in study.rows()}


def test_every_trouble_ends_as_a_clear_status(tmp_path):
    betas = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    study = run_sweep(
        f"{TARGET}:troubled", 100, tmp_path / "study", protocol="grid", betas=betas, seeds=[1],
        where=Execution(jobs=2, retries=1, timeout=10), quiet=True,
    )  # fmt: skip
    rows = by_beta(study)
    assert {beta: row.status for beta, row in rows.items()} == {
        **dict.fromkeys([0.1, 0.2, 0.4, 0.5, 0.6, 0.7], "failed"), 0.3: "diverged", 0.8: "finished", 0.9: "finished",
    }  # fmt: skip
    assert rows[0.1].reason == "KeyError: 'no such layer'"
    assert "longer than 10 seconds" in rows[0.2].reason
    assert rows[0.2].seconds >= 10
    assert "nan at step 40" in rows[0.3].reason
    assert "exit code 1" in rows[0.4].reason
    assert "segmentation fault" in rows[0.5].reason
    assert "out-of-memory" in rows[0.6].reason
    assert "File too large" in rows[0.7].reason
    assert rows[0.8].steps == rows[0.9].steps == 100
    output = tmp_path / "study" / "runs" / "sweep_target.troubled" / "beta-0.1-seed-1" / "output.log"
    assert "in raises" in output.read_text()

    # failed runs are final until asked for again; then they are tried again, and the others are left alone
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("study/runs/*/*/result.json")}
    assert Study.open(study.path).forget_failed() == 6
    again = run_sweep(
        f"{TARGET}:train",
        100,
        tmp_path / "other",
        name="x",
        betas=[0.9],
        seeds=[1],
        where=Execution(in_process=True),
        quiet=True,
    )
    assert by_beta(again)[0.9].best_loss == rows[0.9].best_loss
    left = {path for path in tmp_path.glob("study/runs/*/*/result.json")}
    assert {path.parent.name for path in before} - {path.parent.name for path in left} == {
        f"beta-{beta}-seed-1" for beta in (0.1, 0.2, 0.4, 0.5, 0.6, 0.7)
    }


def test_a_target_that_returns_nan(tmp_path):
    study = run_sweep(
        f"{TARGET}:returns_nan", 100, tmp_path, betas=[0.9], seeds=[1], where=Execution(in_process=True), quiet=True
    )
    (row,) = study.rows()
    assert (row.status, "nan" in row.reason) == ("diverged", True)


def test_a_function_that_tells_nothing_is_trained_once(tmp_path):
    with pytest.raises(ValueError, match=r"stops here, .* logged no validation loss: call run.log"):
        run_sweep(f"{TARGET}:silent", 100, tmp_path, where=Execution(in_process=True), quiet=True)
    (row,) = [row for row in Study.open(tmp_path).rows() if row.status != "waiting"]
    assert row.status == "failed"


SIGNATURES = """
import functools

def plain(beta, seed, run): ...
def rated(beta, seed, run, lr): ...
def open(*args, **options): ...
def named(beta, seed, run, *, lr=0.1): ...
def two(beta, seed): ...
def first_only(beta, seed, run, lr, /): ...
@functools.cache
def decorated(beta): ...
def twice(beta): ...
twice = functools.partial(plain)
"""


@pytest.mark.parametrize(
    ("function", "without", "with_rates"),
    [
        ("plain", True, False),
        ("rated", False, True),
        ("open", True, True),
        ("named", True, True),
        ("two", False, False),
        ("first_only", False, False),
        ("decorated", True, True),
        ("twice", True, True),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused_before_the_first_run(tmp_path, function, without, with_rates):
    """By its source, not run, where it is named; what the source does not tell passes."""
    file = tmp_path / "functions.py"
    file.write_text(SIGNATURES)
    named = f"{file}:{function}"
    untold = function in ("decorated", "twice")
    targets = [target_of(one, 100) for one in ([named] if untold else [named, source.load_function(named)])]
    for target, (rates, fits) in product(targets, (((), without), ((0.1,), with_rates))):
        plan = Plan(tmp_path / "study", [target], Grid(betas=(0.9,), learning_rates=rates))
        with nullcontext() if fits else pytest.raises(ValueError, match="cannot be called with"):
            plan.check()


def test_a_command_says_where_the_rate_goes_and_only_then(tmp_path):
    for line, rates in (("train {beta}", (0.1,)), ("train {beta} {lr}", ())):
        target = Command(line, 100)
        with pytest.raises(ValueError, match="{lr}"):
            Plan(tmp_path / "study", [target], Grid(betas=(0.9,), seeds=(1,), learning_rates=rates)).check()


@pytest.mark.parametrize("torn", ["result.json", "run.json", "curve.jsonl"])
def test_a_torn_record_is_set_aside_and_run_anew(tmp_path, torn, capfd):
    def sweep():
        return run_sweep(
            f"{TARGET}:train",
            60,
            tmp_path / "s",
            betas=[0.5, 0.9],
            seeds=[1],
            where=Execution(in_process=True),
            quiet=True,
        )

    whole = sweep().rows()
    path = tmp_path / "s" / "runs" / "sweep_target.train" / "beta-0.9-seed-1" / torn
    path.write_bytes(path.read_bytes()[:30].replace(b"\n", b" ") + b"\n")
    assert sorted(row.status for row in Study.open(tmp_path / "s").rows()) == ["damaged", "finished"]
    assert [(row.status, row.best_loss) for row in sweep().rows()] == [(row.status, row.best_loss) for row in whole]
    assert "damaged/" in capfd.readouterr().err
    assert (tmp_path / "s" / "damaged" / "sweep_target.train" / "beta-0.9-seed-1" / torn).exists()


@pytest.fixture
def disk(tmp_path):
    """A real disk of 256 kB, and how to mount it anew."""
    path = tmp_path / "disk"
    path.mkdir()

    def mount(options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=False).returncode == 0

    if os.geteuid() != 0 or not shutil.which("mount") or not mount("size=256k"):
        pytest.skip("this machine does not let us mount a small disk")
    yield path, mount
    subprocess.run(["umount", path], check=True)


def sweep_of(study, *more, function="train"):
    line = [sys.executable, "-m", "oneclock", "sweep", f"{TARGET}:{function}", "--name", "x", "--budget", "60"]
    return [*line, "--out", study, "--betas", "0.5,0.9", "--seeds", "1", "--retries", "0", *(more or ["--jobs", "1"])]


def assert_refused(line, words, **more):
    """The sweep ends with one line, and no traceback."""
    done = subprocess.run(line, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("oneclock: ")] != []
    assert "--in-process" in line or done.stderr.count("\n") == 1


def assert_goes_on(line, study, tmp_path):
    """The same command ends well, with the losses of a sweep that met no trouble."""
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    whole = run_sweep(
        f"{TARGET}:train",
        60,
        tmp_path / "whole",
        betas=[0.5, 0.9],
        seeds=[1],
        where=Execution(in_process=True),
        quiet=True,
    )
    found = [(row.status, row.best_loss) for row in Study.open(study).rows()]
    assert found == [(row.status, row.best_loss) for row in whole.rows()]


def test_a_disk_that_is_full_stops_the_sweep_and_it_goes_on_once_there_is_room(disk, tmp_path):
    path, _ = disk
    with suppress(OSError):
        (path / "fill").write_bytes(b"x" * 300_000)
    assert_refused(sweep_of(path / "s"), "No space left")
    (path / "fill").unlink()
    assert_goes_on(sweep_of(path / "s"), path / "s", tmp_path)


@pytest.mark.parametrize("more", [["--jobs", "2"], ["--in-process"]])
def test_a_disk_that_fills_up_stops_the_sweep_and_it_goes_on_once_there_is_room(disk, more, tmp_path, monkeypatch):
    path, _ = disk
    monkeypatch.setenv("FILL", str(path / "fill"))
    line = sweep_of(path / "s", *more, function="fills_the_disk")
    assert_refused(line, "the disk takes nothing more (OSError: [Errno 28] No space left")
    assert "failed" not in [row.status for row in Study.open(path / "s").rows()]
    assert not list(path.glob("s/claim-*"))
    (path / "fill").unlink()
    assert_goes_on(line, path / "s", tmp_path)


def test_a_disk_that_may_only_be_read_stops_the_sweep_and_shows_its_status(disk, tmp_path):
    path, mount = disk
    values = {"name": "x", "betas": [0.5], "seeds": [1], "where": Execution(in_process=True), "quiet": True}
    run_sweep(f"{TARGET}:train", 60, path / "s", **values)
    (path / "s" / "claim-1.json").write_text(json.dumps({"host": "elsewhere", "pid": 1, "born": "0"}))
    os.utime(path / "s" / "claim-1.json", (0, 0))
    assert mount("remount,ro")
    assert_refused(sweep_of(path / "s", "--extend"), "Read-only file system")
    told = subprocess.run([sys.executable, "-m", "oneclock", "status", path / "s"], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert mount("remount,rw")
    assert_goes_on(sweep_of(path / "s", "--extend"), path / "s", tmp_path)


def as_anyone():
    """Before a program starts: it shall not override permissions, as root else would."""
    ctypes.CDLL(None).prctl(24, 1)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets root be refused")
def test_a_folder_that_may_not_be_written_stops_the_sweep(tmp_path):
    values = {"name": "x", "betas": [0.5], "seeds": [1], "where": Execution(in_process=True), "quiet": True}
    run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values)
    (tmp_path / "s" / "runs" / "x").chmod(0o555)
    assert_refused(
        sweep_of(tmp_path / "s", "--extend"), "the disk takes nothing more (PermissionError", preexec_fn=as_anyone
    )
    (tmp_path / "s" / "runs" / "x").chmod(0o755)
    assert_goes_on(sweep_of(tmp_path / "s", "--extend"), tmp_path / "s", tmp_path)


def test_a_study_is_extended_and_keeps_its_runs(tmp_path):
    def sweep(betas, seeds, **more):
        values = {"betas": betas, "seeds": seeds, "where": Execution(in_process=True), "quiet": True, **more}
        return run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values)

    sweep([0.5, 0.9], [1])
    before = {path: path.read_bytes() for path in tmp_path.glob("s/runs/*/*/*.json*")}
    with pytest.raises(ValueError, match=r"extend it \(extend\), or choose another folder"):
        sweep([0.5, 0.9, 0.99], [1, 2])
    wider = sweep([0.5, 0.9, 0.99], [1, 2], protocol="grid", extend=True)
    assert [(row.beta, row.seed) for row in wider.rows()] == [
        (beta, seed) for beta in (0.5, 0.9, 0.99) for seed in (1, 2)
    ]
    assert {path: path.read_bytes() for path in before} == before
    assert Plan.read(tmp_path / "s").described["protocol"]["betas"] == [0.5, 0.9, 0.99]
    narrower = sweep([0.5, 0.9], [1], protocol="grid", extend=True)  # what is there stays part of the study
    assert len(narrower.rows()) == 6
    assert Plan.read(tmp_path / "s").described["protocol"]["seeds"] == [1, 2]
    with pytest.raises(ValueError, match="the same settings to continue it, or choose another folder"):
        sweep([0.5, 0.9], [1])


def test_a_changed_spec_is_refused_with_the_difference(tmp_path):
    values = {"betas": [0.9], "seeds": [1], "where": Execution(in_process=True), "quiet": True}
    run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values)
    with pytest.raises(ValueError, match=r"budget of sweep_target.train is 60 there and 80 here"):
        run_sweep(f"{TARGET}:train", 80, tmp_path / "s", **values)
    with pytest.raises(ValueError, match=r"seeds are \[1\] there and \[1, 2\] here"):
        run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values | {"seeds": [1, 2]})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="not empty"):
        run_sweep(f"{TARGET}:train", 60, tmp_path / "mine", **values)
    with pytest.raises(ValueError, match="is a file; a study needs a folder"):
        run_sweep(f"{TARGET}:train", 60, tmp_path / "mine" / "thesis.tex", **values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"jobs": 0}, "jobs must be .* at least 1, got 0"),
        ({"threads": 0}, "threads must be .* at least 1, got 0"),
        ({"retries": -1}, "retries must be .* at least 0, got -1"),
        ({"timeout": 0.0}, "timeout must be more than 0 seconds, got 0"),
        ({"jobs": 2, "scheduler": "tcp://127.0.0.1:1"}, "give jobs or a scheduler, not both"),
    ],
)
def test_a_place_to_run_that_makes_no_sense_is_refused_before_anything_is_written(tmp_path, values, words):
    with pytest.raises(ValueError, match=words):
        run_sweep(f"{TARGET}:train", 60, tmp_path / "s", where=Execution(**values))
    assert not (tmp_path / "s").exists()


def test_an_attempt_forgets_what_an_earlier_one_logged_beyond_its_checkpoint(tmp_path):
    def train(beta, seed, run):
        assert "MALLOC_TRIM_THRESHOLD_" not in os.environ  # Dask's, for its workers: it halves the speed of a training
        started = run.folder / "started"
        if not started.exists():
            started.touch()
            run.log(10, val_loss=3.0)
            run.log(15, val_loss=0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        run.log(10, val_loss=2.0)
        run.log(20, val_loss=1.0)

    study = run_sweep(train, 20, tmp_path / "s", betas=[0.9], seeds=[1], where=Execution(jobs=1), quiet=True)
    assert by_beta(study)[0.9].best_loss == 1.0
    curve = next(tmp_path.glob("s/runs/*/*/curve.jsonl"))
    assert [json.loads(line)["step"] for line in curve.read_text().splitlines()] == [10, 20]


@pytest.mark.parametrize("step", [-1, float("inf"), float("nan"), 1.5, 2**60])
def test_a_step_that_is_none_fails_its_run_alone(tmp_path, step):
    def train(beta, seed, run):
        run.log(step if beta == 0.5 else 10, val_loss=2 - beta)

    study = run_sweep(
        train, 10, tmp_path / "s", betas=[0.5, 0.9, 0.99], seeds=[1], where=Execution(in_process=True), quiet=True
    )
    assert [row.status for row in study.rows()] == ["failed", "finished", "finished"]
    assert "run.log needs the step as a whole number from 0 on" in by_beta(study)[0.5].reason
    assert study.best().beta == 0.99


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (("a",), "run.log needs the step as a whole number from 0 on, got 'a'"),
        ((None, 1.0), "run.log needs the step as a whole number from 0 on, got None"),
        ((np.arange(2), 1.0), "run.log needs the step as a whole number from 0 on, got array([0, 1])"),
        ((10, "low"), "val_loss must be a number, got 'low'"),
        ((10, 1.0, [2.0]), "train_loss must be a number, got [2.0]"),
    ],
)
def test_a_logged_value_of_a_wrong_type_is_named_in_one_line(tmp_path, values, reason):
    def train(beta, seed, run):
        run.log(*values)

    study = run_sweep(train, 10, tmp_path / "s", betas=[0.9], seeds=[1], where=Execution(in_process=True), quiet=True)
    (row,) = study.rows()
    assert row.reason.partition(": ")[2] == reason


def test_an_array_of_one_number_is_a_loss(tmp_path):
    def train(beta, seed, run):
        return np.array(1 + beta)

    study = run_sweep(train, 10, tmp_path / "s", betas=[0.9], seeds=[1], where=Execution(in_process=True), quiet=True)
    assert [row.best_loss for row in study.rows()] == [1.9]


def test_an_attempt_that_finds_nothing_left_to_do_finishes_the_run(tmp_path):
    def train(beta, seed, run):
        done = run.folder / "done"
        if not done.exists():
            run.log(20, val_loss=1.5)
            done.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    study = run_sweep(train, 20, tmp_path / "s", betas=[0.9], seeds=[1], where=Execution(jobs=1), quiet=True)
    (row,) = study.rows()
    assert (row.status, row.best_loss) == ("finished", 1.5)


def test_a_run_reads_nothing_and_writes_to_its_log(tmp_path):
    def train(beta, seed, run):
        print("seen", sys.stdin.read() == "", subprocess.run(["cat"], capture_output=True).stdout)
        places = {number: os.readlink(f"/proc/self/fd/{number}") for number in range(3)}
        run.log(10, val_loss=1.0)
        (run.folder / "places").write_text(json.dumps(places))

    run_sweep(train, 10, tmp_path / "s", betas=[0.5, 0.9], seeds=[1], where=Execution(jobs=2), quiet=True)
    for folder in tmp_path.glob("s/runs/*/*"):
        output = str(folder / "output.log")
        assert json.loads((folder / "files/places").read_text()) == {"0": os.devnull, "1": output, "2": output}
        assert (folder / "output.log").read_text() == "seen True b''\n"


def test_where_no_process_can_be_forked_the_run_says_so_and_the_server_lives(tmp_path, monkeypatch):
    code = "import os\ndef refuse(): raise BlockingIOError(11, 'no more processes')\nos.fork = refuse\n"
    code += "from oneclock.sweep.exec.server import serve; serve([])"
    monkeypatch.setattr("oneclock.sweep.exec.supervise.command", lambda *_: [sys.executable, "-c", code])
    study = run_sweep(
        f"{TARGET}:train",
        60,
        tmp_path / "s",
        betas=[0.5, 0.9],
        seeds=[1],
        where=Execution(jobs=1, retries=1),
        quiet=True,
    )
    reason = "its process could not be started: BlockingIOError: [Errno 11] no more processes (tried 2 times)"
    assert [(row.status, row.reason) for row in study.rows()] == [("failed", reason)] * 2


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("child", ["returns", "raises", "logs"])
def test_a_child_that_the_function_forks_does_not_write_the_record(tmp_path, in_process, child, capfd):
    script = tmp_path / "forks.py"
    script.write_text(
        "import os\n"
        "def train(beta, seed, run):\n"
        "    child = os.fork() == 0\n"
        f"    if child and {child!r} == 'raises': raise KeyError('in the child')\n"
        f"    if not child: os.wait()\n"
        f"    if child and {child!r} == 'returns': return 0.1\n"
        "    run.log(100, val_loss=0.1 if child else 1.5)\n"
    )
    where = Execution(in_process=True) if in_process else Execution(jobs=1)
    study = run_sweep(f"{script}:train", 100, tmp_path / "s", betas=[0.9], seeds=[1], where=where)
    (row,) = study.rows()
    assert (row.status, row.best_loss, row.steps) == ("finished", 1.5, 100)
    assert capfd.readouterr().out.count("best loss") <= 1
