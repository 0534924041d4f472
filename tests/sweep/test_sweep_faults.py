"""What befalls runs, with real processes: each ends as a clear status and the rest complete."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oneclock.study.folder import Study
from oneclock.sweep import Plan, run_sweep

HERE = Path(__file__).parent
TARGET = f"{HERE}/sweep_target.py"


def by_beta(study):
    return {row.beta: row for row in study.rows()}


def test_every_trouble_ends_as_a_clear_status(tmp_path):
    betas = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    study = run_sweep(
        f"{TARGET}:troubled", 100, tmp_path / "study", protocol="grid", betas=betas, seeds=[1], jobs=2, retries=1,
        timeout=10, quiet=True,
    )  # fmt: skip
    rows = by_beta(study)
    assert {beta: row.state for beta, row in rows.items()} == {
        **dict.fromkeys([0.1, 0.2, 0.4, 0.5, 0.6, 0.7], "failed"), 0.3: "diverged", 0.8: "finished", 0.9: "finished",
    }  # fmt: skip
    assert rows[0.1].reason == "KeyError: 'no such layer' (tried 2 times)"
    assert "longer than 10 seconds" in rows[0.2].reason
    assert "nan at step 40" in rows[0.3].reason
    assert "exit code 1" in rows[0.4].reason
    assert "segmentation fault" in rows[0.5].reason
    assert "out-of-memory" in rows[0.6].reason
    assert "File too large" in rows[0.7].reason
    assert rows[0.8].step == rows[0.9].step == 100
    output = tmp_path / "study" / "runs" / "sweep_target.troubled" / "beta-0.1-seed-1" / "output.log"
    assert "in raises" in output.read_text()

    # failed runs are final until asked for again; then they are tried again, and the others are left alone
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("study/runs/*/*/result.json")}
    assert Study.open(study.path).forget_failed() == 6
    again = run_sweep(
        f"{TARGET}:train", 100, tmp_path / "other", name="x", betas=[0.9], seeds=[1], in_process=True, quiet=True
    )
    assert by_beta(again)[0.9].best_loss == rows[0.9].best_loss
    left = {path for path in tmp_path.glob("study/runs/*/*/result.json")}
    assert {path.parent.name for path in before} - {path.parent.name for path in left} == {
        f"beta-{beta}-seed-1" for beta in (0.1, 0.2, 0.4, 0.5, 0.6, 0.7)
    }


@pytest.mark.parametrize(
    ("function", "state", "reason"),
    [("silent", "failed", "logged no validation loss"), ("returns_nan", "diverged", "nan")],
)
def test_a_target_that_tells_nothing_or_nan(tmp_path, function, state, reason):
    study = run_sweep(f"{TARGET}:{function}", 100, tmp_path / "s", betas=[0.9], seeds=[1], in_process=True, quiet=True)
    (row,) = study.rows()
    assert row.state == state
    assert reason in row.reason


@pytest.mark.parametrize("torn", ["result.json", "run.json", "curve.jsonl"])
def test_a_torn_record_is_set_aside_and_run_anew(tmp_path, torn, capfd):
    def sweep():
        return run_sweep(
            f"{TARGET}:train", 60, tmp_path / "s", betas=[0.5, 0.9], seeds=[1], in_process=True, quiet=True
        )

    whole = sweep().rows()
    path = tmp_path / "s" / "runs" / "sweep_target.train" / "beta-0.9-seed-1" / torn
    path.write_bytes(path.read_bytes()[:30].replace(b"\n", b" ") + b"\n")
    assert sorted(row.state for row in Study.open(tmp_path / "s").rows()) == ["finished", "torn"]
    assert [(row.state, row.best_loss) for row in sweep().rows()] == [(row.state, row.best_loss) for row in whole]
    assert "set aside" in capfd.readouterr().err
    assert (tmp_path / "s" / "torn" / "sweep_target.train" / "beta-0.9-seed-1" / torn).exists()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="mounting a small disk needs root")
def test_a_full_disk_is_told_and_the_sweep_goes_on_once_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=False).returncode:
        pytest.skip("this machine does not let us mount")
    try:
        line = [sys.executable, "-m", "oneclock", "sweep", f"{TARGET}:train", "--budget", "60", "--out", disk / "s"]
        line += ["--betas", "0.5,0.9", "--seeds", "1", "--jobs", "1", "--retries", "0"]
        (disk / "fill").write_bytes(b"x" * 200_000)
        full = subprocess.run(line, capture_output=True, text=True, check=False)
        assert full.returncode in (1, 2), full.stderr
        assert "No space left" in full.stdout + full.stderr
        (disk / "fill").unlink()
        subprocess.run([sys.executable, "-m", "oneclock", "retry", disk / "s"], check=False)
        then = subprocess.run(line, capture_output=True, text=True, check=False)
        assert then.returncode == 0, then.stdout + then.stderr
        assert [row.state for row in Study.open(disk / "s").rows()] == ["finished", "finished"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_study_is_extended_and_keeps_its_runs(tmp_path):
    def sweep(betas, seeds, **more):
        values = {"betas": betas, "seeds": seeds, "in_process": True, "quiet": True, **more}
        return run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values)

    sweep([0.5, 0.9], [1])
    before = {path: path.read_bytes() for path in tmp_path.glob("s/runs/*/*/*.json*")}
    with pytest.raises(ValueError, match=r"extend it \(--extend, or extend=True\), or another folder"):
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
    with pytest.raises(ValueError, match="the same settings to continue it, or another folder"):
        sweep([0.5, 0.9], [1])


def test_a_changed_spec_is_refused_with_the_difference(tmp_path):
    values = {"betas": [0.9], "seeds": [1], "in_process": True, "quiet": True}
    run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values)
    with pytest.raises(ValueError, match=r"budget: 60 -> 80"):
        run_sweep(f"{TARGET}:train", 80, tmp_path / "s", **values)
    with pytest.raises(ValueError, match=r"protocol\.seeds: \[1\] -> \[1, 2\]"):
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
        ({"jobs": 0}, "jobs must be at least 1, got 0"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"timeout": 0.0}, "timeout must be more than 0 seconds, got 0"),
        ({"jobs": 2, "scheduler": "tcp://127.0.0.1:1"}, "give jobs or a scheduler, not both"),
    ],
)
def test_a_place_to_run_that_makes_no_sense_is_refused_before_anything_is_written(tmp_path, values, words):
    with pytest.raises(ValueError, match=words):
        run_sweep(f"{TARGET}:train", 60, tmp_path / "s", **values)
    assert not (tmp_path / "s").exists()


def test_an_attempt_forgets_what_an_earlier_one_logged_beyond_its_checkpoint(tmp_path):
    def train(beta, seed, run):
        assert "MALLOC_TRIM_THRESHOLD_" not in os.environ  # Dask's, for its workers: it halves the speed of a training
        started = run.folder / "started"
        if not started.exists():
            started.touch()
            run.log(10, val_loss=3.0)
            run.log(15, val_loss=0.1)
            raise RuntimeError("dies")
        run.log(10, val_loss=2.0)
        run.log(20, val_loss=1.0)

    study = run_sweep(train, 20, tmp_path / "s", betas=[0.9], seeds=[1], jobs=1, quiet=True)
    assert by_beta(study)[0.9].best_loss == 1.0
    curve = next(tmp_path.glob("s/runs/*/*/curve.jsonl"))
    assert [json.loads(line)["step"] for line in curve.read_text().splitlines()] == [10, 20]


def test_an_attempt_that_finds_nothing_left_to_do_finishes_the_run(tmp_path):
    def train(beta, seed, run):
        done = run.folder / "done"
        if not done.exists():
            run.log(20, val_loss=1.5)
            done.touch()
            raise RuntimeError("dies after its last step")

    study = run_sweep(train, 20, tmp_path / "s", betas=[0.9], seeds=[1], jobs=1, quiet=True)
    (row,) = study.rows()
    assert (row.state, row.best_loss) == ("finished", 1.5)
