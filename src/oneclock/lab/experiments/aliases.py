"""The experiment of the paper that a name means, in any of its spellings."""

from __future__ import annotations

import re

from oneclock.lab.experiments.published import PUBLISHED
from oneclock.lab.experiments.spec import Experiment

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


def experiment_of_paper(name: str) -> Experiment | None:
    """The experiment of the paper by its own name, by `model, data set` or `model on data set`; None for another.

    >>> [experiment_of_paper(name).name for name in ("vitb16-cifar100", "ViT-B/16, CIFAR100", "Llama60M on C4")]
    ['vitb16-cifar100', 'vitb16-cifar100', 'llama60m-c4']
    >>> experiment_of_paper("EfficientNet-B0, Stanford Cars").t_es, experiment_of_paper("my own") is None
    (10000, True)
    """
    wanted = _pair(name)
    eleven = (one for one in PUBLISHED if one.t_es is not None)
    return next((one for one in eleven if name == one.name or wanted == _pair(one.title)), None)


def _pair(name: str) -> tuple[str, str] | None:
    """Model and data set in plain letters; None if the name does not have both."""
    model, between, dataset = re.sub(r" on ", ",", name, count=1).partition(",")
    return (_plain(model), _plain(dataset)) if between else None


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _ALIASES.get(plain, plain)
