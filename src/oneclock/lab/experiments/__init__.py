"""The eleven experiments of the paper and their laptop-sized twins, as frozen values."""

from __future__ import annotations

from oneclock.lab.experiments.checks import check_experiment
from oneclock.lab.experiments.joint import JOINT
from oneclock.lab.experiments.laptop import FASHION, SERIES, TWINS
from oneclock.lab.experiments.needs import check_packages
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
    experiments = EXPERIMENTS | LAPTOP | {experiment.name: experiment for experiment in others}
    if name not in experiments:
        hint = did_you_mean(name, list(experiments))
        raise ValueError(f"there is no experiment {name!r}{hint or '; `oneclock lab experiments` lists them'}")
    return experiments[name]


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
    "check_experiment",
    "check_packages",
    "find",
    "origins",
    "override",
    "recorded",
    "settings_of",
]
