"""The prepared tokens on disk: made once, proven whole when read, made anew where they are not."""

import json
import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch
from small_data import small

from oneclock.lab.data import load_task
from oneclock.lab.data.cache import cached
from oneclock.lab.experiments import override
from oneclock.lab.training import train


def build_cache(root, barrier, results):
    def write(file):
        (root / f"written-{os.getpid()}").touch()
        file.write(np.arange(1000, dtype=np.uint16).tobytes())

    barrier.wait()
    results.put(cached(root, "x", {"key": 1}, np.uint16, write).values.tolist() == list(range(1000)))


def test_two_processes_build_the_cache_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=build_cache, args=(tmp_path, barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [True, True]
    for process in processes:
        process.join()
    assert len(list(tmp_path.glob("written-*"))) == 1


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    def write(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        cached(tmp_path, "x", 1, np.uint16, write)
    assert [path.suffix for path in (tmp_path / "tokens").iterdir()] == [".lock"]


def files_of(root):
    return {path.name for path in (root / "tokens").iterdir()}


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a flipped bit": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "emptied": lambda path: path.write_bytes(b""),
    "zeroes": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "no seal": lambda path: path.with_suffix(".json").unlink(),
    "a torn seal": lambda path: path.with_suffix(".json").write_text('{"bytes": 12'),
    "another count in the seal": lambda path: path.with_suffix(".json").write_text(
        path.with_suffix(".json").read_text().replace('"tokens": ', '"tokens": 1')
    ),
    "another's seal": lambda path: path.with_suffix(".json").write_text(
        json.dumps({"bytes": path.stat().st_size, "sha256": "0" * 64, "notes": {}})
    ),
}


@pytest.mark.parametrize("name", ["nanogpt-wikitext103", "llama60m-c4"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_named_set_aside_and_made_anew(name, kind, tmp_path, capfd):
    spec = small(name, tmp_path)
    before = load_task(spec, tmp_path)
    batch, files = before.batch(1, 0, 0), files_of(tmp_path)
    (path,) = (tmp_path / "tokens").glob(f"{spec.data.source}-train-*.bin")
    DAMAGE[kind](path)
    capfd.readouterr()
    after = load_task(spec, tmp_path)
    assert capfd.readouterr().err.count(f"{path} is damaged") == 1
    again = after.batch(1, 0, 0)
    assert all(torch.equal(again[key], batch[key]) for key in batch)
    assert after.content == before.content
    assert files_of(tmp_path) == {*files, f"{path.name}.damaged"}
    load_task(spec, tmp_path)
    assert capfd.readouterr().err == ""


def test_the_record_names_what_was_read(tmp_path):
    """Other text is another hash, although the source has the same name; the same text is the same hash."""
    spec = small("nanogpt-wikitext103", tmp_path / "data")
    recorded = []
    for number in range(3):
        if number == 2:
            file = tmp_path / "data" / "wikitext103" / "validation-00000-of-00001.parquet"
            file.write_bytes((tmp_path / "data" / "wikitext103" / "train-00000-of-00001.parquet").read_bytes())
        train(spec, 0.9, 1, tmp_path / f"run{number}", data_dir=tmp_path / "data")
        recorded.append(json.loads((tmp_path / f"run{number}" / "run.json").read_text())["environment"]["data"])
    assert recorded[0] == recorded[1] != recorded[2]


def test_ids_beyond_the_tokenizer_are_a_clear_error(tmp_path):
    """A file that is whole, and was sealed with ids which no such tokenizer gives."""
    spec = small("nanogpt-wikitext103", tmp_path)
    load_task(spec, tmp_path)
    (path,) = (tmp_path / "tokens").glob("wikitext103-train-*.bin")
    ids = np.fromfile(path, np.uint16)
    ids[7] = 60_000
    path.unlink()
    path.with_suffix(".json").unlink()
    label, key = "wikitext103-train", path.stem.rpartition("-")[2]
    made = cached(tmp_path, label, "forged", np.uint16, lambda file: file.write(ids.tobytes()) and {"tokens": len(ids)})
    (forged,) = (tmp_path / "tokens").glob("wikitext103-train-*.bin")
    assert made.values[7] == 60_000
    for suffix in (".bin", ".json"):
        forged.with_suffix(suffix).rename(forged.with_name(f"{label}-{key}{suffix}"))
    with pytest.raises(ValueError, match=r"have an id 60000, and the tokenizer 'gpt2' ends at \d+: delete") as caught:
        load_task(spec, tmp_path)
    assert "\n" not in str(caught.value)


def killed_while_writing(root):
    def write(file):
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    cached(root, "killed", 1, np.uint16, write)


def test_what_a_killed_writer_leaves_is_removed_by_the_next(tmp_path):
    child = multiprocessing.get_context("fork").Process(target=killed_while_writing, args=(tmp_path,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert [name for name in files_of(tmp_path) if name.endswith(".new")]
    cached(tmp_path, "another", 2, np.uint16, lambda file: None)
    assert {name.rpartition(".")[2] for name in files_of(tmp_path)} == {"lock", "bin", "json"}
    assert not any(name.startswith("killed") for name in files_of(tmp_path))


def test_a_source_that_breaks_off_leaves_no_tokens(tmp_path):
    spec = small("nanogpt-openwebtext", tmp_path)
    shard = tmp_path / "openwebtext" / "train-00001-of-00002.parquet"
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    for form in (spec, override(spec, ["data.held_out_by=drawn"])):
        with pytest.raises(ValueError, match="of openwebtext cannot be read to its end") as caught:
            load_task(form, tmp_path)
        assert "\n" not in str(caught.value)
        assert not list((tmp_path / "tokens").glob("*.bin"))
        assert not list((tmp_path / "tokens").glob(".*.new"))
