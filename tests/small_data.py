"""Small local data sets in the real formats, and the experiments cut down to fit them: for tests of data and training.

`small(name, root)` writes what experiment `name` needs below `root` and returns it with reduced width, batch and
budget; `SETTINGS[name]` are the same reductions as `--set` overrides for the command line.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from oneclock.lab.experiments import Experiment, find, override

_COMMON = """the of and to a in that is was he for it with as his on be at by i this had not are but from or have an
they which one you were her all she there would their we him been has when who will more no if out so said what up"""
WORDS = _COMMON.split()

_TEXT = ["data.length=32", "batch_size=2", "accumulate=2", "budget=6", "evaluation.every=3", "schedule.warmup_steps=2"]
_GPT2 = [*_TEXT, "evaluation.batches=2", "model.layers=1", "model.heads=2", "model.width=16", "model.vocabulary=400"]
_LLAMA = [
    *_TEXT, "evaluation.tokens=256", "model.layers=1", "model.heads=2", "model.width=16", "model.intermediate=32",
    "model.vocabulary=400",
]  # fmt: skip
_IMAGES = ["data.augmentation.crop=32", "data.augmentation.resize=36", "batch_size=4", "budget=6", "evaluation.every=3"]
_VIT = [
    *_IMAGES, "schedule.warmup_steps=2", "model.classes=3", "model.image=32", "model.patch=8", "model.layers=1",
    "model.heads=2", "model.width=16", "model.feed_forward=32",
]  # fmt: skip
_RESNET = [*_IMAGES, "model.classes=3", "model.width=8", "model.blocks=1,1,1,1", "model.stem=small"]

SETTINGS: dict[str, list[str]] = {
    "nanogpt-wikitext103": _GPT2,
    "nanogpt-openwebtext": [*_GPT2, "data.held_out_share=0.1"],
    "llama60m-c4": _LLAMA,
    "llama60m-slimpajama": _LLAMA,
    "vitb16-cifar100": _VIT,
    "vitb16-tinyimagenet": _VIT,
    "resnet50-food101": _RESNET,
    "resnet50-imagenet100": _RESNET,
    "efficientnetb0-cars": [
        *_IMAGES, "schedule.warmup_steps=2", "model.classes=3", "model.width_multiplier=0.25",
        "model.depth_multiplier=0.3", "model.stem=small",
    ],
    "t5small-bookcorpus": [
        *_TEXT, "data.held_out_documents=12", "evaluation.batch_size=2", "model.checkpoint=none", "model.layers=1",
        "model.heads=2", "model.width=16", "model.feed_forward=32", "model.head_width=8", "model.vocabulary=512",
    ],
    "swint-caltech256": [
        *_IMAGES, "schedule.warmup_steps=2", "model.classes=3", "model.patch=2",
        "model.width=16", "model.depths=1,1", "model.heads=2,4", "model.window=4",
    ],
}  # fmt: skip
SETTINGS |= {
    "nanogpt-wikitext103-as-printed": SETTINGS["nanogpt-wikitext103"],
    "nanogpt-openwebtext-as-printed": SETTINGS["nanogpt-openwebtext"],
    "swint-caltech256-as-printed": [*SETTINGS["swint-caltech256"], "data.train_per_class=4"],
}


def small(name: str, root: Path) -> Experiment:
    """Experiment `name` on a small scale, its data written below `root` in the layout of its source."""
    experiment = override(find(name), SETTINGS[name])
    source = experiment.data.source
    WRITERS[f"{source}-as-printed" if name == "swint-caltech256-as-printed" else source](root)
    return experiment


def documents(count: int, seed: int = 0, words: int = 40) -> list[str]:
    """Sentences of common words, each beginning with its own number."""
    rng = np.random.default_rng(seed)
    return [f"{number} " + " ".join(rng.choice(WORDS, words)) for number in range(count)]


def write_tokenizers(root: Path) -> None:
    """Real tokenizer files, trained on the spot: byte-level BPE as gpt2, unigrams with sentinels as t5-*."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    texts = documents(200)
    gpt2 = Tokenizer(models.BPE())
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    gpt2.train_from_iterator(texts, trainer)
    t5 = Tokenizer(models.Unigram())
    t5.pre_tokenizer = pre_tokenizers.Metaspace()
    unigrams = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    t5.train_from_iterator(texts, unigrams)
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(100))]
    pieces = [tuple(piece) for piece in json.loads(t5.to_str())["model"]["vocab"]]
    t5.model = models.Unigram([*pieces, *((name, 0.0) for name in sentinels)], unk_id=2)  # as T5's own files do
    t5.add_special_tokens(sentinels)
    for name, tokenizer in (("gpt2", gpt2), ("t5-small", t5), ("t5-base", t5)):
        folder = root / "tokenizers" / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"))


