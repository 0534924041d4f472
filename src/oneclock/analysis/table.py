"""The one door in: a long table, a file of one, or a study's folder of records -> a `Study` of sweeps.

    experiment  split  budget  t_es  beta  beta2  seed   and   step  val_loss  train_loss   (one row per evaluation)
                                                         or    min_val_loss  min_train_loss (one row per run)

`experiment`, `beta` and a loss are needed. Without `split` all is development; without `seed` it is seed 1; without
`budget` the last step stands for it; without `t_es` it is computed from the curves. `beta2` is for untied baselines
only: a row where it is set and differs from `beta` stands beside the sweep and never in it. Rows count from 1 below
the header; their order means nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oneclock import records
from oneclock.horizon import Curve
from oneclock.rule import GRID

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("development", "heldout")
_SPELLINGS = {**{split: split for split in SPLITS}, "dev": "development", "held-out": "heldout"}
_PARQUET = (".parquet", ".pq")
_TEXT = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Trial:
    """One run: its curves where they are known, its smallest finite losses (None where there is none)."""

    beta: float
    beta2: float | None
    seed: int
    val: Curve | None
    train: Curve | None
    min_val_loss: float | None
    min_train_loss: float | None


@dataclass(frozen=True)
class Sweep:
    """One experiment: runs of several betas and seeds; `tied` by beta and seed, `untied` baselines beside them."""

    name: str
    split: str
    budget: float | None
    t_es: float | None
    tied: tuple[Trial, ...]
    untied: tuple[Trial, ...]
    missing: tuple[str, ...] = ()

    @property
    def betas(self) -> tuple[float, ...]:
        """The tied betas that were swept, ascending."""
        return tuple(sorted({trial.beta for trial in self.tied}))


@dataclass(frozen=True)
class Study:
    """Sweeps, development first, each in the order of their names; `missing` says in words what was left out."""

    sweeps: tuple[Sweep, ...]
    missing: tuple[str, ...] = ()


def read(source: str | Path | pd.DataFrame | Mapping[str, Sequence[Any]]) -> Study:
    """A study from a CSV or Parquet file, a study's folder, a DataFrame or a mapping of columns.

    >>> study = read({"experiment": ["digits"] * 2, "budget": [500] * 2, "beta": [0.9, 0.99], "min_val_loss": [1, 2]})
    >>> study.sweeps[0].betas
    (0.9, 0.99)
    """
    if isinstance(source, Mapping):
        return study_of(source)
    if not isinstance(source, str | Path):
        return study_of(_columns(source))
    path = Path(source)
    if path.is_dir():
        return _study_of_records(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; give a CSV or Parquet file, or a study's folder")
    import pandas as pd

    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        frame = pd.read_parquet(path)
    elif suffix in _TEXT:
        try:
            frame = pd.read_csv(path, sep=_TEXT[suffix], dtype={"experiment": "object", "split": "object"})
        except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise ValueError(f"{path.name} is not a table: {str(error).strip()}") from None
    else:
        raise ValueError(f"{path.name} is neither .csv, .tsv nor .parquet; save the table as one of them")
    try:
        return study_of(_columns(frame))
    except ValueError as error:
        raise ValueError(f"{path.name}, {error}") from None


def study_of(columns: Mapping[str, Sequence[Any]], missing: tuple[str, ...] = ()) -> Study:
    """A study from the columns of a long table, all of one length. Every ValueError names the row."""
    table = _Rows.checked(columns)
    order = np.lexsort((table.step, table.seed, table.beta2, table.beta, table.experiment))
    key = np.stack([table.experiment.astype(float), table.beta, table.beta2, table.seed], axis=1)[order]
    starts = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]).any(axis=1)])
    trials: dict[int, list[Trial]] = {}
    for rows in np.split(order, starts[1:]):
        trials.setdefault(int(table.experiment[rows[0]]), []).append(table.trial(rows))
    sweeps, left_out = [], list(missing)
    for code, runs in trials.items():
        sweep = table.sweep(code, runs)
        if any(trial.min_val_loss is not None for trial in sweep.tied):
            sweeps.append(sweep)
        else:
            left_out.append(f"{sweep.name}: no tied beta has a finite loss; left out")
    if not sweeps:
        raise ValueError("no experiment has a tied beta with a finite loss; there is nothing to analyse")
    sweeps.sort(key=lambda sweep: (SPLITS.index(sweep.split), _natural(sweep.name)))
    return Study(tuple(sweeps), tuple(left_out))


@dataclass(frozen=True, eq=False)
class _Rows:
    """The checked columns, as arrays of one length; `experiment` is an index into `names`; absent values are NaN."""

    names: tuple[str, ...]
    experiment: np.ndarray
    split: np.ndarray
    budget: np.ndarray
    t_es: np.ndarray
    beta: np.ndarray
    beta2: np.ndarray
    seed: np.ndarray
    step: np.ndarray
    val: np.ndarray
    train: np.ndarray
    curves: bool

    @classmethod
    def checked(cls, columns: Mapping[str, Sequence[Any]]) -> _Rows:
        curves = _has_curves(columns)
        count = len(columns["experiment"])
        if not count:
            raise ValueError("the table has no rows")

        def numbers(name: str, fallback: float = math.nan) -> np.ndarray:
            return _numbers(columns[name], name) if name in columns else np.full(count, fallback)

        texts = [_text(value) for value in columns["experiment"]]
        _refuse(np.array([not text for text in texts]), "has no experiment; name one")
        names, experiment = np.unique(np.array(texts), return_inverse=True)
        beta, beta2, seed = numbers("beta"), numbers("beta2"), numbers("seed", 1)
        _refuse(np.isnan(beta), "has no beta; give one in [0, 1)")
        beta2 = np.where(np.isnan(beta2), beta, beta2)
        for values in (beta, beta2):
            _refuse(~((values >= 0) & (values < 1)), "has a beta outside [0, 1)", values)
        _refuse(seed != np.floor(seed), "has a seed that is not a whole number", seed)
        budget, t_es = numbers("budget"), numbers("t_es")
        for name, values in (("budget", budget), ("t_es", t_es)):
            _refuse((values <= 0) | np.isinf(values), f"has a {name} that is not a finite number above 0", values)
        step = numbers("step") if curves else np.zeros(count)
        _refuse(~(step >= 0) | np.isinf(step), "has no step, or one below 0", step)
        val, train = ("val_loss", "train_loss") if curves else ("min_val_loss", "min_train_loss")
        rows = cls(
            names=tuple(names.tolist()),
            experiment=experiment.reshape(-1),
            split=_splits(columns.get("split"), count),
            budget=budget,
            t_es=t_es,
            beta=beta,
            beta2=beta2,
            seed=seed,
            step=step,
            val=numbers(val),
            train=numbers(train),
            curves=curves,
        )
        rows._refuse_duplicates()
        return rows

    def _refuse_duplicates(self) -> None:
        key = np.stack([self.experiment.astype(float), self.beta, self.beta2, self.seed, self.step], axis=1)
        _, first, index = np.unique(key, axis=0, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[index.reshape(-1)] != np.arange(len(key)))
        if len(again):
            row, before = int(again[0]), int(first[index.reshape(-1)[again[0]]])
            what = f"{self.names[self.experiment[row]]}, beta {self.beta[row]:g}, seed {self.seed[row]:g}"
            at = f", step {self.step[row]:g}" if self.curves else ""
            raise ValueError(f"row {row + 1} repeats row {before + 1} ({what}{at}); keep one of them")

    def trial(self, rows: np.ndarray) -> Trial:
        """One run from its rows, which are in the order of their steps."""
        first = rows[0]
        beta, beta2 = float(self.beta[first]), float(self.beta2[first])
        return Trial(
            beta=beta,
            beta2=None if beta2 == beta else beta2,
            seed=int(self.seed[first]),
            val=self._curve(self.val, rows, keep_nan=True),
            train=self._curve(self.train, rows, keep_nan=False),
            min_val_loss=_smallest(self.val[rows]),
            min_train_loss=_smallest(self.train[rows]),
        )

    def _curve(self, losses: np.ndarray, rows: np.ndarray, keep_nan: bool) -> Curve | None:
        """A NaN validation loss stands in the curve; a NaN training loss was not measured at that step."""
        if not self.curves or _smallest(losses[rows]) is None:
            return None
        kept = rows if keep_nan else rows[~np.isnan(losses[rows])]
        return Curve([_whole(step) for step in self.step[kept].tolist()], losses[kept].tolist())

    def sweep(self, code: int, trials: list[Trial]) -> Sweep:
        """One experiment from its runs; what must be one value for all its rows is checked here."""
        rows = np.flatnonzero(self.experiment == code)
        name = self.names[code]
        return Sweep(
            name=name,
            split=str(self._one("split", self.split, rows)),
            budget=_known(self._one("budget", self.budget, rows)),
            t_es=_known(self._one("t_es", self.t_es, rows)),
            tied=tuple(trial for trial in trials if trial.beta2 is None),
            untied=tuple(trial for trial in trials if trial.beta2 is not None),
            missing=tuple(_missing(name, trials)),
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


def _missing(name: str, trials: list[Trial]) -> Iterator[str]:
    for trial in trials:
        if trial.min_val_loss is None:
            beta2 = "" if trial.beta2 is None else f"/{trial.beta2:g}"
            yield f"{name}: beta {trial.beta:g}{beta2}, seed {trial.seed} has no finite validation loss"
    seeds: dict[float, int] = {}
    for trial in trials:
        if trial.beta2 is None and trial.min_val_loss is not None:
            seeds[trial.beta] = seeds.get(trial.beta, 0) + 1
    if len(seeds) == 1:
        yield f"{name}: one beta was swept; its gap is 0 whatever it is"
    if seeds and max(seeds.values()) == 1:
        yield f"{name}: one seed per beta; its gaps have no interval"
    elif single := [beta for beta, count in seeds.items() if count == 1]:
        yield f"{name}: one seed at beta {_listed(single)}"
    swept = {trial.beta for trial in trials if trial.beta2 is None}
    if swept & set(GRID) and (absent := [beta for beta in GRID if beta not in swept]):
        yield f"{name}: not swept at beta {_listed(absent)} of the paper's grid"


def _study_of_records(path: Path) -> Study:
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("experiment", "split", "budget", "beta", "beta2", "seed", "step", "val_loss", "train_loss")
    }
    missing = []
    for run in records.runs_of(path):
        identity, result = run.identity, run.result
        if result is None or result.status == "failed":
            why = "is not finished" if result is None else f"failed ({result.reason or 'no reason recorded'})"
            missing.append(f"{identity.experiment}: beta {identity.beta}, seed {identity.seed} {why}; left out")
            continue
        beta, beta2 = identity.beta if isinstance(identity.beta, tuple) else (identity.beta, None)
        head = (identity.experiment, identity.split, identity.budget, beta, beta2, identity.seed)
        points = [point for point in run.points() if point.val_loss is not None or point.train_loss is not None]
        for point in points or [records.Point(step=0)]:
            for name, value in zip(columns, (*head, point.step, point.val_loss, point.train_loss), strict=True):
                columns[name].append(value)
    if not columns["experiment"]:
        waiting = f" ({len(missing)} are unfinished or failed)" if missing else ""
        raise ValueError(f"{path} holds no finished run below runs/{waiting}; finish the sweep first")
    return study_of(columns, tuple(missing))


def _columns(frame: pd.DataFrame) -> dict[str, Sequence[Any]]:
    """A frame's columns as plain lists or arrays, whatever pandas calls its strings and its missing values."""

    def column(values: pd.Series[Any]) -> Any:
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "if":
            return values.to_numpy()
        return [None if absent else value for value, absent in zip(values, values.isna(), strict=True)]

    return {str(name): column(frame[name]) for name in frame.columns}


