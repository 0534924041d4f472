"""A claim tells one process from every other, also where it is damaged or its process has slept for too long."""

import json
import os
import subprocess
import sys
from pathlib import Path

import chaos
import pytest

from oneclock.runs.files import read_json, write_json
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.lock import Claim, Held, holder, me


def test_a_flipped_bit_in_the_claim_of_a_live_process_gives_its_folder_to_nobody(tmp_path):
    with Claim.take(tmp_path) as claim:
        data = claim.path.read_bytes()
        for place in range(len(data)):
            for bit in range(8):
                claim.path.write_bytes(data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :])
                assert holder(tmp_path) is not None
                assert not claim.lost
        with pytest.raises(Held):
            Claim.take(tmp_path)


def test_a_claim_without_a_seal_is_of_an_older_oneclock(tmp_path):
    (tmp_path / "claim-1.json").write_text(json.dumps({"host": "elsewhere", "pid": 1, "born": "0"}))
    assert str(holder(tmp_path)) == "process 1 on elsewhere"


def test_a_claim_is_let_go_of_once_and_not_in_the_place_of_the_next_one(tmp_path):
    first = Claim.take(tmp_path)
    first.release()
    with chaos.held_elsewhere(tmp_path):
        first.release()
        assert holder(tmp_path) not in (None, me())


def test_who_slept_and_was_taken_over_lets_the_next_one_keep_its_claim(tmp_path):
    slept = Claim.take(tmp_path)
    slept.path.unlink()
    with chaos.held_elsewhere(tmp_path):
        slept.release()
        assert holder(tmp_path) not in (None, me())


@pytest.fixture
def taken_over(tmp_path):
    """A run that logged under its claim, which another process has taken over, finished, or claimed anew."""
    claim = Claim.take(tmp_path)
    run = RunFolder.start(tmp_path, RunKey("digits", beta=0.9, seed=1, budget=30))
    run.log(10, val_loss=2.0)
    claim.path.unlink()
    code = "import sys; from oneclock.runs.lock import *; c = Claim.take(Path(sys.argv[1]))\n"
    code += "print(c.path.name, flush=True); input(); c.release(); print('released', flush=True); input()"
    line = [sys.executable, "-c", code, str(tmp_path)]
    other = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == f"{claim.path.name}\n"
    yield run, other
    other.communicate("end\nend\n")
    claim.release()


@pytest.mark.parametrize("released", [False, True])
def test_who_was_taken_over_writes_nothing_more(taken_over, released):
    run, other = taken_over
    if released:
        other.stdin.write("release\n")
        other.stdin.flush()
        assert other.stdout.readline() == "released\n"
    before = {path: path.read_bytes() for path in Path(run.path).iterdir()}
    for write in (
        lambda: run.log(20, val_loss=1.0),
        lambda: run.rewind(5),
        lambda: run.finish("finished", seconds=1.0),
    ):
        with pytest.raises(Held, match="was taken over by another process"):
            write()
    assert {path: path.read_bytes() for path in Path(run.path).iterdir()} == before


def test_two_writers_of_one_pid_on_two_hosts_do_not_share_a_temporary_file(tmp_path, monkeypatch):
    path, to_disk = tmp_path / "result.json", os.fsync

    def other_host_writes(descriptor):
        monkeypatch.setattr(os, "fsync", to_disk)
        write_json(path, {"writer": "second"})
        to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", other_host_writes)
    write_json(path, {"writer": "first"})
    assert read_json(path)["writer"] == "first"
    assert os.listdir(tmp_path) == ["result.json"]
