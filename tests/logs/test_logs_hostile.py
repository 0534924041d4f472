"""Files that mean harm: bounded in memory, time and disk, and nothing of them reaches the terminal raw."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_logs_fuzz import events, record

from oneclock import guards, logs, plain_text
from oneclock.cli import main

MEMORY = 1200 * 2**20
METRICS = "key TEXT, value FLOAT, run_uuid TEXT, step INT, is_nan BOOL"


def advised(path, *options):
    """`oneclock advise` in a process with bounded memory and disk: exit code, what it printed, its complaint."""
    code = (
        "import resource, sys; "
        f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY})); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)); "
        "from oneclock.cli import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "advise", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def database(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def test_a_generated_column_computes_nothing(tmp_path):
    """Twelve kilobytes that filled gigabytes of disk and memory when their rows were sorted."""
    path = database(
        tmp_path / "mlflow.db",
        f"CREATE TABLE metrics ({METRICS})",
        "CREATE TABLE runs (run_uuid TEXT, name TEXT)",
        *(f"INSERT INTO metrics VALUES ('loss', 1, 'a', {i}, 0)" for i in range(40)),
        "ALTER TABLE metrics ADD COLUMN timestamp INT AS (hex(zeroblob(400000000)))",
    )
    code, out, error = advised(path)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "SQLite database" in error


def test_views_virtual_tables_and_triggers_do_nothing(tmp_path):
    endless = "WITH RECURSIVE n(step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM n)"
    rows = "SELECT 'loss' AS key, 1.0 AS value, 'a' AS run_uuid, step, 0 AS is_nan FROM n"
    runs = "CREATE TABLE runs (run_uuid TEXT, name TEXT)"
    view = database(tmp_path / "view.db", runs, f"CREATE VIEW metrics AS {endless} {rows}")
    virtual = database(
        tmp_path / "virtual.db", runs, "CREATE VIRTUAL TABLE metrics USING fts5(key, value, run_uuid, step)"
    )
    for path in (view, virtual):
        with pytest.raises(ValueError, match="without MLflow's tables"):
            logs.read_log(path)
    trigger = f"CREATE TRIGGER t AFTER INSERT ON metrics BEGIN INSERT INTO runs {endless} SELECT step, step FROM n; END"
    values = [f"INSERT INTO metrics VALUES ('val_loss', {1 / (i + 1)}, 'a', {i * 100}, 0)" for i in range(12)]
    path = database(tmp_path / "trigger.db", runs, f"CREATE TABLE metrics ({METRICS})", *values, trigger)
    assert logs.read_log(path).curves[0].steps == tuple(range(0, 1200, 100))


def test_a_value_larger_than_a_log_can_hold(tmp_path):
    tables = f"CREATE TABLE metrics ({METRICS})", "CREATE TABLE runs (run_uuid TEXT, name TEXT)"
    row = "INSERT INTO metrics VALUES (hex(zeroblob(3000000)), 1, 'a', 1, 0)"
    path = database(tmp_path / "a.db", *tables, row)
    with pytest.raises(ValueError, match="cannot be read"):
        logs.read_log(path)


def test_an_event_file_of_many_values_in_one_record(tmp_path):
    """Four megabytes that took sixteen gigabytes: each of a record's values held the record once more."""
    from tensorboard.compat.proto.event_pb2 import Event

    event = Event(wall_time=1.0, step=5)
    for _ in range(24_000):
        event.summary.value.add(tag="val/loss", simple_value=0.5)
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"".join(map(record, events()[:2])) + 9 * record(event.SerializeToString()))
    code, out, _ = advised(path)
    assert code == 0
    assert "logged more than once" in out


def test_two_stray_quotes_lose_two_rows(tmp_path):
    rows = [f"{500 * (i + 1)},{1 + abs(i - 19) / 100}" for i in range(40)]
    for at in (21, 37):
        rows[at] = rows[at].replace(",", ',"')
    (tmp_path / "log.csv").write_text("step,val_loss\n" + "\n".join(rows) + "\n")
    log = logs.read_log(tmp_path / "log.csv")
    assert len(log.curves[0].steps) == 38
    assert log.warnings == ("left out: 2 lines with a quote that is not closed",)


def test_words_in_a_number_column_are_counted(tmp_path):
    (tmp_path / "log.csv").write_text("step,val_loss\n1,3\n2,diverged\n3,diverged\nlast,2\n4,\n5,1\n")
    log = logs.read_log(tmp_path / "log.csv")
    assert log.curves[0].steps == (1, 5)
    assert log.warnings == (
        "left out, not a number: 2 values of 'val_loss', for example 'diverged'",
        "left out, not a number: 1 value of 'step', for example 'last'",
    )
    (tmp_path / "log.jsonl").write_text('{"step": 1, "val_loss": "fast"}\n{"step": 2, "val_loss": 1.5}\n')
    assert logs.read_log(tmp_path / "log.jsonl").warnings == (
        "left out, not a number: 1 value of 'val_loss', for example 'fast'",
    )


def test_cells_over_several_lines_are_still_one(tmp_path):
    (tmp_path / "log.csv").write_text('step,note,val_loss\n1,"two\nlines, and ""more""",3\n2,"a",2\n')
    log = logs.read_log(tmp_path / "log.csv")
    assert (log.curves[0].losses, log.warnings) == ((3, 2), ())


