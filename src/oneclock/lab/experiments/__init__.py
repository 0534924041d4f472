"""The eleven experiments of the paper and their laptop-sized twins, as frozen values."""

from __future__ import annotations

from oneclock.lab.experiments.checks import check
from oneclock.lab.experiments.joint import JOINT
from oneclock.lab.experiments.laptop import FASHION, SERIES, TWINS
from oneclock.lab.experiments.needs import check_installed
from oneclock.lab.experiments.notes import NOTES, origins
from oneclock.lab.experiments.overrides import did_you_mean, override, settings_of
from oneclock.lab.experiments.published import AS_PRINTED, PUBLISHED
from oneclock.lab.experiments.recorded import recorded
from oneclock.lab.experiments.short import BRIEF, SHORT
from oneclock.lab.experiments.spec import Experiment

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in PUBLISHED}
LAPTOP: dict[str, Experiment] = {experiment.name: experiment for experiment in TWINS}


def find(name: str) -> Experiment:
    """The experiment of that name: the paper's, one as printed, a twin, or one of a study's.

    >>> find("vitb16-cifar100").budget
    19500
    """
    others = (*AS_PRINTED, *SERIES, *FASHION, *JOINT, *SHORT, *BRIEF)
    known = EXPERIMENTS | LAPTOP | {experiment.name: experiment for experiment in others}
    if name not in known:
        hint = did_you_mean(name, list(known))
        raise ValueError(f"there is no experiment {name!r}{hint or '; `oneclock lab experiments` lists them'}")
    return known[name]


__all__ = [
    "AS_PRINTED",
    "BRIEF",
    "EXPERIMENTS",
    "FASHION",
    "JOINT",
    "LAPTOP",
    "NOTES",
    "SERIES",
    "SHORT",
    "Experiment",
    "check",
    "check_installed",
    "find",
    "origins",
    "override",
    "recorded",
    "settings_of",
]
