"""Bad data, by the command: one clear line, no run begun, nothing half-written left among the data."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import SETTINGS, documents, small, write_jsonl, write_parquet

from oneclock.cli import main
from oneclock.lab.training import train

Damage = Callable[[Path], object]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def renamed(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def saved_and_cut(root: Path) -> None:
    """WikiText as datasets saves it, its training split cut."""
    from datasets import Dataset, DatasetDict

    emptied(root / "wikitext103")
    parts = {split: Dataset.from_dict({"text": documents(400)}) for split in ("train", "validation")}
    DatasetDict(parts).save_to_disk(root / "wikitext103")
    cut(next((root / "wikitext103/train").glob("*.arrow")))


def without_a_class_in_its_table(root: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for path in (root / "caltech256").rglob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.filter(pc.not_equal(table["text"], "backpack")), path)


def without_a_class(root: Path) -> None:
    for part in ("train", "val"):
        shutil.rmtree(root / "cifar100" / part / "class2")


WIKITEXT, OPENWEBTEXT, C4, SLIMPAJAMA, T5 = (
    "nanogpt-wikitext103",
    "nanogpt-openwebtext",
    "llama60m-c4",
    "llama60m-slimpajama",
    "t5small-bookcorpus",
)
CIFAR, FOOD, TINY, IMAGENET, CARS, CALTECH = (
    "vitb16-cifar100",
    "resnet50-food101",
    "vitb16-tinyimagenet",
    "resnet50-imagenet100",
    "efficientnetb0-cars",
    "swint-caltech256",
)
ABSENT = "is not here and could not be downloaded"
CASES: dict[str, tuple[str, Damage, str]] = {
    "a cut shard, parquet": (
        WIKITEXT,
        lambda root: cut(root / "wikitext103/train-00000-of-00001.parquet"),
        "the train split of wikitext103 cannot be read to its end",
    ),
    "a cut shard, permuted": (
        OPENWEBTEXT,
        lambda root: cut(root / "openwebtext/train-00001-of-00002.parquet"),
        "the train split of openwebtext cannot be read to its end",
    ),
    "a cut shard, compressed lines": (
        C4,
        lambda root: cut(root / "c4/train.00000-of-01024.jsonl.gz"),
        "the train split of c4 cannot be read to its end",
    ),
    "a cut shard, lines": (
        SLIMPAJAMA,
        lambda root: cut(root / "slimpajama6b/validation.jsonl"),
        "the validation split of slimpajama6b cannot be read to its end",
    ),
    "a cut shard, as datasets saves it": (WIKITEXT, saved_and_cut, "the train split of wikitext103 cannot be read"),
    "a cut shard, images": (
        CALTECH,
        lambda root: cut(root / "caltech256/data/train-00000-of-00001.parquet"),
        "cannot be read to its end",
    ),
    "a wrong split, text": (
        WIKITEXT,
        lambda root: renamed(root / "wikitext103/validation-00000-of-00001.parquet", "test-00000-of-00001.parquet"),
        f"the validation split of wikitext103 {ABSENT}",
    ),
    "a wrong split, table": (
        CALTECH,
        lambda root: renamed(root / "caltech256/data/validation-00000-of-00001.parquet", "other.parquet"),
        "no files of the validation split",
    ),
    "a wrong split, folders": (CIFAR, lambda root: renamed(root / "cifar100/val", "other"), "none to validate with"),
    "too few classes": (CIFAR, without_a_class, "cifar100 has 2 classes to train on, up to number 1, and the model 3"),
    "too few classes, table": (
        CALTECH,
        without_a_class_in_its_table,
        "caltech256 has 2 classes to train on, up to number 1, and the model 3",
    ),
    "too few classes, distributed": (
        TINY,
        lambda root: shutil.rmtree(root / "tiny-imagenet-200/train/n01443537"),
        "tiny-imagenet-200: training and validation differ in their classes, first 'n01443537'",
    ),
    "too few rows": (
        T5,
        lambda root: (root / "bookcorpus/train.txt").write_text("one\ntwo\n"),
        "bookcorpus has 2 documents, of which 12 are to be held out",
    ),
    "cut annotations": (
        CARS,
        lambda root: cut(root / "stanford_cars/devkit/cars_train_annos.mat"),
        "stanford_cars: ",
    ),
    "a cut list": (FOOD, lambda root: cut(root / "food-101/meta/train.json"), "food-101: "),
    "an empty folder, text": (WIKITEXT, lambda root: emptied(root / "wikitext103"), f"wikitext103 {ABSENT}"),
    "an empty folder, images": (CIFAR, lambda root: emptied(root / "cifar100/train"), "holds no class folders"),
    "an empty folder, distributed": (TINY, lambda root: emptied(root / "tiny-imagenet-200"), "tiny-imagenet-200"),
    "an empty file": (C4, lambda root: (root / "c4/train.00000-of-01024.jsonl.gz").write_bytes(b""), "c4"),
    "an empty table": (SLIMPAJAMA, lambda root: write_jsonl(root / "slimpajama6b/train.jsonl", []), "slimpajama6b"),
    "an empty folder, in parts": (
        IMAGENET,
        lambda root: emptied(root / "imagenet100"),
        "imagenet100 has no train.X1 to train.X4",
    ),
    "no network, text": (SLIMPAJAMA, lambda root: shutil.rmtree(root / "slimpajama6b"), f"slimpajama6b {ABSENT}"),
    "no network, tokenizer": (WIKITEXT, lambda root: shutil.rmtree(root / "tokenizers"), "the tokenizer 'gpt2' is not"),
    "no network, torchvision's": (FOOD, lambda root: shutil.rmtree(root / "food-101"), f"food101 {ABSENT}"),
    "no network, in parts": (
        IMAGENET,
        lambda root: shutil.rmtree(root / "imagenet100"),
        f"imagenet100 {ABSENT}",
    ),
    "no network, by hand": (CARS, lambda root: shutil.rmtree(root / "stanford_cars"), f"cars {ABSENT}"),
}


def whole(path: Path) -> bool:
    """The tokens of a split that was read to its end, and their seal, or a table that datasets has copied to its end:
    they are used again."""
    seal = path.with_suffix(".json")
    tokens = path.parent.name == "tokens" and seal.exists() and seal.with_suffix(".bin").exists()
    return tokens or ("arrow" in path.parts and (path.parent / "dataset_info.json").exists())


@pytest.mark.parametrize("case", CASES)
def test_bad_data_is_one_line_and_leaves_nothing(case: str, tmp_path: Path, capsys: Any) -> None:
    name, damage, message = CASES[case]
    data = tmp_path / "data"
    small(name, data)
    damage(data)
    before = {path for path in data.rglob("*") if path.is_file()}
    capsys.readouterr()  # what the libraries say while the data are made
    settings = [word for setting in SETTINGS[name] for word in ("--set", setting)]
    with pytest.raises(SystemExit) as ended:
        main(
            ["lab", "train", name, "--beta", "0.9", "--out", str(tmp_path / "out"), "--data-dir", str(data), *settings]
        )
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("oneclock: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    left = {path for path in data.rglob("*") if path.is_file()} - before
    assert not [path.relative_to(data) for path in left if path.suffix != ".lock" and not whole(path)]


def test_without_its_checkpoint_t5_is_not_begun(tmp_path: Path, capsys: Any) -> None:
    small(T5, tmp_path / "data")
    settings = [one for one in SETTINGS[T5] if not one.startswith("model.checkpoint")]
    arguments = [
        "lab",
        "train",
        T5,
        "--beta",
        "0.9",
        "--out",
        str(tmp_path / "out"),
        "--data-dir",
        str(tmp_path / "data"),
    ]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, *(word for setting in settings for word in ("--set", setting))])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert "the checkpoint 't5-small' is not here and cannot be downloaded" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "pattern"), [(TINY, "train/**/*.JPEG"), (CIFAR, "train/**/*.png")])
def test_an_image_that_cannot_be_decoded_is_named(name: str, pattern: str, tmp_path: Path, capsys: Any) -> None:
    small(name, tmp_path / "data")
    for path in (tmp_path / "data").rglob(pattern):
        cut(path)
    settings = [word for setting in SETTINGS[name] for word in ("--set", setting)]
    arguments = ["lab", "train", name, "--beta", "0.9", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--data-dir", str(tmp_path / "data"), *settings])
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n")) == (2, 1)
    assert f"the image {tmp_path / 'data'}" in err
    assert "cannot be decoded" in err


@pytest.mark.parametrize(("name", "change"), [
    (CIFAR, lambda root: renamed(root / "cifar100/train/class1/train0.png", "train9.png")),
    (WIKITEXT, lambda root: write_parquet(root / "wikitext103/validation-00000-of-00001.parquet", documents(31))),
])  # fmt: skip
def test_a_run_does_not_go_on_with_other_data(name: str, change: Damage, tmp_path: Path) -> None:
    spec = small(name, tmp_path / "data")
    stops = iter([False, False, True])
    with pytest.raises(KeyboardInterrupt):
        train(spec, 0.9, 1, tmp_path / "run", data_dir=tmp_path / "data", stop=lambda: next(stops))
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    change(tmp_path / "data")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(ValueError, match="was begun on other data "):
        train(spec, 0.9, 1, tmp_path / "run", data_dir=tmp_path / "data")
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert train(spec, 0.9, 1, tmp_path / "run", data_dir=tmp_path / "copy").status == "finished"
