"""A study packed into one file is the same study, proved whole, and comes back byte for byte."""

import json
import random
import shutil
import sys

import pytest

from oneclock.cli import main
from oneclock.lab.studies.packing import pack, unpack
from oneclock.logs import read_log
from oneclock.runs.files import PACKED, Damaged, files_of_runs, sealed
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.lock import Claim, Held, join, leave
from oneclock.runs.store import open_study
from oneclock.runs.table import read_source
from oneclock.sweep import Execution, run_sweep

BETAS = [0.5, 0.9, 0.99]


def train(beta, seed, run):
    for step in (50, 100):
        run.log(step, val_loss=1 + (beta - 0.9) ** 2 + 1 / step)


def swept(path, **more):
    return run_sweep(
        train, 100, path, name="x", betas=BETAS, seeds=[1], where=Execution(in_process=True), quiet=True, **more
    )


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def complaint(door, path, answer):
    """What the door says of a damaged file, or None where it gives the same answer as before."""
    try:
        found = door(path)
    except ValueError as error:
        return str(error)
    assert found == answer
    return None


@pytest.fixture
def study(tmp_path):
    swept(tmp_path / "study")
    (tmp_path / "study" / "runs" / "x" / "beta-0.9-seed-1" / "output.log").write_bytes(b"caf\xe9 \xff\n")
    return tmp_path / "study"


@pytest.fixture
def packed(study):
    pack(study)
    return study