@pytest.mark.parametrize("step", ["1e999", "-1e999", "-5", "NaN", "1e-400", "1" + "0" * 400])
@pytest.mark.parametrize("loss", ["1e999", "-1e999", "NaN", "1e308", "-1e308"])
def test_impossible_numbers(tmp_path, capsys, step, loss):
    good = [f'{{"step": {s}, "val_loss": {1 + 1 / s}}}' for s in range(1, 30)]
    good.insert(15, f'{{"step": {step}, "val_loss": 1.5}}')
    good.insert(5, f'{{"step": 3.5, "val_loss": {loss}}}')
    state = f'{{"global_step": {step}, "max_steps": {step}, "log_history": [{",".join(good)}]}}'
    for name, text in (
        ("log.jsonl", "\n".join(good)),
        ("trainer_state.json", state),
        ("list.json", f"[{','.join(good)}]"),
    ):
        (tmp_path / name).write_text(text)
        for options in ([], ["--json"]):
            with pytest.raises(SystemExit) as end:
                main(["advise", str(tmp_path / name), *options])
            assert end.value.code in (0, None, 2)
            out, error = capsys.readouterr()
            assert bool(out) != bool(error)


def test_pipes_devices_and_sockets_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's own path must be short
    os.mkfifo("pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind("socket")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path / "socket", "a socket"), ("/dev/zero", "a device")):
        with pytest.raises(ValueError, match=f"is {kind}, not a file"):
            logs.read_log(path)
    server.close()


def test_lines_tables_and_documents_are_bounded(tmp_path):
    long, wide = tmp_path / "long.csv", tmp_path / "wide.csv"
    with open(long, "wb") as file:
        file.write(b"step,val_loss\n1,")
        file.truncate(2**28)  # a line of 256 MB, most of it a hole in the file
    wide.write_text(",".join(f"a{i}" for i in range(10**6)) + "\n" + ",".join(["1"] * 10**6) + "\n")
    with pytest.raises(ValueError, match="a line of more than"):
        guards.plain_table(long, ",")
    with pytest.raises(ValueError, match=r"1,000,000 columns|a line of more than"):
        guards.plain_table(wide, ",")
    with pytest.raises(ValueError, match="1,000,000 rows of 1,000 columns, more than 100,000,000 cells; split it"):
        guards.refuse_vast(wide, 10**6, 10**3)
    with pytest.raises(ValueError, match="/dev/null is a device, not a file"):
        guards.small_bytes("/dev/null")
    with pytest.raises(ValueError, match="has more than 16 MB"):
        guards.small_bytes(long)
    good = tmp_path / "good.csv"
    good.write_text("step,val_loss\n1,2\n")
    guards.plain_table(good, ",")
    assert guards.small_bytes(good) == good.read_bytes()


def test_a_file_that_grows_is_read_to_where_it_ended(tmp_path):
    path = tmp_path / "log"
    path.write_text("a\n" * 200_000)
    seen = 0
    for _ in guards.read_lines(path):
        seen += 1
        if seen in (1, 150_000):
            with open(path, "a") as file:
                file.write("b\n" * 10)
    assert seen == 200_000


def test_a_folder_of_very_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(guards, "MOST_FILES", 50)
    for index in range(60):
        (tmp_path / f"{index}.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="more than 50 files; name the folder of one run"):
        logs.read_log(tmp_path)


def test_standard_input_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open("/dev/zero", "rb") as endless, pytest.raises(ValueError, match="more than 1,000,000 bytes"):  # noqa: SIM117
        with guards.copied(endless.read, most=10**6):
            pass
    assert not list(tmp_path.iterdir())


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eloss"
NO_CHARACTER = "\ud800"  # half of one, which JSON can name and no terminal can be sent


@pytest.mark.parametrize("options", [[], ["--metric", "nothing"], ["--step", "nothing"], ["--json"]])
def test_terminal_escapes_are_never_printed_raw(tmp_path, capsys, options):
    (tmp_path / "log.csv").write_text(f"step,val_{ESCAPES},{ESCAPES}\n" + "".join(f"{i},{i},x\n" for i in range(9)))
    lines = [
        json.dumps({"step": i, f"val_{ESCAPES}{NO_CHARACTER}": i, "run": ESCAPES, "optimizer": ESCAPES})
        for i in range(9)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (tmp_path / "odd").mkdir()
    for name in ("a", "b"):
        (tmp_path / "odd" / f"{ESCAPES}{name}.csv").write_text("step,val_loss\n1,2\n")
    for path in (tmp_path / "log.csv", tmp_path / "log.jsonl", tmp_path / "odd"):
        with pytest.raises(SystemExit):
            main(["advise", str(path), *options])
        shown = "".join(capsys.readouterr())
        assert shown
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


def test_formulas_in_cells_are_spelled():
    assert [
        plain_text.plain_cell(text) for text in ("=1+1", "@SUM(A1)", "+cmd", "-cmd", "\t=1", "a=b", "", "-1e-5")
    ] == [
        "'=1+1",
        "'@SUM(A1)",
        "'+cmd",
        "'-cmd",
        "'\t=1",
        "a=b",
        "",
        "-1e-5",
    ]
