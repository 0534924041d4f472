"""The paper's printed tables and the losses behind them, as package data.

`published_tables.json` holds the five tables, every figure as printed. `losses.csv` holds the authors' own best
validation losses of all 143 cells (experiment, beta) by seed, 243 rows: the file `data/beta_sweep_curves.tsv` of the
public repository `AlbertoFdezHdez/Adam_beta_value` at commit de06ad1, with T_ES and budgets from the paper.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from oneclock.lab.experiments.published import PUBLISHED
from oneclock.runs.sweeps import Sweeps
from oneclock.runs.table import sweeps_of

FIXED = 0.94377
"""The paper's baseline."""

DEVELOPMENT = 8
"""The first 8 experiments calibrate; experiments 9 to 11 are held out."""

_DATA = files("oneclock.lab.paper") / "data"


@dataclass(frozen=True)
class Printed:
    """One table as printed: every cell is text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """One column from top to bottom."""
        return [row[self.columns.index(name)] for row in self.rows]


@cache
def printed() -> dict[str, Printed]:
    """The five tables by name.

    >>> printed()["main-results"].rows[1][:4]
    ('Refresh R_0=1000', '0.406', '0.885', '0.811')
    """
    tables = json.loads((_DATA / "published_tables.json").read_text(encoding="utf-8"))
    return {name: Printed(tuple(table["columns"]), tuple(map(tuple, table["rows"]))) for name, table in tables.items()}


def names() -> list[str]:
    """The eleven experiments as the tables name them.

    >>> names()[4]
    '5 ViT-B/16, CIFAR-100'
    """
    return [f"{row[0]} {row[1]}, {row[2]}" for row in printed()["selected-betas"].rows]


def printed_horizons() -> list[float]:
    """T_ES of the eleven experiments, as printed."""
    return [float(value) for value in printed()["selected-betas"].column("T_ES")]


def experiment_columns(cells: list[tuple[int, float, Any, float]]) -> dict[str, list[Any]]:
    """The long table from (experiment number from 1, beta, seed, minimum loss), with the paper's facts on each
    experiment.
    """
    places = [experiment - 1 for experiment, *_ in cells]
    label, t_es = names(), printed_horizons()
    return {
        "experiment": [label[place] for place in places],
        "split": ["development" if place < DEVELOPMENT else "heldout" for place in places],
        "budget": [PUBLISHED[place].budget for place in places],
        "t_es": [t_es[place] for place in places],
        "beta": [beta for _, beta, *_ in cells],
        "seed": [seed for _, _, seed, _ in cells],
        "min_val_loss": [loss for *_, loss in cells],
    }


@cache
def losses_study() -> Sweeps:
    """The paper's eleven experiments from the authors' own losses.

    >>> sum(len(sweep.tied) for sweep in losses_study().sweeps)
    243
    """
    places = {experiment.name: number for number, experiment in enumerate(PUBLISHED, start=1)}
    rows = csv.DictReader((_DATA / "losses.csv").read_text(encoding="utf-8").splitlines())
    cells = [(places[r["experiment"]], float(r["beta"]), int(r["seed"]), float(r["min_val_loss"])) for r in rows]
    return sweeps_of(experiment_columns(cells))
