"""`oneclock report` as people run it, on whole, partial and empty studies."""

import csv
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from report_studies import SCRIPT, write_run, write_study

from oneclock.report import folder
from oneclock.report.folder import subject_of
from oneclock.rule import GRID
from oneclock.runs.best import best_of
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.stats import analyse, read


def oneclock(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "oneclock", *map(str, arguments)], capture_output=True, text=True)


def page_of(study: Path, out: Path) -> str:
    text = folder.write_subject(subject_of(study), out, "oneclock report study", formats=()).read_text(encoding="utf-8")
    return text.split("<main>")[1].split('<script type="application/json"')[0]


def test_report_writes_everything_it_links_to(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", (SCRIPT,), betas=GRID[3:8])
    done = oneclock("report", study, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "out" / "report.html")
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]+)"', text)
    assert len(links) > 8
    assert all((tmp_path / "out" / unquote(link)).is_file() for link in links)
    assert {link.rsplit(".", 1)[1] for link in links} == {"png", "svg", "pdf", "csv", "json"}
    assert "oneclock report study --out out" in text
    assert "torch 2.13.0" in text


def test_a_rule_of_ones_own_reaches_the_report_of_the_paper(tmp_path: Path) -> None:
    done = oneclock("report", "--paper", "--rule", "refresh:500", "--rule", "power:0.1,1", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "oneclock report --paper --out out --rule refresh:500 --rule power:0.1,1" in text
    with open(tmp_path / "out" / "tables" / "rules.csv", encoding="utf-8") as file:
        names = [row[0] for row in csv.reader(file)]
    assert {"Refresh R0=500", "Power alpha=1 c=0.1"} <= {*names}


def test_data_files_are_read_back_as_the_same_study(small_study: Path, tmp_path: Path) -> None:
    subject = subject_of(small_study)
    folder.write_subject(subject, tmp_path, "oneclock report study", formats=())
    again = read(tmp_path / "data" / "curves.csv")
    assert again.sweeps == subject.study.sweeps
    assert analyse(again).experiments == subject.analysis.experiments
    with open(tmp_path / "data" / "runs.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(list(small_study.glob("runs/*/*")))


def test_data_files_keep_how_runs_ended(tmp_path: Path) -> None:
    """The diverged beta has the smallest loss of all: without its status it would win."""
    for beta, loss, status in ((0.5, 2.0, "finished"), (0.9, 1.0, "diverged"), (0.99, 1.5, "finished")):
        key = RunKey("digits", beta, seed=1, budget=20, lr=0.001)
        run = RunFolder.start(tmp_path / "study" / "runs" / key.folder, key)
        run.log(10, val_loss=loss)
        run.finish(status, seconds=1.0)  # type: ignore[arg-type]
    silent = RunKey("digits", 0.999, seed=1, budget=20, lr=0.001)
    RunFolder.start(tmp_path / "study" / "runs" / silent.folder, silent).finish("diverged", seconds=1.0)
    subject = subject_of(tmp_path / "study")
    folder.write_subject(subject, tmp_path / "out", "", formats=())
    for name in ("runs.csv", "curves.csv"):
        (sweep,) = read(tmp_path / "out" / "data" / name).sweeps
        assert {run.beta: run.status for run in sweep.tied} == {
            0.5: "finished", 0.9: "diverged", 0.99: "finished", 0.999: "diverged",
        }  # fmt: skip
        assert [(run.key, run.loss) for run in sweep.tied] == [
            (run.key, run.loss) for run in subject.study.sweeps[0].tied
        ]
        assert best_of(sweep.runs).beta == 0.99


def test_data_files_keep_any_name(tmp_path: Path) -> None:
    name = 'a "quoted", broken\r\nname\rof = 1'
    write_run(tmp_path / "study", name, 0.9, 1)
    folder.write_subject(subject_of(tmp_path / "study"), tmp_path / "out", "", formats=())
    assert [sweep.name for sweep in read(tmp_path / "out" / "data" / "curves.csv").sweeps] == [name]


def test_equal_data_give_an_equal_page(small_study: Path, tmp_path: Path) -> None:
    assert page_of(small_study, tmp_path / "one") == page_of(small_study, tmp_path / "two")


def test_partial_study_says_what_is_missing(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", ("digits",), betas=GRID[3:8], repeats=0)
    write_run(study, "digits", 0.99, 1, ending=None)
    write_run(study, "digits", 0.99438, 1, ending="failed")
    text = page_of(study, tmp_path / "out")
    assert "beta 0.99, seed 1 is not finished; left out" in text
    assert "beta 0.99438, seed 1 failed (worker died); left out" in text
    assert "one seed per beta; its gaps have no interval" in text
    assert "One experiment:" in text
    progress = folder.write_subject(subject_of(study), tmp_path / "out", "", formats=()).read_text(encoding="utf-8")
    assert "Of 7 runs so far: 5 finished, 1 failed, 1 unfinished." in progress


def test_a_finished_report_does_not_say_so_far(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", ("digits",), betas=GRID[3:8], repeats=0)
    write_run(study, "digits", 0.99438, 1, ending="failed")
    assert subject_of(study).progress == "Of 6 runs: 5 finished, 1 failed."


@pytest.mark.parametrize("beta", [0.9, 0.0])
def test_one_run_is_enough_for_a_page(tmp_path: Path, beta: float) -> None:
    write_run(tmp_path / "study", "digits", beta, 1)
    assert "one beta was swept; its gap is 0 whatever it is" in page_of(tmp_path / "study", tmp_path / "out")


def test_horizon_too_short_for_the_rule_is_said(tmp_path: Path) -> None:
    for beta in GRID[2:6]:
        write_run(tmp_path / "study", "short", beta, 1, budget=500)
    text = page_of(tmp_path / "study", tmp_path / "out")
    assert "The paper&#39;s rule for 500 steps: no beta." in text


def test_diverged_beta_is_left_out_of_the_drawing(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", ("digits",), betas=GRID[3:8])
    run = write_run(study, "digits", 0.999, 1, ending=None)
    (run.path / "curve.jsonl").write_text('{"step": 1000, "val_loss": null}\n')
    run.finish("diverged", seconds=1.0)
    text = page_of(study, tmp_path / "out")
    assert "beta 0.999, seed 1 has no finite validation loss" in text


def test_bad_calls_are_one_line(tmp_path: Path) -> None:
    for arguments in (
        ["report"],
        ["report", tmp_path, "--paper"],
        ["report", tmp_path],
    ):
        done = oneclock(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("oneclock: ")
        assert len(done.stderr.splitlines()) == 1


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path) -> None:
    absent = "import sys; sys.modules['matplotlib'] = None; from oneclock.cli import main; main(sys.argv[1:])"
    call = [sys.executable, "-c", absent, "report", "--paper", "--out", str(tmp_path / "out")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "oneclock: a report needs matplotlib: pip install 'oneclock[report]'\n"


def test_a_file_in_the_place_of_its_folder_is_told(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", (SCRIPT,), betas=GRID[3:6])
    (tmp_path / "train.py").touch()
    for out in (tmp_path / "train.py", tmp_path / "train.py" / "report"):
        with pytest.raises(ValueError, match="cannot be the report's folder"):
            page_of(study, out)
