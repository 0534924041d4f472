"""The eleven experiments of the paper and their laptop-sized twins, as frozen values."""

from __future__ import annotations

from oneclock.experiments.checks import check
from oneclock.experiments.joint import JOINT
from oneclock.experiments.laptop import FASHION, SERIES, TWINS
from oneclock.experiments.notes import NOTES
from oneclock.experiments.overrides import did_you_mean, override, settings_of
from oneclock.experiments.published import PUBLISHED
from oneclock.experiments.spec import Experiment

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in PUBLISHED}
LAPTOP: dict[str, Experiment] = {experiment.name: experiment for experiment in TWINS}


def find(name: str) -> Experiment:
    """The experiment of that name: the paper's, a twin, or one of a study's.

    >>> find("vitb16-cifar100").budget
    19500
    """
    known = EXPERIMENTS | LAPTOP | {experiment.name: experiment for experiment in (*SERIES, *FASHION, *JOINT)}
    if name not in known:
        hint = did_you_mean(name, list(known))
        raise ValueError(f"there is no experiment {name!r}{hint or '; `oneclock experiments` lists them'}")
    return known[name]


__all__ = [
    "EXPERIMENTS",
    "FASHION",
    "JOINT",
    "LAPTOP",
    "NOTES",
    "SERIES",
    "Experiment",
    "check",
    "find",
    "override",
    "settings_of",
]
