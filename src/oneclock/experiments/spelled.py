"""Which experiment of the paper a name means, however it is spelled."""

from __future__ import annotations

import re

from oneclock.experiments.published import PUBLISHED
from oneclock.experiments.spec import Experiment

_ALIASES = {
    "stanfordcars": "cars",
    "wikitext": "wikitext103",
    "food": "food101",
    "caltech": "caltech256",
    "slimpajama6b": "slimpajama",
    "llama": "llama60m",
    "vit": "vitb16",
    "efficientnet": "efficientnetb0",
    "swin": "swint",
    "t5": "t5small",
    "resnet": "resnet50",
}


def spelled(name: str) -> Experiment | None:
    """The experiment of the paper by its own name, by `model, data set` or `model on data set`; None for another.

    >>> [spelled(name).name for name in ("vitb16-cifar100", "ViT-B/16, CIFAR100", "Llama60M on C4")]
    ['vitb16-cifar100', 'vitb16-cifar100', 'llama60m-c4']
    >>> spelled("EfficientNet-B0, Stanford Cars").t_es, spelled("my own") is None
    (10000, True)
    """
    wanted = _pair(name)
    return next((one for one in PUBLISHED if name == one.name or wanted == _pair(one.title)), None)


def _pair(name: str) -> tuple[str, str] | None:
    """Model and data set in plain letters; None where the name has not both."""
    model, between, dataset = re.sub(r" on ", ",", name, count=1).partition(",")
    return (_plain(model), _plain(dataset)) if between else None


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _ALIASES.get(plain, plain)
