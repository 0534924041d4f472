"""Reads losses of the paper's experiments: the authors' published file, or any table of runs.

Experiments are known by the package's names, the paper's numbers, or `model, data set`; If the table has no T_ES, the
paper's is used. A beta with three decimals stands for the nearest grid value.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oneclock.lab.experiments.aliases import experiment_of_paper
from oneclock.lab.experiments.published import PUBLISHED
from oneclock.lab.paper.published import DEVELOPMENT, names, printed_horizons
from oneclock.rule import GRID, nearest_beta
from oneclock.runs.sweeps import SPLITS, Sweep, Sweeps
from oneclock.runs.table import read_source

_ROUNDED = 0.0006
"""A beta printed with three decimals is taken for the grid value it rounds."""


def read_curves(path: Path) -> Sweeps:
    """The eleven experiments from a table; every one must be there."""
    path = Path(path)
    study = read_source(path)
    sweeps = sorted(map(_as_printed, study.sweeps), key=lambda sweep: names().index(sweep.name))
    present = {sweep.name for sweep in sweeps}
    if lacking := [name for name in names() if name not in present]:
        raise ValueError(f"{path.name} lacks {'; '.join(lacking)}: the paper's tables need all eleven experiments")
    return Sweeps(tuple(sweeps), study.missing)


def _as_printed(sweep: Sweep) -> Sweep:
    place = _place_of(sweep.name)
    tied = tuple(replace(run, key=replace(run.key, beta=_on_grid(run.tied_beta, sweep.name))) for run in sweep.tied)
    return replace(
        sweep,
        name=names()[place],
        split=SPLITS[place >= DEVELOPMENT],
        t_es=sweep.t_es or printed_horizons()[place],
        tied=tied,
    )


def _place_of(name: str) -> int:
    """The paper's number (from 0) of the experiment that a name means.

    >>> _place_of("5"), _place_of("5 ViT-B/16, CIFAR-100"), _place_of("ViT-B/16, CIFAR100")
    (4, 4, 4)
    """
    for place, printed in enumerate(names()):
        if name in (str(place + 1), printed):
            return place
    experiment = experiment_of_paper(name)
    if experiment is None:
        raise ValueError(
            f"{name!r} is not an experiment of the paper; use its number, 'model, data set', or {PUBLISHED[0].name}"
        )
    return PUBLISHED.index(experiment)


def _on_grid(beta: float, name: str) -> float:
    near = nearest_beta(beta)
    if abs(near - beta) > _ROUNDED:
        grid = ", ".join(f"{value:g}" for value in GRID)
        raise ValueError(f"{name}: beta {beta:g} is not on the paper's grid ({grid})")
    return near
