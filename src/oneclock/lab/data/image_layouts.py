"""The layouts in which image data sets are distributed, each read into training and validation images."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from oneclock import torchvision_guard  # noqa: F401  before torchvision
from oneclock.lab.data.imagenet100 import strangers
from oneclock.lab.data.pictures import (
    FileImages,
    Sets,
    TensorImages,
    by_class,
    images_below,
    split_files,
    split_per_class,
)
from oneclock.lab.experiments.spec import Images

from torchvision import datasets as zoo  # isort: skip


def in_memory(images: np.ndarray, labels: np.ndarray, spec: Images) -> Sets:
    """Grey images (samples, height, width) as three equal channels, split by class."""
    if spec.train_per_class is None:
        raise ValueError(f"{spec.source} has no split of its own: set data.train_per_class")
    train, validation = (
        TensorImages(torch.from_numpy(images[part])[:, None].expand(-1, 3, -1, -1), torch.from_numpy(labels[part]))
        for part in split_per_class(labels, spec.train_per_class, spec.split_seed)
    )
    return train, validation


def has_classes(folder: Path) -> bool:
    """Whether a folder has subfolders, one per class."""
    return folder.is_dir() and any(path.is_dir() for path in folder.iterdir())


def class_folders(folder: Path, spec: Images) -> Sets:
    """FOLDER/train/CLASS/IMAGE and FOLDER/val/CLASS/IMAGE."""
    validation_folders = [folder / name for name in ("val", "validation", "valid", "test") if (folder / name).is_dir()]
    if not validation_folders:
        raise ValueError(f"{folder} has images to train on and none to validate with: add {folder}/val/CLASS/IMAGE")
    train, validation = (_without(images_below(part), spec) for part in (folder / "train", validation_folders[0]))
    _agree(folder, train, validation)
    most = max(train, key=lambda name: len(train[name]))
    if spec.train_per_class is not None and len(train[most]) > spec.train_per_class:
        raise ValueError(
            f"{folder}/train has {len(train[most])} images of the class {most!r}, and the experiment trains on "
            f"{spec.train_per_class} of each: divide it anew, or set data.train_per_class"
        )
    return by_class(train, sorted(train)), by_class(validation, sorted(train))


def cifar100(root: Path, spec: Images) -> Sets:
    """cifar-100-python, as distributed."""

    def part(train: bool) -> TensorImages:
        data = zoo.CIFAR100(root, train=train)
        return TensorImages(torch.from_numpy(data.data).permute(0, 3, 1, 2), torch.tensor(data.targets))

    return part(True), part(False)


def food101(root: Path, spec: Images) -> Sets:
    """food-101, as distributed."""
    train, test = zoo.Food101(root, "train"), zoo.Food101(root, "test")
    return FileImages(train._image_files, train._labels), FileImages(test._image_files, test._labels)


def cars(root: Path, spec: Images) -> Sets:
    """stanford_cars, in torchvision's layout."""

    def part(split: str) -> FileImages:
        paths, labels = zip(*zoo.StanfordCars(root, split)._samples, strict=True)
        return FileImages([Path(path) for path in paths], labels)

    return part("train"), part("test")


def tinyimagenet(root: Path, spec: Images) -> Sets:
    """tiny-imagenet-200, as distributed, or with its validation images already sorted into class folders."""
    folder = root / "tiny-imagenet-200"
    train, annotations = images_below(folder / "train"), folder / "val" / "val_annotations.txt"
    classes = sorted(train)
    if not (folder / "val" / "images").is_dir():
        validation = images_below(folder / "val")
        _agree(folder, classes, validation)
        return by_class(train, classes), by_class(validation, classes)
    if not annotations.is_file():
        raise ValueError(f"{annotations} is missing: without it the validation images have no classes")
    lines = [line.split("\t") for line in annotations.read_text().splitlines()]
    _agree(folder, classes, {line[1] for line in lines})
    paths = [folder / "val" / "images" / line[0] for line in lines]
    if absent := [path for path in paths if not path.is_file()]:
        raise ValueError(f"{absent[0]} is missing, and {len(absent) - 1} more: unpack TinyImageNet again")
    return by_class(train, classes), FileImages(paths, [classes.index(line[1]) for line in lines])


def imagenet100(root: Path, spec: Images) -> Sets:
    """imagenet100, in Kaggle's four parts; kagglehub puts them below versions/N, of which the newest counts."""
    folder = root / "imagenet100"
    versions = [path.parent for path in folder.rglob("train.X1") if path.parent.name.isdigit()]
    if versions:
        folder = max(versions, key=lambda path: int(path.name))
    parts: dict[str, dict[str, list[Path]]] = {"train": {}, "val": {}}
    for name, files in parts.items():
        for part in sorted(folder.glob(f"{name}.X*")):
            for label, paths in images_below(part).items():
                files.setdefault(label, []).extend(paths)
    if not all(parts.values()):
        raise ValueError(f"{folder} has no train.X1 to train.X4 and val.X with images: unpack ImageNet100 again")
    classes = sorted(parts["train"])
    _agree(folder, classes, parts["val"])
    if odd := strangers(classes):
        raise ValueError(f"{folder} has a class {odd[0]!r} that is not in Kaggle's ImageNet100: fetch that set")
    return by_class(parts["train"], classes), by_class(parts["val"], classes)


def caltech256(root: Path, spec: Images) -> Sets:
    """256_ObjectCategories, as distributed, which has no split."""
    if spec.train_per_class is None:
        raise ValueError(
            f"{root / 'caltech256' / '256_ObjectCategories'} has no split of its own, and the experiment asks for the "
            "split of a copy that has: put that one there, or train swint-caltech256-as-printed"
        )
    files = images_below(root / "caltech256" / "256_ObjectCategories")
    return split_files(_without(files, spec), spec.train_per_class, spec.split_seed)


def _agree(folder: Path, train: Iterable[str], validation: Iterable[str]) -> None:
    if odd := sorted({*train} ^ {*validation}):
        raise ValueError(f"{folder}: training and validation differ in their classes, first {odd[0]!r}")


def _without(files: dict[str, list[Path]], spec: Images) -> dict[str, list[Path]]:
    """The classes that are used; a number before the name, as in 257.clutter, does not count."""
    return {name: paths for name, paths in files.items() if name.rpartition(".")[2] not in spec.leave_out}
