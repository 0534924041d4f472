"""The experiment of the paper that a name means, in any of its spellings."""

from __future__ import annotations

from oneclock.evidence.paper import paper_facts
from oneclock.lab.experiments.published import PUBLISHED
from oneclock.lab.experiments.spec import Experiment


def experiment_of_paper(name: str) -> Experiment | None:
    """The experiment of the paper by its own name, by `model, data set` or `model on data set`; None for another.

    >>> experiment_of_paper("ViT-B/16, CIFAR100").name
    'vitb16-cifar100'
    """
    facts = paper_facts(name)
    return None if facts is None else next(one for one in PUBLISHED if one.name == facts.name)
