"""A table with the losses of all seeds in one cell -> the long table: so the paper's authors publish theirs.

    split  model  dataset  beta  seed_best_val_losses     one row per beta, `;` between the seeds, counted from 1

`experiment` may stand for `model` and `dataset`, which else make its name. Other columns (a mean, a spread) follow from
these and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oneclock.runs.columns import Rows

LOSSES = "seed_best_val_losses"
_PER_BETA = ("split", "budget", "t_es", "beta", "beta2", "lr")


def one_row_per_seed(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The long table of such columns. Every ValueError names the row as the file has it.

    >>> long = one_row_per_seed({"model": ["ViT"], "dataset": ["digits"], "beta": [0.9], LOSSES: ["1.5;1.25"]})
    >>> long["experiment"], long["seed"], long["min_val_loss"]
    (['ViT, digits', 'ViT, digits'], [1, 2], [1.5, 1.25])
    """
    losses = [_numbers(cell, row) for row, cell in enumerate(columns[LOSSES], start=1)]
    kept = {"experiment": _names(columns)} | {name: columns[name] for name in _PER_BETA if name in columns}
    Rows.checked({**kept, "min_val_loss": [seeds[0] for seeds in losses]})
    long = {
        name: [value for value, seeds in zip(values, losses, strict=True) for _ in seeds]
        for name, values in kept.items()
    }
    long["seed"] = [seed for seeds in losses for seed in range(1, len(seeds) + 1)]
    return long | {"min_val_loss": [loss for seeds in losses for loss in seeds]}


def _names(columns: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    if "experiment" in columns:
        return columns["experiment"]
    if absent := [name for name in ("model", "dataset") if name not in columns]:
        raise ValueError(f"the table has {LOSSES} and no column {absent[0]!r}; name model and dataset, or experiment")
    pairs = zip(columns["model"], columns["dataset"], strict=True)
    return [f"{model}, {dataset}" if model and dataset else None for model, dataset in pairs]


def _numbers(cell: Any, row: int) -> list[float]:
    texts = [text for text in str("" if cell is None else cell).split(";") if text.strip()]
    if not texts:
        raise ValueError(f"row {row} has no loss in {LOSSES}")
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise ValueError(f"row {row} has {LOSSES} {str(cell)[:60]!r}; give numbers with ; between them") from None
