"""A report is for others: no formula for their spreadsheet, no path, command line or secret of the one who made it."""

import csv
from pathlib import Path

import pytest
from report_studies import write_run

from oneclock.plain_text import without_places
from oneclock.report import folder
from oneclock.report.folder import subject_of
from oneclock.rule import GRID
from oneclock.runs.protocols import Paper
from oneclock.stats import read
from oneclock.sweep import Command, Execution, Plan, sweep

SECRET = "hunter2"


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "@SUM(A1)", "+cmd", "-cmd", "'=quoted", "-1", "plain"])
def test_no_name_is_a_formula_in_any_csv_and_each_reads_back_as_it_was(tmp_path: Path, name: str) -> None:
    for beta in GRID[3:6]:
        write_run(tmp_path / "study", name, beta, 1)
    folder.write_subject(subject_of(tmp_path / "study"), tmp_path / "out", "", formats=())
    seen = set()
    for path in (tmp_path / "out").rglob("*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            seen |= {cell for row in csv.reader(file) for cell in row}
    assert not [cell for cell in seen if cell.startswith(("=", "@", "+cmd", "-cmd"))]
    for data in ("runs.csv", "curves.csv"):
        assert [sweep.name for sweep in read(tmp_path / "out" / "data" / data).sweeps] == [name]


def test_the_report_of_a_command_shows_neither_its_line_nor_absolute_paths(tmp_path: Path) -> None:
    script = tmp_path / "private" / "train.py"
    script.parent.mkdir()
    script.write_text(
        "import sys\nbeta, out = float(sys.argv[1]), sys.argv[2]\n"
        "if beta < 0.9:\n    open(out + '/log.csv', 'w').write('step,val_loss\\n100,1\\n200,0.9\\n300,0.8\\n')\n"
    )
    command = f"python {script} {{beta}} {{folder}} --token {SECRET} --seed {{seed}}"
    target = Command(command, 300, "{folder}/log.csv")
    plan = Plan(tmp_path / "study", [target], Paper(betas=(0.5, 0.8, 0.9), seeds=(1,)))
    study = sweep(plan, Execution(in_process=True, retries=0), quiet=True)
    assert sorted(row.status for row in study.rows()) == ["failed", "finished", "finished"]
    assert SECRET in (study.path / "study.json").read_text()  # what is needed to repeat a run is kept

    written = folder.write_report(study.path, tmp_path / "out")
    assert "left no curve to read" in written.read_text(encoding="utf-8")
    for path in (path for path in (tmp_path / "out").rglob("*") if path.suffix in (".html", ".csv", ".json", ".md")):
        text = path.read_text(encoding="utf-8")
        assert SECRET not in text
        assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("OSError: [Errno 2] No such file: '/home/ann/x y/data.csv'", "OSError: [Errno 2] No such file: 'data.csv'"),
        ("in /home/ann/train.py:12", "in train.py:12"),
        ("--out=/home/ann/", "--out=ann/"),
        ("~/runs/a/b.log is cut", "b.log is cut"),
        (r"C:\Users\ann\x.csv", "x.csv"),
        ("file:///home/ann/x.csv", "x.csv"),
        ("/secret", "secret"),
        ("9/11 of and/or, a / b, ./x/y, https://example.org/a", "9/11 of and/or, a / b, ./x/y, https://example.org/a"),
    ],
)
def test_of_an_absolute_path_its_last_part_is_left(text: str, shown: str) -> None:
    assert without_places(text) == shown
