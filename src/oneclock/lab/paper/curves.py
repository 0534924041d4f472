"""Reads losses of the paper's experiments: the authors' published file, or any table of runs.

Experiments are known by the package's names, the paper's numbers, or `model, data set`; If the table has no T_ES, the
paper's is used. A beta with three decimals stands for the nearest grid value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oneclock.lab.experiments.aliases import experiment_of_paper
from oneclock.lab.experiments.published import PUBLISHED
from oneclock.lab.paper.published import DEVELOPMENT, names, printed_horizons
from oneclock.rule import GRID, nearest_beta
from oneclock.runs.columns import Rows
from oneclock.runs.sweeps import SPLITS, Sweep, Sweeps
from oneclock.runs.table import read_columns, sweeps_of

LOSSES = "seed_best_val_losses"
"""The column of the authors' file with the losses of all seeds of a beta, `;` between them."""

_ROUNDED = 0.0006
"""A beta printed with three decimals is taken for the grid value it rounds."""


def read_curves(path: Path) -> Sweeps:
    """The eleven experiments from a table; every one must be there."""
    path = Path(path)
    columns = read_columns(path)
    try:
        study = sweeps_of(one_row_per_seed(columns) if LOSSES in columns else columns)
    except ValueError as error:
        raise ValueError(f"{path.name}, {error}") from None
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


def one_row_per_seed(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The long table from the authors' file: split, model, dataset, beta, seed_best_val_losses, one row per beta.

    Every ValueError names the file's row.

    >>> long = one_row_per_seed({"model": ["ViT"], "dataset": ["digits"], "beta": [0.9], LOSSES: ["1.5;1.25"]})
    >>> long["experiment"], long["seed"], long["min_val_loss"]
    (['ViT, digits', 'ViT, digits'], [1, 2], [1.5, 1.25])
    """
    if absent := [name for name in ("model", "dataset") if name not in columns]:
        raise ValueError(f"the table has {LOSSES} and no column {absent[0]!r}")
    pairs = zip(columns["model"], columns["dataset"], strict=True)
    names = [f"{model}, {dataset}" if model and dataset else None for model, dataset in pairs]
    kept: dict[str, Sequence[Any]] = {"experiment": names}
    kept |= {name: columns[name] for name in ("split", "beta") if name in columns}
    losses = [_losses_of_cell(cell, row) for row, cell in enumerate(columns[LOSSES], start=1)]
    list(Rows({**kept, "min_val_loss": [seeds[0] for seeds in losses]}).sweeps())
    long = {
        name: [value for value, seeds in zip(values, losses, strict=True) for _ in seeds]
        for name, values in kept.items()
    }
    long["seed"] = [seed for seeds in losses for seed in range(1, len(seeds) + 1)]
    return long | {"min_val_loss": [loss for seeds in losses for loss in seeds]}


def _losses_of_cell(cell: Any, row: int) -> list[float]:
    texts = [text for text in str("" if cell is None else cell).split(";") if text.strip()]
    if not texts:
        raise ValueError(f"row {row} has no loss in {LOSSES}")
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise ValueError(f"row {row} has {LOSSES} {str(cell)[:60]!r}; give numbers with ; between them") from None