def _has_curves(columns: Mapping[str, Sequence[Any]]) -> bool:
    """True for a table of evaluations, False for one of minima; anything between is refused."""
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
    except (TypeError, ValueError):
        raise ValueError(f"row {row + 1} has {name} {values[row]!r}, which is not a number") from None
    return result


def _splits(values: Sequence[Any] | None, count: int) -> np.ndarray:
    if values is None:
        return np.full(count, SPLITS[0])
    for row, value in enumerate(values):
        if _text(value).lower() not in _SPELLINGS:
            raise ValueError(f"row {row + 1} has split {value!r}; it is 'development' or 'heldout'")
    return np.array([_SPELLINGS[_text(value).lower()] for value in values])


def _refuse(wrong: np.ndarray, problem: str, values: np.ndarray | None = None) -> None:
    """Raise for the first wrong row."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        shown = "" if values is None else f" ({values[row]:g})"
        raise ValueError(f"row {row + 1} {problem}{shown}")


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value).strip()


def _smallest(losses: np.ndarray) -> float | None:
    finite = losses[np.isfinite(losses)]
    return float(finite.min()) if len(finite) else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else _whole(float(value))


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value


def _listed(betas: Sequence[float]) -> str:
    return ", ".join(f"{beta:g}" for beta in betas)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts 2 before 10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]