def test_there_and_back_nothing_is_changed_and_every_door_reads_both(study, tmp_path, capsys):
    before, rows, sweeps, best = contents(study), open_study(study).rows(), read_source(study), open_study(study).best()
    assert pack(study) == study / PACKED
    assert not (study / "runs").exists()
    text = (study / PACKED).read_text("ascii")
    assert (open_study(study).rows(), read_source(study), open_study(study).best()) == (rows, sweeps, best)
    for words in (
        ["status", str(study)],
        ["analyse", str(study)],
        ["report", str(study), "--out", str(tmp_path / "r")],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, capsys.readouterr().err
    unpack(study)
    assert contents(study) == before
    pack(study)
    assert (study / PACKED).read_text("ascii") == text
    assert [json.loads(line).get("run") for line in text.splitlines()] == [
        None, "x/beta-0.5-seed-1", "x/beta-0.9-seed-1", "x/beta-0.99-seed-1",
    ]  # fmt: skip


def test_a_sweep_with_nothing_to_do_leaves_it_and_one_with_more_asks_for_folders(packed):
    before = contents(packed)
    swept(packed)
    assert contents(packed) == before
    more = {"betas": [*BETAS, 0.8], "seeds": [1], "extend": True}
    with pytest.raises(ValueError, match="are packed in one file: `oneclock lab unpack"):
        run_sweep(train, 100, packed, name="x", **more, where=Execution(in_process=True), quiet=True)
    unpack(packed)
    again = run_sweep(train, 100, packed, name="x", **more, where=Execution(in_process=True), quiet=True)
    assert [row.beta for row in again.rows()] == [0.5, 0.8, 0.9, 0.99]
    assert [row.status for row in again.rows()] == ["finished"] * 4


def test_a_lost_study_json_is_written_anew_beside_a_packed_study(packed):
    header = (packed / "study.json").read_bytes()
    (packed / "study.json").unlink()
    assert len(open_study(packed).rows()) == 3
    swept(packed)
    assert (packed / "study.json").read_bytes() == header


def test_a_struck_file_never_changes_a_number_in_silence(packed):
    """Bits flipped, the file cut anywhere and at the ends of lines, a line lost, doubled or moved."""
    path, expected, rows, choose = packed / PACKED, read_source(packed), open_study(packed).rows(), random.Random(0)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    cuts = [data[: choose.randrange(len(data))] for _ in range(40)] + [b"".join(lines[:n]) for n in range(4)]
    flips = [bytearray(data) for _ in range(120)]
    for flipped in flips:
        flipped[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    moved = [b"".join(lines[n] for n in order) for order in ((0, 2, 1, 3), (0, 1, 1, 3), (0, 1, 3), (0, 1, 2, 3, 3))]
    complaints = []
    for struck in (*cuts, *flips, *moved):
        path.write_bytes(struck)
        for door, answer in ((read_source, expected), (lambda place: open_study(place).rows(), rows)):
            complaints += [told] if (told := complaint(door, packed, answer)) else []
    assert len(complaints) > 2 * 150
    assert all(PACKED in told and "\n" not in told for told in complaints)


def test_checkpoints_in_run_folder_move_aside_and_come_back(study, monkeypatch):
    for beta in BETAS[:2]:
        files = study / "runs" / "x" / f"beta-{beta}-seed-1" / "files"
        (files / "deep").mkdir(parents=True)
        (files / "deep" / "weights.pt").write_bytes(b"\0" * 100)
        (files.parent / "output-1.log").write_text("an earlier attempt\n")
    before = contents(study)
    pack(study)
    assert not (study / "runs").exists()
    assert (study / "files" / "x" / "beta-0.5-seed-1" / "deep" / "weights.pt").exists()
    assert [row.status for row in open_study(study).rows()] == ["finished"] * 3
    unpack(study)
    assert contents(study) == before
    assert not (study / "files").exists()
    monkeypatch.setattr("oneclock.lab.studies.packing._remove", lambda runs: sys.exit("killed"))
    with pytest.raises(SystemExit):
        pack(study)
    unpack(study)
    assert contents(study) == before


def test_what_is_not_finished_or_not_a_record_is_not_packed(study):
    identity = RunKey("x", 0.7, 1, 100)
    run = RunFolder.start(study / "runs" / identity.folder, identity)
    with pytest.raises(ValueError, match="has not ended"):
        pack(study)
    run.log(100, val_loss=1.0)
    run.finish("finished", seconds=1.0)
    (run.path / "weights.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"weights.pt is not part of a record"):
        pack(study)
    (run.path / "weights.pt").unlink()
    (run.path / "curve.jsonl").write_text("")
    with pytest.raises(Damaged, match=r"curve.jsonl is damaged"):
        pack(study)
    assert not (study / PACKED).exists()


def test_one_that_is_worked_on_is_left_alone(study):
    with Claim.take(study):
        pass
    pack(study)
    claim = Claim.take(study)
    with pytest.raises(Held):
        unpack(study)
    claim.release()
    with pytest.raises(ValueError, match="no folder runs/ to pack"):
        pack(study)
    unpack(study)
    worker = join(study)
    with pytest.raises(Held, match="1 worker"):
        pack(study)
    leave(worker)
    pack(study)


def test_whoever_reads_meanwhile_reads_all_of_it_or_is_told(study):
    reading = files_of_runs(study)
    next(reading)
    pack(study)
    with pytest.raises(ValueError, match="was packed while it was read"):
        list(reading)


def test_what_a_killed_unpack_left_is_no_run_and_goes(packed):
    for name in (".beta-0.9-seed-1.77", ".beta-0.9-seed-1.78"):
        (packed / "runs" / "x" / name).mkdir(parents=True)
        (packed / "runs" / "x" / name / "run.json").write_text("{")
    unpack(packed)
    assert not list(packed.glob("runs/x/.*"))
    (packed / "runs" / "x" / ".beta-0.9-seed-1.79").mkdir()
    assert len(open_study(packed).folders()) == len(BETAS)


def test_cut_short_it_says_how_to_go_on(study, tmp_path):
    whole = shutil.copytree(study, tmp_path / "whole")
    pack(study)
    shutil.copytree(whole / "runs", study / "runs")
    shutil.rmtree(study / "runs" / "x" / "beta-0.9-seed-1")
    for door in (read_source, lambda path: open_study(path).rows(), pack):
        with pytest.raises(ValueError, match="has both runs/ and runs.jsonl.*`oneclock lab unpack`"):
            door(study)
    unpack(study)
    assert contents(study) == contents(whole)
    pack(study)
    (study / "runs" / "x" / "beta-0.5-seed-1").mkdir(parents=True)
    with pytest.raises(ValueError, match="is not the run in"):
        unpack(study)


@pytest.mark.parametrize("line", [{"run": "../x/y", "files": {}}, {"run": "x/y", "files": {"../../z": "harm"}}])
def test_nothing_is_written_outside_of_the_study(packed, tmp_path, line):
    (packed / PACKED).write_text(f"{sealed({'runs': 1})}\n{sealed(line)}\n")
    with pytest.raises(ValueError, match="do not belong to a run"):
        unpack(packed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study"]


def test_a_log_can_be_a_packed_study_and_a_log_of_others_may_be_called_so(packed, tmp_path):
    assert len(read_log(packed).curves) == len(read_log(packed / PACKED).curves) == 3
    (tmp_path / PACKED).write_text("".join(f'{{"step": {step}, "val_loss": {9 - step}}}\n' for step in range(1, 6)))
    assert read_log(tmp_path / PACKED).curves[0].steps == (1, 2, 3, 4, 5)
