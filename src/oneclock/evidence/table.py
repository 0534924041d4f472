"""The evidence base: every known sweep over Adam's betas, as one long table. Pure Python.

`data/sweeps.csv` has one line per cell, a cell being one (beta1, beta2, lr) of one sweep:

    source, sweep         who measured it (see `data/sources.csv`), and the name of the sweep within that source
    task                  model and data; sweeps of one task are not independent
    weights               how many the model has
    batch                 samples per optimizer step
    tokens_per_batch      tokens per optimizer step, empty for images
    steps                 planned optimizer steps
    optimizer             adamw, adam, nadamw, cautious or mini
    varied                what the sweep varied: tied (beta1 = beta2), beta1 or beta2 (the other held); pairs compares a
                          few pairs and has too few tied betas to say which is best
    lr_tuned              yes: every beta has its best of several learning rates; no: one learning rate for all
    beta1, beta2, lr      of this cell; lr is the learning rate or a factor on it, empty if one was used
    seeds                 runs behind the loss
    loss                  mean validation loss, seed effects removed; empty if a run diverged or it is off the scale
    se                    standard error of that mean, empty if it is not known; our sweeps with one
                          run per cell take the noise of other sweeps of the task

Your own table needs `steps`, `beta1` (or `beta`) and `loss`; every other column has a default.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

COLUMNS = (
    *("source", "sweep", "task", "weights", "batch", "tokens_per_batch", "steps", "optimizer", "varied", "lr_tuned"),
    *("beta1", "beta2", "lr", "seeds", "loss", "se"),
)

VARIED = ("tied", "beta1", "beta2", "pairs")


@dataclass(frozen=True)
class Source:
    """Who measured sweeps, where that is written, and how the numbers were obtained.

    `chose` says whether its sweeps took part in choosing the recommended rule: a source that did not is a test of it.
    """

    name: str
    title: str
    reference: str
    obtained: str
    chose: bool


@dataclass(frozen=True)
class Cell:
    """One (beta1, beta2, lr) of a sweep; `loss` is None if a run diverged or the value is off the scale."""

    beta1: float
    beta2: float
    lr: float | None
    seeds: int
    loss: float | None
    se: float | None

    @property
    def tied(self) -> bool:
        return self.beta1 == self.beta2


@dataclass(frozen=True)
class EvidenceSweep:
    """One sweep: a task at one length, and its cells."""

    source: str
    name: str
    task: str
    weights: int | None
    batch: int | None
    tokens_per_batch: int | None
    steps: int
    optimizer: str
    varied: str
    lr_tuned: bool
    cells: tuple[Cell, ...]

    @property
    def of_adam(self) -> bool:
        return self.optimizer in ("adam", "adamw")

    def within(self, factor: float, steps: float) -> bool:
        """Whether its length is within a factor of these steps."""
        return abs(math.log(self.steps / steps)) <= math.log(factor)


@functools.cache
def sources() -> dict[str, Source]:
    """All sources by name."""
    _, *rows = csv.reader(packaged("sources.csv"))
    return {name: Source(name, title, where, how, used == "yes") for name, title, where, how, used in rows}


def chose(source: str) -> bool:
    """Whether a source took part in choosing the recommended rule; the user's own sweeps did not."""
    return source in sources() and sources()[source].chose


@functools.cache
def sweeps() -> tuple[EvidenceSweep, ...]:
    """Every sweep of the evidence base, in the order of the table."""
    return tuple(grouped(csv.DictReader(packaged("sweeps.csv"))))


def read_sweeps(path: str | Path, source: str = "yours") -> tuple[EvidenceSweep, ...]:
    """The sweeps of your own table, a CSV file with the columns above.

    Raises:
        ValueError: The file has no header, lacks a needed column, or has a value that is not a number.
    """
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names = set(reader.fieldnames or ()) | ({"beta1"} if "beta" in (reader.fieldnames or ()) else set())
        if missing := [name for name in ("steps", "loss", "beta1") if name not in names]:
            raise ValueError(f"{path} has no column {', '.join(missing)}; it needs steps, beta1 and loss")
        try:
            return tuple(grouped({"source": source, **{k: v or "" for k, v in row.items() if k}} for row in reader))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def grouped(rows: Iterable[Mapping[str, str]]) -> list[EvidenceSweep]:
    """Sweeps from lines of the table; lines of one sweep need not be neighbours."""
    cells: dict[tuple[str, ...], list[Cell]] = {}
    for row in rows:
        key = tuple(row.get(name, "") for name in COLUMNS[:10])
        cells.setdefault(key, []).append(_cell(row))
    return [_sweep(key, own) for key, own in cells.items()]


def _sweep(key: tuple[str, ...], cells: list[Cell]) -> EvidenceSweep:
    source, name, task, weights, batch, tokens, steps, optimizer, varied, tuned = key
    if varied not in (*VARIED, ""):
        raise ValueError(f"varied must be one of {', '.join(VARIED)}, got {varied!r}")
    length = _number(steps, "steps")
    if length is None or not 0 < length < math.inf:
        raise ValueError(f"steps must be a number above 0, got {steps!r}")
    return EvidenceSweep(
        source=source,
        name=name or f"{source} {length:,.0f}",
        task=task or name or source,
        weights=_whole(weights, "weights"),
        batch=_whole(batch, "batch"),
        tokens_per_batch=_whole(tokens, "tokens_per_batch"),
        steps=round(length),
        optimizer=optimizer or "adamw",
        varied=varied or _what_varies(cells),
        lr_tuned=tuned == "yes" if tuned else len({cell.lr for cell in cells}) > 1,
        cells=tuple(cells),
    )


def _what_varies(cells: Sequence[Cell]) -> str:
    """What a table without the column `varied` means: several tied betas are a tied sweep, with baselines or not.

    >>> [_what_varies([Cell(*pair, None, 1, 2.0, None) for pair in pairs]) for pairs in (
    ...     [(0.8, 0.8), (0.9, 0.9), (0.9, 0.999)], [(0.8, 0.99), (0.9, 0.99)], [(0.9, 0.95), (0.9, 0.99)])]
    ['tied', 'beta1', 'beta2']
    """
    if all(cell.tied for cell in cells) or len({cell.beta1 for cell in cells if cell.tied}) > 1:
        return "tied"
    return "beta2" if len({cell.beta1 for cell in cells}) == 1 else "beta1"


def _cell(row: Mapping[str, str]) -> Cell:
    beta1 = row.get("beta1") or row.get("beta", "")
    lr, loss, se = (_number(row.get(name, ""), name) for name in ("lr", "loss", "se"))
    return Cell(
        beta1=_beta(beta1, "beta1"),
        beta2=_beta(row.get("beta2") or beta1, "beta2"),
        lr=lr,
        seeds=_whole(row.get("seeds", ""), "seeds") or 1,
        loss=loss if loss is not None and math.isfinite(loss) else None,
        se=se,
    )


def _beta(text: str, name: str) -> float:
    beta = _number(text, name)
    if beta is None or not 0 <= beta < 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {text!r}")
    return beta


def _number(text: str, name: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def _whole(text: str, name: str) -> int | None:
    number = _number(text, name)
    return None if number is None else round(number)


def packaged(name: str) -> list[str]:
    """The lines of a file of the package's data."""
    return resources.files("oneclock.evidence").joinpath("data", name).read_text(encoding="utf-8").splitlines()