def write_parquet(path: Path, texts: list[str]) -> None:
    """A parquet file with the one column `text`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": texts}), path)


def write_jsonl(path: Path, texts: list[str]) -> None:
    """JSON lines with a `text` in each, compressed where the name ends in .gz."""
    import gzip

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"text": text, "url": "https://example.org"}) + "\n" for text in texts).encode()
    path.write_bytes(gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines)


def write_image(path: Path, label: int, number: int, size: int = 40) -> None:
    """A noisy image in the colour of its class."""
    rng = np.random.default_rng([label, number])
    pixels = rng.integers(0, 80, (size, size, 3))
    pixels[..., label % 3] += 150
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def _wikitext103(root: Path) -> None:
    write_tokenizers(root)
    write_parquet(root / "wikitext103" / "train-00000-of-00001.parquet", documents(120, seed=1))
    write_parquet(root / "wikitext103" / "validation-00000-of-00001.parquet", documents(30, seed=2))


def _openwebtext(root: Path) -> None:
    write_tokenizers(root)
    write_parquet(root / "openwebtext" / "train-00000-of-00002.parquet", documents(80, seed=1))
    write_parquet(root / "openwebtext" / "train-00001-of-00002.parquet", documents(60, seed=2))


def _c4(root: Path) -> None:
    write_tokenizers(root)
    write_jsonl(root / "c4" / "train.00000-of-01024.jsonl.gz", documents(120, seed=1))
    write_jsonl(root / "c4" / "validation.00000-of-00008.jsonl.gz", documents(30, seed=2))


def _slimpajama6b(root: Path) -> None:
    write_tokenizers(root)
    write_jsonl(root / "slimpajama6b" / "train.jsonl", documents(120, seed=1))
    write_jsonl(root / "slimpajama6b" / "validation.jsonl", documents(30, seed=2))


def _bookcorpus(root: Path) -> None:
    write_tokenizers(root)
    (root / "bookcorpus").mkdir(parents=True, exist_ok=True)
    (root / "bookcorpus" / "train.txt").write_text("\n".join(documents(140, seed=1)) + "\n")


def _class_folders(folder: Path, train: int = 6, validation: int = 3) -> None:
    for part, count in (("train", train), ("val", validation)):
        for label in range(3):
            for number in range(count):
                write_image(
                    folder / part / f"class{label}" / f"{part}{number}.png", label, number + 100 * (part == "val")
                )


def _food101(root: Path) -> None:
    folder = root / "food-101"
    (folder / "meta").mkdir(parents=True)
    for part, numbers in (("train", range(6)), ("test", range(6, 9))):
        listed: dict[str, list[str]] = {}
        for label, name in enumerate(("apple_pie", "bibimbap", "churros")):
            for number in numbers:
                write_image(folder / "images" / name / f"{number}.jpg", label, number)
                listed.setdefault(name, []).append(f"{name}/{number}")
        (folder / "meta" / f"{part}.json").write_text(json.dumps(listed))


def _tinyimagenet(root: Path) -> None:
    folder = root / "tiny-imagenet-200"
    lines = []
    for label, name in enumerate(("n01443537", "n01629819", "n01641577")):
        for number in range(6):
            write_image(folder / "train" / name / "images" / f"{name}_{number}.JPEG", label, number)
        for number in range(3):
            file = f"val_{3 * label + number}.JPEG"
            write_image(folder / "val" / "images" / file, label, number + 100)
            lines.append(f"{file}\t{name}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))


def _imagenet100(root: Path) -> None:
    folder = root / "imagenet100"
    for label, name in enumerate(("n01440764", "n01443537", "n01484850")):
        for number in range(6):
            write_image(folder / f"train.X{label % 2 + 1}" / name / f"{name}_{number}.JPEG", label, number)
        for number in range(3):
            write_image(folder / "val.X" / name / f"val_{number}.JPEG", label, number + 100)


def _cars(root: Path) -> None:
    from scipy.io import savemat

    folder = root / "stanford_cars"
    (folder / "devkit").mkdir(parents=True)
    names = np.array(["Acura RL Sedan 2012", "BMW M3 Coupe 2012", "Fiat 500 Abarth 2012"], dtype=object)
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names})
    for part, labels in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        rows = []
        for number in range(18 if part == "train" else 9):
            file = f"{number + 1:05d}.jpg"
            write_image(folder / f"cars_{part}" / file, number % 3, number + 100 * (part == "test"))
            rows.append((1, 1, 30, 30, number % 3 + 1, file))
        kinds = [*((name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"))]
        savemat(folder / labels, {"annotations": np.array(rows, dtype=kinds)})


def _caltech256(root: Path) -> None:
    """As the hub's copy: parquet files with an image, a label from 1 on and the class's name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("ak47", "american-flag", "backpack", "clutter")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for part, count in (("train", 6), ("validation", 3), ("test", 2)):
        rows: list[tuple[dict[str, object], int, str]] = []
        for number in range(count):
            for label, name in enumerate(names):
                file = root / "pictures" / f"{part}-{name}-{number}.jpg"
                write_image(file, label, number + 100 * (part != "train"))
                rows.append(({"bytes": file.read_bytes(), "path": None}, label + 1, name))
        images, labels, texts = zip(*rows, strict=True)
        table = pa.table({"image": pa.array(images, kind), "label": labels, "text": texts})
        path = root / "caltech256" / "data" / f"{part}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)


def _caltech256_folders(root: Path) -> None:
    folder = root / "caltech256" / "256_ObjectCategories"
    for label, name in enumerate(("001.ak47", "002.american-flag", "003.backpack", "257.clutter")):
        for number in range(7 + label):
            write_image(folder / name / f"{label + 1:03d}_{number + 1:04d}.jpg", label, number)


WRITERS = {
    "wikitext103": _wikitext103,
    "openwebtext": _openwebtext,
    "c4": _c4,
    "slimpajama6b": _slimpajama6b,
    "bookcorpus": _bookcorpus,
    "cifar100": lambda root: _class_folders(root / "cifar100"),
    "food101": _food101,
    "tinyimagenet": _tinyimagenet,
    "imagenet100": _imagenet100,
    "cars": _cars,
    "caltech256": _caltech256,
    "caltech256-as-printed": _caltech256_folders,
}
"""Source -> a function that writes a small copy of it below a root folder."""
