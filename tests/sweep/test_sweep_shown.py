"""What is printed of a study does nothing to a terminal, whatever its records say."""

from pathlib import Path

import pytest

from oneclock.cli import main
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import Paper
from oneclock.runs.record import RunRecord
from oneclock.sweep import Plan
from oneclock.sweep.api import target_of
from oneclock.sweep.view import table

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"


def write_study(name=f"x{ESCAPES}"):
    """Three runs of a function in ./study, one of them failed."""
    target = target_of(lambda beta, seed, run: None, 100, name=name)
    Plan("study", [target], Paper(betas=(0.5, 0.9, 0.99), seeds=(1,))).write()
    for beta, status in ((0.5, "finished"), (0.9, "finished"), (0.99, "failed")):
        identity = RunKey(target.name, beta, 1, 100)
        run = RunFolder.start(Path("study") / "runs" / identity.folder, identity)
        run.log(100, val_loss=1 + beta)
        run.finish(status, seconds=1.0, reason=ESCAPES if status == "failed" else None)


def test_the_table_of_runs_has_a_rate_only_where_rates_were_swept():
    runs = [RunRecord(RunKey("mine", 0.9, 1, 10, lr), "finished", 10) for lr in (1e-3, None)]
    heads = [[column.header for column in table(rows, 40).columns] for rows in (runs, runs[1:])]
    assert heads[0][:3] == ["beta", "lr", "seed"]
    assert heads[1] == [head for head in heads[0] if head != "lr"]
    assert [*table(runs, 40).columns[1].cells] == ["0.001", ""]


@pytest.mark.parametrize(
    "words", [["status"], ["analyse"], ["analyse", "--full"], ["analyse", "--json"], ["report", "--out", "out"]]
)
def test_nothing_a_record_says_reaches_the_terminal_raw(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    write_study()
    command, *options = words
    for source in ("study", f"no{ESCAPES}.csv"):
        with pytest.raises(SystemExit) as end:
            main([command, source, *options])
        assert end.value.code in ((0, None) if source == "study" else (2,))
        shown = "".join(capsys.readouterr())
        assert shown
        assert not {*"\x1b\x07\x9b\u202e"} & {*shown}
