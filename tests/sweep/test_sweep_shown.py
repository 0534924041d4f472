"""What is printed of a study does nothing to a terminal, whatever its records say."""

import pytest

from oneclock.cli import main
from oneclock.study.identity import Identity
from oneclock.study.records import Run
from oneclock.sweep import Plan
from oneclock.sweep.protocol import Paper
from oneclock.sweep.targets import target_from

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"


@pytest.mark.parametrize(
    "words", [["status"], ["analyse"], ["analyse", "--full"], ["analyse", "--json"], ["report", "--out", "out"]]
)
def test_nothing_a_record_says_reaches_the_terminal_raw(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    target = target_from(lambda beta, seed, run: None, 100, name=f"x{ESCAPES}")
    Plan("study", [target], Paper(betas=(0.5, 0.9, 0.99), seeds=(1,))).write()
    for beta, status in ((0.5, "finished"), (0.9, "finished"), (0.99, "failed")):
        identity = Identity(target.name, beta, 1, 100)
        run = Run.start(tmp_path / "study" / "runs" / identity.folder, identity)
        run.log(100, val_loss=1 + beta)
        run.finish(status, seconds=1.0, reason=ESCAPES if status == "failed" else None)
    command, *options = words
    for source in ("study", f"no{ESCAPES}.csv"):
        with pytest.raises(SystemExit) as end:
            main([command, source, *options])
        assert end.value.code in ((0, None) if source == "study" else (2,))
        shown = "".join(capsys.readouterr())
        assert shown
        assert not {*"\x1b\x07\x9b\u202e"} & {*shown}
