"""`oneclock study`: run twice it does nothing more; killed and started again it ends with the same tables."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[3] / "studies"


def study(name: str, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "oneclock", "lab", "study", name, "--out", str(out), *options]


def said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def records(out: Path, *kinds: str) -> dict[str, bytes]:
    paths = sorted(path for kind in kinds for path in out.glob(kind) if path.is_file())
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def stopped(command: list[str], out: Path, results: str, after: int, how: signal.Signals) -> str:
    """What it printed until so many results were there and the signal came."""
    with tempfile.TemporaryFile("w+") as output:
        driver = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            while driver.poll() is None and len(list(out.glob(results))) < after:
                time.sleep(0.1)
            assert driver.poll() is None
        finally:
            driver.send_signal(how)
            code = driver.wait(timeout=60)
        output.seek(0)
        assert code == (130 if how == signal.SIGTERM else -how), output.read()
        output.seek(0)
        return output.read()


@pytest.mark.parametrize("name", ["laptop", "series", "fashion", "joint"])
def test_a_finished_study_has_nothing_to_do(name, tmp_path):
    out = tmp_path / name
    shutil.copytree(STUDIES / name, out)
    before = records(out, "**/*.*")
    assert said(study(name, out)).splitlines() == [
        f"nothing to do: every run of {out} has ended and its report is written",
        str(out / "report" / "report.html"),
    ]
    assert "at most 0 runs to go" in said(study(name, out, "--dry-run"))
    assert records(out, "**/*.*") == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["series", "laptop"])
def test_killed_in_the_middle_it_ends_with_the_same_tables(name, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert "report.html" in said(study(name, whole, "--quick"))
    results = "runs/*/*/result.json"
    half = len(list(whole.glob(results))) // 2

    output = stopped(study(name, killed, "--quick"), killed, results, half // 2, signal.SIGTERM)
    assert output.endswith("oneclock: stopped; the same command continues it\n")
    stopped(study(name, killed, "--quick"), killed, results, half, signal.SIGKILL)
    kept = records(killed, results)
    assert half <= len(kept) < 2 * half
    assert not (killed / "report").exists()

    assert "report.html" in said(study(name, killed, "--quick"))
    assert {path: content for path, content in records(killed, results).items() if path in kept} == kept
    tables = records(whole, "report/tables/*")
    assert len(tables) >= 3 * 5
    assert records(killed, "report/tables/*") == tables
    assert said(study(name, killed, "--quick")).startswith("nothing to do")
