"""A study that may only be looked at: status, analyse and report need nothing but to read it."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oneclock.runs.lock import STALE, holder
from oneclock.sweep import Execution, run_sweep


def as_anyone() -> None:
    """Before a program starts: it shall not override permissions, as root else would."""
    ctypes.CDLL(None).prctl(24, 1)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


def train(beta, seed, run):
    for step in (50, 100):
        run.log(step, val_loss=1 + (beta - 0.9) ** 2 + 1 / step)


@pytest.fixture
def study(tmp_path):
    """A study with a claim of another machine in it, that no one may write to."""
    path = tmp_path / "study"
    run_sweep(
        train, 100, path, name="x", betas=[0.5, 0.9, 0.99], seeds=[1], where=Execution(in_process=True), quiet=True
    )
    for folder in (path, path / "runs" / "x" / "beta-0.9-seed-1"):
        (folder / "claim-1.json").write_text(json.dumps({"host": "elsewhere", "pid": 1, "born": "0"}))
    places = [path, *(place for place in path.rglob("*") if place.is_dir())]
    for place in places:
        place.chmod(0o555)
    yield path
    for place in places:
        place.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets root be refused")
@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["analyse"], ["report", "--out", "out"]])
def test_a_study_that_may_only_be_read_is_shown_and_left_as_it_was(study, tmp_path, words):
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    command, *options = words
    done = subprocess.run(
        [sys.executable, "-m", "oneclock", command, study, *options],
        capture_output=True, text=True, check=False, cwd=tmp_path, preexec_fn=as_anyone,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before


def test_where_no_probe_can_be_made_a_claim_is_as_old_as_our_clock_says(tmp_path: Path, monkeypatch):
    claim = tmp_path / "claim-1.json"
    claim.write_text(json.dumps({"host": "elsewhere", "pid": 1, "born": "0"}))

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert holder(tmp_path) is not None
    past = claim.stat().st_mtime - STALE - 60
    os.utime(claim, (past, past))
    assert holder(tmp_path) is None
