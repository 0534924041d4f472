"""The eleven experiments of the paper, as frozen values."""

from __future__ import annotations

from oneclock.experiments.checks import check
from oneclock.experiments.notes import NOTES
from oneclock.experiments.overrides import did_you_mean, override, settings_of
from oneclock.experiments.published import PUBLISHED
from oneclock.experiments.spec import Experiment

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in PUBLISHED}


def find(name: str) -> Experiment:
    """The experiment of that name.

    >>> find("vitb16-cifar100").budget
    19500
    """
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, list(EXPERIMENTS))
        raise ValueError(f"there is no experiment {name!r}{hint or '; `oneclock experiments` lists them'}")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "NOTES", "Experiment", "check", "find", "override", "settings_of"]
