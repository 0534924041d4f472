"""Files that mean harm, or were damaged, at the doors of `analyse`, `report` and `paper --curves`: one line each."""

import os
import random
import subprocess
import sys

import pandas as pd
import pytest

from oneclock import guards, plain_text
from oneclock.lab.paper.curves import read_curves
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.table import read_source

HEADER = "experiment,beta,seed,budget,min_val_loss"
GOOD = f"{HEADER}\na,0.5,1,9000,2\na,0.9,1,9000,1\na,0.99,1,9000,2\n"

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
from oneclock.cli import main
for path in sys.argv[1:]:
    for words in (["analyse", path], ["report", path, "--out", "out"], ["lab", "paper", "--curves", path]):
        try:
            main(words)
        except SystemExit as end:
            print(end.code)
"""


def assert_refused_in_one_line(path, message, reader=read_source):
    with pytest.raises(ValueError, match=message) as caught:
        reader(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.fixture
def hostile(tmp_path):
    """Small files that ask for very much."""
    places = {
        name: tmp_path / name for name in ("pipe.csv", "zero.csv", "long.csv", "wide.csv", "rows.csv", "cell.csv")
    }
    os.mkfifo(places["pipe.csv"])
    places["zero.csv"].symlink_to("/dev/zero")
    with open(places["long.csv"], "wb") as file:
        file.write(f"{HEADER}\na,".encode())
        file.truncate(2**30)  # a line of 1 GB, most of it a hole in the file
    places["wide.csv"].write_text(HEADER + ",x" * 10**6 + "\n")
    places["rows.csv"].write_text(HEADER + "".join(f",c{i}" for i in range(9000)) + "\n" + "a\n" * 10**5)
    places["cell.csv"].write_text(f"{GOOD}{'b' * 500_000},0.9,1,9000,x\n" + "c,0.9,1,9000,1\n" * 20_000)
    return places


def test_small_files_that_ask_for_much_end_in_one_line_each_within_little_memory(hostile, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, hostile.values())],
        capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.stdout.split() == ["2"] * 3 * len(hostile), done.stderr[-2000:]
    assert len(complaints) == 3 * len(hostile)
    assert all("oneclock: " in line and len(line) < 500 for line in complaints)


def test_each_is_told_what_it_is(hostile):
    words = {
        "pipe.csv": "is a pipe, not a file",
        "zero.csv": "is a device, not a file",
        "long.csv": "a line of more than",
        "wide.csv": "a line of more than|columns, more than",
        "rows.csv": "more than 100,000,000 cells",
        "cell.csv": "row 4 has min_val_loss 'x', which is not a number",
    }
    for name, message in words.items():
        assert_refused_in_one_line(hostile[name], message)
        assert_refused_in_one_line(hostile[name], message, read_curves)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("0.9,1,", "0.9,1e999,"), r"seed that is not a whole number \(inf\)"),
        (GOOD.replace("0.9,1,9000", "0.9,1,1e999"), "row 2 has a budget that is not a finite number"),
        ("experiment,beta,val_loss,step\na,0.9,1,1\na,0.9,1,1e999\n", "row 2 has no step"),
        (GOOD.replace("seed", "beta"), "the column 'beta' more than once"),
        (GOOD.replace("\na,", "\nz,a,"), "more cells than its header"),
        (GOOD.replace("0.9,1", '0.9,"1'), "is not a table"),
        (GOOD + "a,0.95,1,9000," + "9" * 200 + "x\n", "which is not a number"),
    ],
)  # fmt: skip
def test_numbers_and_shapes_that_cannot_be(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    assert_refused_in_one_line(tmp_path / "t.csv", message)


@pytest.mark.parametrize("quoted", [(2, 3), (2, 5), (3, 7)])
def test_rows_that_stray_quotes_hide_in_a_column_nobody_reads_are_counted(tmp_path, quoted):
    rows = [f"a,{beta},1,9000,{beta + 1},5" for beta in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)]
    for row in quoted:
        rows[row - 1] += '"' if row == quoted[1] else ""
    rows[quoted[0] - 1] = rows[quoted[0] - 1].replace(",5", ',"5')
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"{HEADER},inches", *rows]) + "\n")
    assert_refused_in_one_line(path, rf"hides {quoted[1] - quoted[0]} line\(s\) .* column 'inches', row {quoted[0]};")
    path.write_text(GOOD.replace("min_val_loss", "min_val_loss,note").replace(",9000,2", ',9000,2,"two\nlines"'))
    assert read_source(path).sweeps[0].betas == (0.5, 0.9, 0.99)  # a remark may have lines


def test_text_of_another_encoding(tmp_path):
    (tmp_path / "t.csv").write_bytes(GOOD.replace("a,", "\u00e9,").encode("latin-1"))
    assert_refused_in_one_line(tmp_path / "t.csv", "not text in UTF-8")
    with pytest.raises(ValueError, match="row 1 has seed"):
        read_source({"experiment": ["a"], "beta": [0.9], "seed": [10**400], "min_val_loss": [1]})


def test_a_damaged_parquet_file_is_refused_in_one_line_or_read(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame(
        {"experiment": ["a", "a"], "beta": [0.5, 0.9], "budget": [9, 9], "min_val_loss": [2.0, 1.0]}
    ).to_parquet(path)
    whole, choose = path.read_bytes(), random.Random(0)
    cut = [whole[:length] for length in (0, 3, 8, len(whole) // 2, len(whole) - 1)]
    flipped = [_flipped(whole, choose.randrange(len(whole)), choose.randrange(8)) for _ in range(60)]
    complaints = []
    for data in (*cut, *flipped):
        path.write_bytes(data)
        try:
            read_source(path)
        except ValueError as error:
            complaints.append(str(error))
    assert len(complaints) > len(cut)
    assert all(plain_text.printable(complaint) == complaint for complaint in complaints)


def test_a_parquet_file_of_very_many_cells_is_not_unpacked(tmp_path, monkeypatch):
    pd.DataFrame({"experiment": ["a"] * 1000, "beta": 0.9, "min_val_loss": 1.0}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(guards, "MOST_CELLS", 2999)
    assert_refused_in_one_line(tmp_path / "t.parquet", "has 1,000 rows of 3 columns")


@pytest.mark.parametrize("name", ["run.json", "result.json", "curve.jsonl"])
def test_a_record_that_is_no_file_is_refused(tmp_path, name):
    identity = RunKey("digits", beta=0.9, seed=1, budget=200)
    run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
    run.log(200, val_loss=1.0)
    run.finish("finished", seconds=1.0)
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    assert_refused_in_one_line(tmp_path, "is a pipe, not a file|is damaged")


def _flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
