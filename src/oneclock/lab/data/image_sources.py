"""Where the images of an experiment come from: a local folder first, else torchvision's download or the hub.

Every source may lie in ROOT/SOURCE as train/CLASS/IMAGE and val/CLASS/IMAGE, or as the files of its repository on the
hub. Beside that, each is found in the layout in which it is distributed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oneclock import torchvision_guard  # noqa: F401  before torchvision
from oneclock.lab.data import bundled, image_layouts
from oneclock.lab.data.data_dirs import in_gigabytes, missing, offline, shortened
from oneclock.lab.data.image_tables import HubImages
from oneclock.lab.data.imagenet100 import strangers
from oneclock.lab.data.pictures import Pictures, Sets
from oneclock.lab.experiments.overrides import did_you_mean
from oneclock.lab.experiments.spec import Images

from torchvision import datasets as zoo  # isort: skip


@dataclass(frozen=True)
class ImageSource:
    """How to find a source below a root folder. `marker` exists if the source does; `fetch` says what to fetch.

    `images` are those of training and validation. `download` has torchvision fetch it into a folder; `hub` is its copy
    on the hub.
    """

    marker: str
    read: Callable[[Path, Images], Sets]
    fetch: str
    images: tuple[int, int]
    gigabytes: float | None = None
    download: Callable[[Path], object] | None = None
    hub: HubImages | None = None


@dataclass(frozen=True)
class LocalCopy:
    """A local copy: its place, how it is read, and the repository whose tables it has, if these are what it is."""

    place: Path
    read: Callable[[], Sets]
    tables: HubImages | None = None


def open_images(spec: Images, root: Path) -> Sets:
    """Training and validation images of a source; any problem with it is a ValueError in one line."""
    if spec.source in BUNDLED:
        return image_layouts.in_memory(*BUNDLED[spec.source](root), spec)
    if spec.source not in SOURCES:
        names = [*SOURCES, *BUNDLED]
        raise ValueError(f"there is no image source {spec.source!r}" + did_you_mean(spec.source, names))
    if spec.train_per_class is not None and not _has_no_split(SOURCES[spec.source]):
        raise ValueError(f"{spec.source} has a split of its own: data.train_per_class must be none")
    train, validation = _found(SOURCES[spec.source], spec, root)
    for pictures, part in ((train, "training"), (validation, "validation")):
        if not len(pictures):
            raise ValueError(f"{spec.source} has no {part} images; fetch it again")
    if odd := _classes(validation) - _classes(train):
        raise ValueError(f"{spec.source} has a class {min(odd)} to validate that no training image has")
    return train, validation


def found_at(spec: Images, root: Path) -> LocalCopy | None:
    """Where a source is below the root, and how to read it; None if it is not there."""
    source, folder = SOURCES[spec.source], root / spec.source
    distributed = LocalCopy(root / source.marker, lambda: source.read(root, spec))
    own_folder = distributed.place == folder  # tables may be there as well
    if image_layouts.has_classes(folder / "train"):
        return LocalCopy(folder / "train", lambda: image_layouts.class_folders(folder, spec))
    if distributed.place.exists() and not own_folder and not _needs_split(source, spec):
        return distributed
    if (hub := hub_of(spec)) is not None and hub.is_local(folder):
        return LocalCopy(folder, lambda: hub.read_local(folder, spec), hub)
    if (folder / "train").is_dir():
        return LocalCopy(folder / "train", lambda: image_layouts.class_folders(folder, spec))
    return distributed if distributed.place.exists() else None


def _found(source: ImageSource, spec: Images, root: Path) -> Sets:
    problem: BaseException | None = None
    if (here := found_at(spec, root)) is not None:
        try:
            return here.read()
        except ImportError:
            raise
        except Exception as error:  # a damaged copy can make the libraries raise anything
            if type(error) is ValueError:  # our own error
                raise
            raise ValueError(f"{here.place}: {shortened(error)}; fetch it again") from None
    for fetch in _ways(source, spec, root):
        try:
            return fetch()
        except (OSError, RuntimeError) as error:  # noqa: PERF203
            problem = problem or error
    raise missing(spec.source, *_by_hand(source, spec, root), problem)


def _by_hand(source: ImageSource, spec: Images, root: Path) -> tuple[str, str]:
    """What to fetch and where to put it, in words."""
    folders = f"or as {root / spec.source}/train/CLASS/IMAGE and val/CLASS/IMAGE"
    if source.hub is not None and _needs_split(source, spec):
        return f"the files of {source.hub.repository} of the Hugging Face hub", f"{root / spec.source}, {folders}"
    return source.fetch, f"{root / source.marker}, {folders}"


def _ways(source: ImageSource, spec: Images, root: Path) -> list[Callable[[], Sets]]:
    """What to try in turn if nothing is here."""
    ways: list[Callable[[], Sets]] = []
    if _downloads(source, spec):
        ways.append(lambda: _downloaded(source, spec, root))
    if (hub := hub_of(spec)) is not None:
        ways.append(lambda: hub.read(spec))
    return ways


def origin_of(spec: Images) -> str:
    """Where a missing source would come from, in words."""
    source = SOURCES[spec.source]
    ways = [source.fetch] if _downloads(source, spec) else []
    if (hub := hub_of(spec)) is not None:
        ways.append(f"{hub.repository} of the Hugging Face hub")
    return " or ".join(ways) + in_gigabytes(source.gigabytes)


def _downloads(source: ImageSource, spec: Images) -> bool:
    return source.download is not None and not _needs_split(source, spec)


def hub_of(spec: Images) -> HubImages | None:
    """The copy on the hub, unless the experiment splits the images itself: a copy is split already."""
    return SOURCES[spec.source].hub if spec.train_per_class is None else None


def _needs_split(source: ImageSource, spec: Images) -> bool:
    """Whether the experiment needs the split of a copy because the distributed set has none."""
    return _has_no_split(source) and spec.train_per_class is None


def _has_no_split(source: ImageSource) -> bool:
    return source.read is image_layouts.caltech256


def _downloaded(source: ImageSource, spec: Images, root: Path) -> Sets:
    """Download to a temporary folder, then move it: a partial download is never used. One process at a time."""
    from filelock import FileLock

    if offline():
        raise OSError("HF_HUB_OFFLINE is set")
    assert source.download is not None
    top, aside = Path(source.marker).parts[0], root / f".{spec.source}.download"
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{spec.source}.lock"):
        if not (root / source.marker).exists():
            shutil.rmtree(aside, ignore_errors=True)  # the rest of a killed download
            try:
                source.download(aside)
                os.replace(aside / top, root / top)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    return source.read(root, spec)


def _classes(pictures: Pictures) -> set[int]:
    return {int(label) for label in np.unique(np.asarray(pictures.labels))}


BUNDLED: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {
    "digits": lambda root: bundled.digits(),
    "mnist-sample": lambda root: bundled.mnist_sample(),
    "fashion-mnist": bundled.fashion_mnist,
}
SOURCES = {
    "cifar100": ImageSource(
        "cifar-100-python",
        image_layouts.cifar100,
        "cifar-100-python.tar.gz of www.cs.toronto.edu/~kriz",
        images=(50_000, 10_000),
        gigabytes=0.17,
        download=lambda root: zoo.CIFAR100(root, download=True),
        hub=HubImages(
            "uoft-cs/cifar100",
            validation=("test",),
            image="img",
            label="fine_label",
            rows={"train": 50_000, "test": 10_000},
        ),
    ),
    "food101": ImageSource(
        "food-101",
        image_layouts.food101,
        "food-101.tar.gz of data.vision.ee.ethz.ch",
        images=(75_750, 25_250),
        gigabytes=5,
        download=lambda root: zoo.Food101(root, "train", download=True),
        hub=HubImages("ethz/food101", rows={"train": 75_750, "validation": 25_250}),
    ),
    "tinyimagenet": ImageSource(
        "tiny-imagenet-200",
        image_layouts.tinyimagenet,
        "tiny-imagenet-200.zip of cs231n.stanford.edu",
        images=(100_000, 10_000),
        gigabytes=0.25,
        hub=HubImages("zh-plus/tiny-imagenet", validation=("valid",), rows={"train": 100_000, "valid": 10_000}),
    ),
    "imagenet100": ImageSource(
        "imagenet100",
        image_layouts.imagenet100,
        "ambityga/imagenet100 (130,000 training images) of Kaggle",
        images=(130_000, 5_000),
        hub=HubImages(
            "ilee0022/ImageNet100",
            train=("train", "validation"),
            validation=("test",),
            name="text",
            rows={"train": 117_000, "validation": 13_000, "test": 5_000},
            strangers=strangers,
        ),
    ),
    "cars": ImageSource(
        "stanford_cars",
        image_layouts.cars,
        "Stanford Cars (cars_train, cars_test, devkit, cars_test_annos_withlabels.mat)",
        images=(8_144, 8_041),
        gigabytes=2,
        hub=HubImages("tanganke/stanford_cars", validation=("test",), rows={"train": 8_144, "test": 8_041}),
    ),
    "caltech256": ImageSource(
        "caltech256/256_ObjectCategories",
        image_layouts.caltech256,
        "256_ObjectCategories.tar of data.caltech.edu",
        images=(24_121, 2_680),
        gigabytes=1.2,
        download=lambda root: zoo.Caltech256(root, download=True),
        hub=HubImages("ilee0022/Caltech-256", name="text", rows={"train": 24_791, "validation": 2_755}),
    ),
}
