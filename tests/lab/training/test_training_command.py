"""`oneclock lab train` as a person meets it: progress, Ctrl-C, a second start, and one clear line for what is wrong."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chaos
import pytest
from small_data import SETTINGS, small

from oneclock.cli import main
from oneclock.rule import beta_for

NAME = "vitb16-cifar100"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    small(NAME, tmp_path / "data")
    return tmp_path


def arguments(study: Path, *more: str, beta: str = "0.9", out: str | None = None) -> list[str]:
    settings = [word for setting in SETTINGS[NAME] for word in ("--set", setting)]
    where = ["--out", out or str(study / "out"), "--data-dir", str(study / "data")]
    return ["lab", "train", NAME, "--beta", beta, *where, *settings, *more]


def call(words: list[str], capsys: Any) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


def folder(study: Path, beta: str = "0.9") -> Path:
    return study / "out/runs" / NAME / f"beta-{beta}-seed-1"


def test_trains_then_reports(study: Path, capsys: Any) -> None:
    code, out, err = call(arguments(study), capsys)
    assert code == 0
    assert out.startswith("finished: best validation loss ")
    assert str(folder(study)) in out
    assert "6/6" in err
    assert " val " in err
    before = (folder(study) / "result.json").read_bytes()
    code, again, err = call(arguments(study), capsys)
    assert (code, again, err) == (0, "already " + out, "")
    assert (folder(study) / "result.json").read_bytes() == before


def test_horizon_pairs_and_steps(study: Path, capsys: Any) -> None:
    words = arguments(study, "--steps", "2", "--horizon", "2k")
    del words[3:5]
    for more, beta in [((), beta_for(2_000)), (("--rule", "paper"), 0.5)]:
        assert call([*words, *more], capsys)[0] == 0
        header = json.loads((folder(study, str(beta)) / "run.json").read_text())
        assert (header["budget"], header["spec"]["budget"], header["beta"]) == (2, 2, beta)
    assert call(arguments(study, beta="0.9,0.999"), capsys)[0] == 0
    assert (study / "out/runs" / NAME / "betas-0.9-0.999-seed-1/result.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["vitb16-cifar10", "--beta", "0.9"],
            "there is no experiment 'vitb16-cifar10'; did you mean 'vitb16-cifar100'?",
        ),
        (
            [NAME, "--beta", "0.9", "--set", "optimizer.rl=1"],
            "has no setting 'optimizer.rl'; did you mean 'optimizer.lr'?",
        ),
        ([NAME, "--beta", "0.9", "--set", "optimizer.lr=fast"], "optimizer.lr"),
        ([NAME, "--beta", "1.2"], "beta must be a number in [0, 1), got 1.2"),
        ([NAME, "--beta", "fast"], "--beta must be a number"),
        ([NAME, "--beta", "0.9,0.9,0.9"], "--beta takes one number or two"),
        ([NAME], "give exactly one of --beta and --horizon"),
        ([NAME, "--beta", "0.9", "--horizon", "9000"], "give exactly one of --beta and --horizon"),
        ([NAME, "--beta", "0.9", "--rule", "paper"], "--rule"),
        ([NAME, "--beta", "0.9", "--steps", "0"], "budget must be at least 1"),
        ([NAME, "--beta", "0.9", "--log-with", "abacus"], "choose among tensorboard, wandb, mlflow, trackio"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, capsys: Any, words: list[str], message: str) -> None:
    code, out, err = call(["lab", "train", *words, "--out", str(tmp_path / "out")], capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("oneclock: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("run.json"))


def test_a_run_that_another_process_trains_is_left_to_it(study: Path, capsys: Any) -> None:
    folder(study).mkdir(parents=True)
    with chaos.held_elsewhere(folder(study)):
        code, out, err = call(arguments(study), capsys)
    assert (code, out) == (2, "")
    assert "is being worked on by process" in err
    assert call(arguments(study), capsys)[0] == 0
    assert not list(folder(study).glob("claim-*"))


def test_an_unwritable_folder_is_one_line(study: Path, capsys: Any) -> None:
    (study / "file").write_text("in the way")
    code, _, err = call(arguments(study, out=str(study / "file" / "below")), capsys)
    assert code == 2
    assert err.startswith(f"oneclock: cannot write the run in {study}/file/below")
    assert err.count("\n") == 1
    assert (study / "file").read_text() == "in the way"


def test_a_full_disk_is_one_line(study: Path, capfd: Any, in_child: Callable[[Callable[[], object]], int]) -> None:
    """A limit on the size of files stands for the disk: records fit, a checkpoint does not."""

    def starved() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        main(arguments(study, "--checkpoint-steps", "4"))

    code = in_child(starved)
    err = capfd.readouterr().err.splitlines()
    assert code == 2
    assert [line for line in err if line.startswith("oneclock: ")] == [err[-1]]
    assert err[-1].startswith(f"oneclock: no room to write the run in {folder(study)}")
    assert [json.loads(line)["step"] for line in (folder(study) / "curve.jsonl").read_text().splitlines()] == [3]
    assert in_child(lambda: main(arguments(study))) == 0


def test_a_corrupt_checkpoint_is_one_line(study: Path, capsys: Any) -> None:
    call(arguments(study, beta="0.5"), capsys)
    earlier = {path: path.read_bytes() for path in folder(study, "0.5").iterdir()}
    (folder(study) / "checkpoint").mkdir(parents=True)
    (folder(study) / "checkpoint/step-4-00000000.pt").write_bytes(b"not a checkpoint")
    code, _, err = call(arguments(study), capsys)
    assert code == 2
    assert err.count("\n") == 1
    assert f"the checkpoint in {folder(study) / 'checkpoint'} is damaged" in err
    assert "delete that folder" in err
    assert {path: path.read_bytes() for path in folder(study, "0.5").iterdir()} == earlier


def test_ctrl_c_leaves_a_resumable_run(study: Path, capsys: Any) -> None:
    longer = ["--steps", "40"]
    words = [sys.executable, "-m", "oneclock", *arguments(study, *longer)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder(study) / "curve.jsonl").exists():
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "oneclock: stopped at step " in err.splitlines()[-1]
    assert "the same command continues it" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (folder(study) / "result.json").exists()
    call(arguments(study, *longer), capsys)
    call(arguments(study, *longer, out=str(study / "whole")), capsys)
    whole = study / "whole/runs" / NAME / "beta-0.9-seed-1"
    assert (folder(study) / "curve.jsonl").read_bytes() == (whole / "curve.jsonl").read_bytes()


def test_a_terminal_gets_a_bar(study: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["COLUMNS"], os.environ["TERM"] = "160", "xterm"
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        try:
            main(arguments(study))
        finally:
            sys.stdout.flush()
            os._exit(0)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.waitpid(child, 0)
    os.close(terminal)
    text = shown.decode()
    assert f"{NAME}, beta 0.9, seed 1" in text
    assert "6/6" in text
    assert "━" in text
    assert "train " in text
    assert "finished: best validation loss" in text
