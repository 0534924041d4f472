"""What the paper prints of its eleven experiments: the useful horizon T_ES and the planned steps. Pure Python."""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass
from importlib import resources

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


@dataclass(frozen=True)
class PaperFacts:
    """One experiment of the paper: our name for it, its title, T_ES and planned steps."""

    name: str
    title: str
    t_es: int
    budget: int


@functools.cache
def paper_experiments() -> tuple[PaperFacts, ...]:
    """All eleven, in the order of the paper's tables.

    >>> paper_experiments()[7].budget
    81200
    """
    text = resources.files("oneclock.evidence").joinpath("data", "paper.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(PaperFacts(row["experiment"], row["title"], int(row["t_es"]), int(row["budget"])) for row in rows)


def paper_facts(name: str) -> PaperFacts | None:
    """The experiment of the paper that a name means: our name, `model, data set` or `model on data set`; else None.

    >>> [paper_facts(name).name for name in ("vitb16-cifar100", "ViT-B/16, CIFAR100", "Llama60M on C4")]
    ['vitb16-cifar100', 'vitb16-cifar100', 'llama60m-c4']
    >>> paper_facts("EfficientNet-B0, Stanford Cars").t_es, paper_facts("my own") is None
    (10000, True)
    """
    wanted = _pair(name)
    return next((one for one in paper_experiments() if name == one.name or wanted == _pair(one.title)), None)


def _pair(name: str) -> tuple[str, str] | None:
    """Model and data set in plain letters; None if the name does not have both."""
    model, between, dataset = re.sub(r" on ", ",", name, count=1).partition(",")
    return (_plain(model), _plain(dataset)) if between else None


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _ALIASES.get(plain, plain)
