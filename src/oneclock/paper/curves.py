"""Losses of the paper's experiments -> the same tables: the file the authors publish, or the long table.

`beta_sweep_curves.tsv` is tab-separated: split, prefix, model, dataset, label, beta, mean_best_val_loss, lower_std,
upper_std, seed_count, and seed_best_val_losses with `;` between seeds. T_ES is not in it; it comes from the paper's
table, matched by model and data set.
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

from oneclock.experiments.published import PUBLISHED
from oneclock.guards import head, lines, plain_table
from oneclock.paper.published import DEVELOPMENT, experiment_columns, horizons, names, printed
from oneclock.rule import GRID, nearest_beta
from oneclock.study.sweeps import SPLITS, Sweep, Sweeps
from oneclock.study.table import read, sweeps_of

_NEEDED = ("split", "model", "dataset", "beta", "seed_best_val_losses")
_ROUNDED = 0.0006
"""A beta printed with three decimals is taken for the grid value it rounds."""

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


def read_curves(path: Path) -> Sweeps:
    """The eleven experiments from a file of either shape; every one must be there."""
    path = Path(path)
    study = _authors_study(path) if _is_authors_file(path) else _long_study(path)
    found = {sweep.name for sweep in study.sweeps}
    if lacking := [name for name in names() if name not in found]:
        raise ValueError(f"{path.name} lacks {'; '.join(lacking)}: the paper's tables need all eleven experiments")
    return study


def place_of(model: str, dataset: str) -> int:
    """The paper's number (from 0) of the experiment with this model on this data set, however they are spelled.

    >>> place_of("ViT-B/16", "CIFAR100"), place_of("EfficientNet-B0", "Stanford Cars")
    (4, 8)
    """
    wanted = (_plain(model), _plain(dataset))
    rows = printed()["selected-betas"].rows
    places = [place for place, row in enumerate(rows) if (_plain(row[1]), _plain(row[2])) == wanted]
    if not places:
        raise ValueError(f"no experiment of the paper has the model {model!r} on the data set {dataset!r}")
    return places[0]


def _is_authors_file(path: Path) -> bool:
    if path.is_dir() or path.suffix.lower() not in (".tsv", ".csv", ".txt"):
        return False
    header = head(path).partition("\n")[0]
    return "seed_best_val_losses" in header or "mean_best_val_loss" in header


def _authors_study(path: Path) -> Sweeps:
    rows = csv.DictReader(lines(plain_table(path, "\t")), delimiter="\t")
    if lacking := [name for name in _NEEDED if name not in (rows.fieldnames or ())]:
        raise ValueError(f"{path.name} has no column {', '.join(map(repr, lacking))}; it must be tab-separated")
    try:
        cells = [cell for number, row in enumerate(rows, start=1) for cell in _cells(row, f"{path.name}, row {number}")]
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a table: {error}") from None
    try:
        return sweeps_of(experiment_columns(cells))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _cells(row: dict[str, str | None], where: str) -> list[tuple[int, float, int, float]]:
    """(experiment, beta, seed, minimum loss) for every seed of one line."""
    texts = {name: (value or "").strip() for name, value in row.items() if name is not None and isinstance(value, str)}
    try:
        place = place_of(texts.get("model", ""), texts.get("dataset", ""))
        expected = SPLITS[place >= DEVELOPMENT]
        if texts.get("split", "").lower().replace("-", "") != expected:
            raise ValueError(f"split {texts.get('split')!r} where the paper has {expected!r}")
        losses = [float(loss) for loss in texts["seed_best_val_losses"].split(";") if loss.strip()]
        if not losses:
            raise ValueError("seed_best_val_losses is empty")
        beta = _on_grid(float(texts["beta"]))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return [(place + 1, beta, seed, loss) for seed, loss in enumerate(losses, start=1)]


def _long_study(path: Path) -> Sweeps:
    """The long table: experiments by the package's names, the paper's numbers, or `model, dataset`."""
    study = read(path)
    return Sweeps(
        tuple(sorted(map(_as_printed, study.sweeps), key=lambda sweep: names().index(sweep.name))), study.missing
    )


def _as_printed(sweep: Sweep) -> Sweep:
    place = _place_of_name(sweep.name)
    tied = tuple(replace(trial, beta=_on_grid(trial.beta)) for trial in sweep.tied)
    return replace(
        sweep, name=names()[place], split=SPLITS[place >= DEVELOPMENT], t_es=sweep.t_es or horizons()[place], tied=tied
    )


def _place_of_name(name: str) -> int:
    known = [{experiment.name, str(place + 1), names()[place]} for place, experiment in enumerate(PUBLISHED)]
    for place, spellings in enumerate(known):
        if name in spellings:
            return place
    model, _, dataset = name.partition(",")
    if not dataset:
        raise ValueError(
            f"{name!r} is no experiment of the paper; use its number, 'model, dataset', or {PUBLISHED[0].name}"
        )
    return place_of(model, dataset)


def _on_grid(beta: float) -> float:
    near = nearest_beta(beta)
    if abs(near - beta) > _ROUNDED:
        raise ValueError(f"beta {beta:g} is not on the paper's grid ({', '.join(f'{value:g}' for value in GRID)})")
    return near


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _ALIASES.get(plain, plain)
