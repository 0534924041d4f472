"""Flipped and cut bytes in every file of a finished study: harmless, or named by `analyse` and mended by a sweep."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from chaos.damage import damaged
from chaos.records import FILES, go_on, plan_of

from oneclock.runs.store import Study
from oneclock.runs.table import Sweeps, read_source
from oneclock.sweep import Plan

STRIKES = 150


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study."""
    path = tmp_path_factory.mktemp("whole") / "study"
    go_on(path)
    return path


def struck(path: Path, expected: Sweeps) -> str:
    """What `analyse` makes of the study: `harmless`, or `named`; another number without a word is the failure."""
    try:
        assert read_source(path) == expected
    except ValueError as error:
        complaint = str(error)
    else:
        return "harmless"
    assert "\n" not in complaint
    assert "beta-0.8-seed-1" in complaint
    return "named"


@pytest.mark.parametrize("name", FILES)
def test_a_struck_record_never_changes_a_number_in_silence(whole, tmp_path, name):
    path = shutil.copytree(whole, tmp_path / "study")
    expected, target = read_source(whole), path / "runs" / "x" / "beta-0.8-seed-1" / name
    data, rows, counts = target.read_bytes(), Study.open(whole).rows(), Counter()
    dice = random.Random(1)
    for number in range(STRIKES):
        target.write_bytes(damaged(data, dice)[1])
        outcome = struck(path, expected)
        counts[outcome] += 1
        shown = [row for row in Study.open(path).rows() if row.status != "damaged"]
        assert [row for row in rows if row in shown] == shown  # a table shows what was measured, or that it is torn
        if number % 15 == 0:
            again = shutil.copytree(path, tmp_path / f"again-{number}")
            go_on(again)
            assert read_source(again) == expected
            assert (again / "damaged").exists() == (outcome == "named")
    assert sum(counts.values()) == STRIKES
    assert counts["named"] > STRIKES * 0.8


def test_a_struck_study_json_is_named_and_the_runs_are_kept(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "study")
    expected, header = read_source(whole), path / "study.json"
    data, complaints = header.read_bytes(), []
    dice = random.Random(2)
    for _ in range(STRIKES):
        header.write_bytes(damaged(data, dice)[1])
        assert read_source(path).sweeps == expected.sweeps
        try:
            assert Plan.read(path).described == plan_of(whole).described
        except ValueError as error:
            complaints.append(str(error))
    assert len(complaints) > STRIKES * 0.8
    assert all("study.json" in complaint for complaint in complaints)
    header.unlink()
    before = {file: file.stat().st_mtime_ns for file in path.glob("runs/*/*/result.json")}
    go_on(path)
    assert header.read_bytes() == data
    assert {file: file.stat().st_mtime_ns for file in path.glob("runs/*/*/result.json")} == before


@pytest.mark.parametrize("name", FILES)
def test_a_lost_file_is_named_or_run_anew(whole, tmp_path, name):
    path = shutil.copytree(whole, tmp_path / "study")
    (path / "runs" / "x" / "beta-0.8-seed-1" / name).unlink()
    if name == "curve.jsonl":
        assert struck(path, read_source(whole)) == "named"
    go_on(path)
    assert read_source(path) == read_source(whole)
