"""A sweep's data folder: where data lie names no run and no study; what they are is recorded, and kept apart."""

import json
import shutil

import pytest
from small_data import SETTINGS, small

from oneclock import Execution, run_sweep
from oneclock.cli import main
from oneclock.lab import experiment_target
from oneclock.stats import read
from oneclock.sweep.plan import Plan

NAME = "vitb16-cifar100"


def sweep(capsys, out, *arguments):
    words = [word for setting in SETTINGS[NAME] for word in ("--set", setting)]
    fixed = [
        "--protocol",
        "grid",
        "--betas",
        "0.5,0.9",
        "--seeds",
        "1",
        "--baselines",
        "none",
        "--in-process",
        "--no-report",
    ]
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", NAME, *words, *fixed, "--out", str(out), *map(str, arguments)])
    return stopped.value.code or 0, capsys.readouterr()


def test_a_sweep_reads_its_data_where_it_is_told_and_records_what_they_are(capsys, tmp_path, monkeypatch):
    small(NAME, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    code, _ = sweep(capsys, tmp_path / "study", "--data-dir", "data")
    assert code == 0
    records = [json.loads(path.read_text()) for path in (tmp_path / "study").glob("runs/*/*/run.json")]
    (hash_of_data,) = {record["environment"]["data"] for record in records}
    assert hash_of_data
    assert len(records) == 2
    for path in (tmp_path / "study").rglob("*.json"):
        assert str(tmp_path) not in path.read_text()
    shutil.move(tmp_path / "data", tmp_path / "elsewhere")
    code, told = sweep(capsys, tmp_path / "study", "--data-dir", "elsewhere")
    assert code == 0
    assert "2 runs have ended" in told.out
    assert str(tmp_path) not in str(Plan.read(tmp_path / "study").targets[0])


def test_the_study_alone_goes_on_with_a_data_folder(capsys, tmp_path):
    small(NAME, tmp_path / "data")
    sweep(capsys, tmp_path / "study", "--data-dir", tmp_path / "data")
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", "--out", str(tmp_path / "study"), "--extend", "--protocol", "grid", "--betas", "0.99",
              "--in-process", "--no-report", "--data-dir", str(tmp_path / "data")])  # fmt: skip
    assert not stopped.value.code
    assert len(list((tmp_path / "study").glob("runs/*/*/result.json"))) == 3


def test_runs_on_different_data_are_told_apart(tmp_path):
    spec = small(NAME, tmp_path / "data")
    target = experiment_target(NAME, spec.budget, SETTINGS[NAME], data_dir=tmp_path / "data")
    options = {"protocol": "grid", "seeds": [1], "baselines": (), "where": Execution(in_process=True), "quiet": True}
    run_sweep(target, out=tmp_path / "study", betas=[0.5, 0.9], **options)
    assert not [line for line in read(tmp_path / "study").missing if "data" in line]
    (tmp_path / "data" / "cifar100" / "train" / "class1" / "train0.png").unlink()
    run_sweep(target, out=tmp_path / "study", betas=[0.5, 0.9, 0.99], extend=True, **options)
    assert f"{NAME}: its runs were trained on 2 different sets of data" in (read(tmp_path / "study").missing)


def test_a_folder_of_data_for_what_reads_none_is_refused(capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", "--command", "train {beta} {seed}", "--budget", "10", "--out", str(tmp_path / "s"),
              "--data-dir", "data"])  # fmt: skip
    assert stopped.value.code == 2
    assert "--data-dir" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
