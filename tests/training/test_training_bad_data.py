"""Bad data, by the command: one clear line, no run begun, nothing half-written left among the data."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import SETTINGS, documents, small, write_jsonl, write_parquet

from oneclock.cli import main
from oneclock.training import train

Damage = Callable[[Path], object]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def renamed(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


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
CIFAR, FOOD, TINY, CARS, CALTECH = (
    "vitb16-cifar100",
    "resnet50-food101",
    "vitb16-tinyimagenet",
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
    "too few rows": (
        T5,
        lambda root: (root / "bookcorpus/train.txt").write_text("one\ntwo\n"),
        "bookcorpus has 2 documents, of which 12 are to be held out",
    ),
    "an empty folder, text": (WIKITEXT, lambda root: emptied(root / "wikitext103"), f"wikitext103 {ABSENT}"),
    "an empty folder, images": (CIFAR, lambda root: emptied(root / "cifar100/train"), "holds no class folders"),
    "an empty folder, distributed": (TINY, lambda root: emptied(root / "tiny-imagenet-200"), "tiny-imagenet-200"),
    "an empty file": (C4, lambda root: (root / "c4/train.00000-of-01024.jsonl.gz").write_bytes(b""), "c4"),
    "an empty table": (SLIMPAJAMA, lambda root: write_jsonl(root / "slimpajama6b/train.jsonl", []), "slimpajama6b"),
    "no network, text": (SLIMPAJAMA, lambda root: shutil.rmtree(root / "slimpajama6b"), f"slimpajama6b {ABSENT}"),
    "no network, tokenizer": (WIKITEXT, lambda root: shutil.rmtree(root / "tokenizers"), "the tokenizer 'gpt2' is not"),
    "no network, torchvision's": (FOOD, lambda root: shutil.rmtree(root / "food-101"), f"food101 {ABSENT}"),
    "no network, by hand": (CARS, lambda root: shutil.rmtree(root / "stanford_cars"), f"cars {ABSENT}"),
}


def whole(path: Path) -> bool:
    """The tokens of a split that was read to its end, and their seal: they are used again."""
    seal = path.with_suffix(".json")
    return path.parent.name == "tokens" and seal.exists() and seal.with_suffix(".bin").exists()


@pytest.mark.parametrize("case", CASES)
def test_bad_data_is_one_line_and_leaves_nothing(case: str, tmp_path: Path, capsys: Any) -> None:
    name, damage, message = CASES[case]
    data = tmp_path / "data"
    small(name, data)
    damage(data)
    before = {path for path in data.rglob("*") if path.is_file()}
    settings = [word for setting in SETTINGS[name] for word in ("--set", setting)]
    with pytest.raises(SystemExit) as ended:
        main(["train", name, "--beta", "0.9", "--out", str(tmp_path / "out"), "--data-dir", str(data), *settings])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("oneclock: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    left = {path for path in data.rglob("*") if path.is_file()} - before
    assert not [path.relative_to(data) for path in left if path.suffix != ".lock" and not whole(path)]


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
    with pytest.raises(ValueError, match="was begun on other data .*; give it the data it had, or another folder"):
        train(spec, 0.9, 1, tmp_path / "run", data_dir=tmp_path / "data")
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert train(spec, 0.9, 1, tmp_path / "run", data_dir=tmp_path / "copy").status == "finished"
