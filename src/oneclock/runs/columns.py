"""The checked columns of a table of runs. Every error names its row. Rows count from 1 below the header."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneclock.horizon import Curve
from oneclock.runs.key import RunKey
from oneclock.runs.record import RunRecord, Status, has_diverged
from oneclock.runs.sweeps import SPLITS, Sweep, missing_from

_SPELLINGS = {**{split: split for split in SPLITS}, "dev": "development", "held-out": "heldout"}
_LONGEST_SHOWN = 60


@dataclass(frozen=True, eq=False)
class Rows:
    """The checked columns, as arrays of one length; `experiment` is an index into `names`; absent values are NaN.

    `curves` says whether a row is an evaluation of a run, or a whole run.
    """

    names: tuple[str, ...]
    experiment: np.ndarray
    split: np.ndarray
    budget: np.ndarray
    t_es: np.ndarray
    beta: np.ndarray
    beta2: np.ndarray
    seed: np.ndarray
    lr: np.ndarray
    step: np.ndarray
    val: np.ndarray
    train: np.ndarray
    status: np.ndarray
    curves: bool
    known_steps: dict[bytes, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def checked(cls, columns: Mapping[str, Sequence[Any]]) -> Rows:
        curves = _has_curves(columns)
        count = len(columns["experiment"])
        if not count:
            raise ValueError("the table has no rows")

        def numbers(name: str, fallback: float = math.nan) -> np.ndarray:
            return _numbers(columns[name], name) if name in columns else np.full(count, fallback)

        texts = [_text(value) for value in columns["experiment"]]
        _refuse(np.array([not text for text in texts]), "has no experiment; name one")
        names = sorted({*texts})
        indices = {name: index for index, name in enumerate(names)}
        beta, beta2, seed = numbers("beta"), numbers("beta2"), numbers("seed", 1)
        _refuse(np.isnan(beta), "has no beta; give one in [0, 1)")
        beta2 = np.where(np.isnan(beta2), beta, beta2)
        for values in (beta, beta2):
            _refuse(~((values >= 0) & (values < 1)), "has a beta outside [0, 1)", values)
        _refuse(~np.isfinite(seed) | (seed != np.floor(seed)), "has a seed that is not a whole number", seed)
        lr = numbers("lr")
        _refuse((lr <= 0) | np.isinf(lr), "has an lr that is not a finite number above 0", lr)
        budget, t_es = numbers("budget"), numbers("t_es")
        for name, values in (("budget", budget), ("t_es", t_es)):
            _refuse((values <= 0) | np.isinf(values), f"has a {name} that is not a finite number above 0", values)
        step = numbers("step", 0.0) if curves else np.zeros(count)
        _refuse(~(step >= 0) | np.isinf(step), "has no step, or one below 0", step)
        val, train = ("val_loss", "train_loss") if curves else ("min_val_loss", "min_train_loss")
        rows = cls(
            names=tuple(names),
            experiment=np.array([indices[text] for text in texts]),
            split=_splits(columns.get("split"), count),
            budget=budget,
            t_es=t_es,
            beta=beta,
            beta2=beta2,
            seed=seed,
            lr=lr,
            step=step,
            val=numbers(val),
            train=numbers(train),
            status=_states(columns.get("status"), count),
            curves=curves,
        )
        rows._refuse_duplicates()
        return rows

    def key(self, *more: np.ndarray) -> np.ndarray:
        """One row of numbers per row, which identifies its run (and the columns in `more`)."""
        lr = np.nan_to_num(self.lr, nan=-1.0)
        return np.stack([self.experiment.astype(float), self.beta, self.beta2, lr, self.seed, *more], axis=1)

    def _refuse_duplicates(self) -> None:
        key = self.key(self.step)
        _, first, index = np.unique(key, axis=0, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[index.reshape(-1)] != np.arange(len(key)))
        if len(again):
            row, before = int(again[0]), int(first[index.reshape(-1)[again[0]]])
            what = f"{self.names[self.experiment[row]]}, beta {self.beta[row]:g}, seed {self.seed[row]:g}"
            at = f", step {self.step[row]:g}" if self.curves else ""
            raise ValueError(f"row {row + 1} repeats row {before + 1} ({what}{at}); keep one of them")

    def run(self, rows: np.ndarray) -> RunRecord:
        """One run from its rows, in the order of their steps.

        A row with a training loss and no validation loss is an evaluation of the training loss alone.
        """
        first = rows[0]
        if without := {*self.status[rows]} & {*WITHOUT}:
            status: Status = "failed" if "failed" in without else "interrupted"
            return RunRecord(key=self._run_key(first), status=status)
        step, val, train = self.step[rows], self.val[rows], self.train[rows]
        validated, trained = ~np.isnan(val) | np.isnan(train), ~np.isnan(train)
        diverged = "diverged" in self.status[rows] or has_diverged(val[validated][-1:].tolist())
        best_step = int(step[np.where(np.isfinite(val), val, np.inf).argmin()])
        return RunRecord(
            key=self._run_key(first),
            status="diverged" if diverged else "finished",
            steps=int(step[-1]),
            best_loss=_smallest(val),
            best_step=best_step if self.curves and np.isfinite(val).any() else None,
            best_train_loss=_smallest(train),
            val=self._curve(step[validated], val[validated]),
            train=self._curve(step[trained], train[trained]),
        )

    def _run_key(self, row: int) -> RunKey:
        beta, beta2, lr = float(self.beta[row]), float(self.beta2[row]), float(self.lr[row])
        budget = float(self.budget[row])
        return RunKey(
            experiment=self.names[self.experiment[row]],
            beta=beta if beta2 == beta else (beta, beta2),
            seed=int(self.seed[row]),
            budget=0 if math.isnan(budget) else math.ceil(budget),
            lr=None if math.isnan(lr) else lr,
            split=str(self.split[row]),
        )

    def _curve(self, step: np.ndarray, losses: np.ndarray) -> Curve | None:
        """The curve, where there is one; runs that were evaluated at the same steps share them."""
        if not self.curves or not np.isfinite(losses).any():
            return None
        key = step.tobytes()
        if key not in self.known_steps:
            self.known_steps[key] = tuple(map(_whole, step.tolist()))
        return Curve(self.known_steps[key], losses.tolist())

    def sweep(self, code: int, runs: list[RunRecord]) -> Sweep:
        """One experiment from its runs. Columns that must have one value for the whole experiment are checked here."""
        rows = np.flatnonzero(self.experiment == code)
        name = self.names[code]
        ended = [run for run in runs if run.status in ("finished", "diverged")]
        without = [run for run in runs if run not in ended]
        left_out = [f"{name}: beta {run.beta}, seed {run.seed} has no result; left out" for run in without]
        return Sweep(
            name=name,
            split=str(self._one("split", self.split, rows)),
            budget=_known(self._one("budget", self.budget, rows)),
            t_es=_known(self._one("t_es", self.t_es, rows)),
            tied=tuple(run for run in ended if run.key.is_tied),
            untied=tuple(run for run in ended if not run.key.is_tied),
            missing=(*missing_from(name, ended), *left_out),
            without_result=tuple(without),
        )

    def _one(self, column: str, values: np.ndarray, rows: np.ndarray) -> Any:
        first = values[rows[0]]
        other = rows[(values[rows] != first) & ~((values[rows] != values[rows]) & (first != first))]
        if len(other):
            row = int(other.min())
            raise ValueError(
                f"row {row + 1} has {column} {values[row]} where row {rows[0] + 1} of the same experiment "
                f"({self.names[self.experiment[row]]}) has {first}; an experiment has one"
            )
        return first


def _has_curves(columns: Mapping[str, Sequence[Any]]) -> bool:
    """True for a table of evaluations, False for one of minima; ValueError for a mixture."""
    for name in ("experiment", "beta"):
        if name not in columns:
            raise ValueError(f"the table has no column {name!r}; it has {', '.join(map(str, columns)) or 'none'}")
    curves = "val_loss" in columns
    if curves == ("min_val_loss" in columns):
        both = "both val_loss and min_val_loss; keep one" if curves else "neither val_loss nor min_val_loss; give one"
        raise ValueError(f"the table has {both}")
    if curves and "step" not in columns:
        raise ValueError("the table has val_loss but no column 'step'; give the step of each evaluation")
    return curves


def _numbers(values: Sequence[Any], name: str) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind in "if":
        return values.astype(float)
    row = 0
    try:
        result = np.empty(len(values))
        for row, value in enumerate(values):
            result[row] = math.nan if value is None or value == "" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"row {row + 1} has {name} {_short(values[row])}, which is not a number") from None
    return result


def _splits(values: Sequence[Any] | None, count: int) -> np.ndarray:
    if values is None:
        return np.full(count, SPLITS[0])
    for row, value in enumerate(values):
        if _text(value).lower() not in _SPELLINGS:
            raise ValueError(f"row {row + 1} has split {_short(value)}; it is 'development' or 'heldout'")
    return np.array([_SPELLINGS[_text(value).lower()] for value in values])


WITHOUT = ("failed", "unfinished")
STATES = ("finished", "diverged", *WITHOUT)
"""What a table may say of a run; those in `WITHOUT` have no result."""


def _states(values: Sequence[Any] | None, count: int) -> np.ndarray:
    """The state of each row's run, by the table's own status column; empty where it says nothing."""
    if values is None:
        return np.full(count, "")
    for row, value in enumerate(values):
        if _text(value) not in ("", *STATES):
            raise ValueError(f"row {row + 1} has status {_short(value)}; it is {', '.join(map(repr, STATES))}")
    return np.array([_text(value) for value in values])


def _refuse(wrong: np.ndarray, problem: str, values: np.ndarray | None = None) -> None:
    """Raise for the first wrong row."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        shown = "" if values is None else f" ({values[row]:g})"
        raise ValueError(f"row {row + 1} {problem}{shown}")


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value).strip()


