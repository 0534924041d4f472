"""What the paper prints, and the gaps recovered from it: package data, read as it is.

The recovered gaps solve the printed tables backwards. `status` of a cell is `exact` (fixed to the printed digit),
`bounded` (an interval; one value in it is listed) or `symmetric-choice` (only a sum or a set of several cells is
fixed; one choice is listed).
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from oneclock.experiments.published import PUBLISHED
from oneclock.study.sweeps import Sweeps
from oneclock.study.table import sweeps_of

FIXED = 0.94377
"""The paper's baseline."""

DEVELOPMENT = 8
"""Experiments 1 to 8 calibrate, 9 to 11 are held out."""

_DATA = files("oneclock.paper") / "data"


@dataclass(frozen=True)
class Printed:
    """One table as printed: every cell is text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """One column from top to bottom."""
        return [row[self.columns.index(name)] for row in self.rows]


@dataclass(frozen=True)
class RecoveredGap:
    """One recovered cell: experiment (from 1), beta, its gap as a fraction, and how well it is known."""

    experiment: int
    beta: float
    gap: float
    lower: float
    upper: float
    status: str


@cache
def printed() -> dict[str, Printed]:
    """The five tables by name.

    >>> printed()["main-results"].rows[1][:4]
    ('Refresh R_0=1000', '0.406', '0.885', '0.811')
    """
    tables = json.loads((_DATA / "published_tables.json").read_text(encoding="utf-8"))
    return {name: Printed(tuple(table["columns"]), tuple(map(tuple, table["rows"]))) for name, table in tables.items()}


@cache
def recovered() -> tuple[RecoveredGap, ...]:
    """The 45 cells that a rule of the paper visits.

    >>> len(recovered()), sum(cell.status == "exact" for cell in recovered())
    (45, 23)
    """
    lines = (_DATA / "recovered_gaps.csv").read_text(encoding="utf-8").splitlines()
    return tuple(
        RecoveredGap(
            experiment=int(row["experiment"]),
            beta=float(row["beta"]),
            gap=float(row["gap_percent"]) / 100,
            lower=float(row["lower"]) / 100,
            upper=float(row["upper"]) / 100,
            status=row["status"],
        )
        for row in csv.DictReader(lines)
    )


def names() -> list[str]:
    """The eleven experiments as the tables name them.

    >>> names()[4]
    '5 ViT-B/16, CIFAR-100'
    """
    return [f"{row[0]} {row[1]}, {row[2]}" for row in printed()["selected-betas"].rows]


def horizons() -> list[float]:
    """T_ES of the eleven experiments, as printed."""
    return [float(value) for value in printed()["selected-betas"].column("T_ES")]


def experiment_columns(cells: list[tuple[int, float, Any, float]]) -> dict[str, list[Any]]:
    """The long table from (experiment from 1, beta, seed, minimum loss), with what the paper says of the experiment."""
    places = [experiment - 1 for experiment, *_ in cells]
    label, t_es = names(), horizons()
    return {
        "experiment": [label[place] for place in places],
        "split": ["development" if place < DEVELOPMENT else "heldout" for place in places],
        "budget": [PUBLISHED[place].budget for place in places],
        "t_es": [t_es[place] for place in places],
        "beta": [beta for _, beta, *_ in cells],
        "seed": [seed for _, _, seed, _ in cells],
        "min_val_loss": [loss for *_, loss in cells],
    }


def recovered_study(unseen_gap: float | None = None) -> Sweeps:
    """The recovered gaps as a study, in losses of 1 + gap; the oracle of experiment 10 is taken from the paper.

    No rule visits that oracle, so no recovered cell stands for it. With `unseen_gap`, every grid beta without a
    recovered cell has that gap.
    """
    from oneclock.rule import GRID, nearest_beta

    cells = {(cell.experiment, cell.beta): cell.gap for cell in recovered()}
    stars = [nearest_beta(float(beta)) for beta in printed()["selected-betas"].column("beta_star")]
    for place, star in enumerate(stars):
        cells.setdefault((place + 1, star), 0.0)
    if unseen_gap is not None:
        for place in range(len(stars)):
            for beta in GRID:
                cells.setdefault((place + 1, beta), unseen_gap)
    return sweeps_of(experiment_columns([(number, beta, 1, 1 + gap) for (number, beta), gap in cells.items()]))