def _short(value: Any) -> str:
    """A cell for a message of one line; a long one is cut."""
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}.."


def _smallest(losses: np.ndarray) -> float | None:
    finite = losses[np.isfinite(losses)]
    return float(finite.min()) if len(finite) else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else _whole(float(value))


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value


LOSSES = "seed_best_val_losses"
_PER_BETA = ("split", "budget", "t_es", "beta", "beta2", "lr")


def one_row_per_seed(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The long table from one with the losses of all seeds in one cell, as the paper's authors publish theirs.

        split  model  dataset  beta  seed_best_val_losses     one row per beta, `;` between the seeds, counted from 1

    If there is no `experiment`, `model` and `dataset` make the name. Other columns (a mean, a spread) are not read.
    Every ValueError names the file's row.

    >>> long = one_row_per_seed({"model": ["ViT"], "dataset": ["digits"], "beta": [0.9], LOSSES: ["1.5;1.25"]})
    >>> long["experiment"], long["seed"], long["min_val_loss"]
    (['ViT, digits', 'ViT, digits'], [1, 2], [1.5, 1.25])
    """
    losses = [_losses_of_cell(cell, row) for row, cell in enumerate(columns[LOSSES], start=1)]
    kept = {"experiment": _experiments(columns)} | {name: columns[name] for name in _PER_BETA if name in columns}
    Rows.checked({**kept, "min_val_loss": [seeds[0] for seeds in losses]})
    long = {
        name: [value for value, seeds in zip(values, losses, strict=True) for _ in seeds]
        for name, values in kept.items()
    }
    long["seed"] = [seed for seeds in losses for seed in range(1, len(seeds) + 1)]
    return long | {"min_val_loss": [loss for seeds in losses for loss in seeds]}


def _experiments(columns: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    if "experiment" in columns:
        return columns["experiment"]
    if absent := [name for name in ("model", "dataset") if name not in columns]:
        raise ValueError(f"the table has {LOSSES} and no column {absent[0]!r}; name model and dataset, or experiment")
    pairs = zip(columns["model"], columns["dataset"], strict=True)
    return [f"{model}, {dataset}" if model and dataset else None for model, dataset in pairs]


def _losses_of_cell(cell: Any, row: int) -> list[float]:
    texts = [text for text in str("" if cell is None else cell).split(";") if text.strip()]
    if not texts:
        raise ValueError(f"row {row} has no loss in {LOSSES}")
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise ValueError(f"row {row} has {LOSSES} {str(cell)[:60]!r}; give numbers with ; between them") from None
