"""The checked columns of a table of runs. Every error names its row. Rows count from 1 below the header."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from oneclock.horizon import Curve
from oneclock.runs.key import RunKey
from oneclock.runs.record import ENDS, RunRecord, Status, has_diverged
from oneclock.runs.sweeps import SPLITS, Sweep, sweep_of

STATES = ("finished", "diverged", "failed", "unfinished")
"""What a table may say of a run; the last two have no result."""

_NUMBERS = {"beta": math.nan, "beta2": math.nan, "seed": 1.0, "lr": math.nan, "budget": math.nan, "t_es": math.nan}
"""The columns of numbers, with the value that stands for an absent column."""


def _wrong(name: str, values: np.ndarray) -> tuple[np.ndarray, str]:
    """Which values of a column are wrong, and what to say of the first one."""
    if name in ("beta", "beta2"):
        return ~((values >= 0) & (values < 1)), "has a beta outside [0, 1) ({:g})"
    if name == "seed":
        return ~np.isfinite(values) | (values != np.floor(values)), "has a seed that is not a whole number ({:g})"
    if name == "step":
        return ~(values >= 0) | np.isinf(values), "has no step, or one below 0 ({:g})"
    article = "an" if name == "lr" else "a"
    return (values <= 0) | np.isinf(values), f"has {article} {name} that is not a finite number above 0 ({{:g}})"


class Rows:
    """A table with checked values: arrays of one length by column. A row is an evaluation of a run, or a whole run."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        columns = _as_long_table(columns)
        self.has_curves = _has_curves(columns)
        count = len(columns["experiment"])
        if not count:
            raise ValueError("the table has no rows")
        names = [_text(value) for value in columns["experiment"]]  # no array: that has the longest name's width
        if "" in names:
            raise ValueError(f"row {names.index('') + 1} has no experiment; name one")
        self.names = sorted({*names})
        codes = {name: code for code, name in enumerate(self.names)}
        self.experiment = np.array([codes[name] for name in names])
        losses = ("val_loss", "train_loss") if self.has_curves else ("min_val_loss", "min_train_loss")
        defaults = _NUMBERS | dict.fromkeys(losses, math.nan) | ({"step": math.nan} if self.has_curves else {})
        values = {"step": np.zeros(count)}
        for name, default in defaults.items():
            values[name] = _numbers(columns[name], name) if name in columns else np.full(count, default)
        if (rows := np.flatnonzero(np.isnan(values["beta"]))).size:
            raise ValueError(f"row {rows[0] + 1} has no beta; give one in [0, 1)")
        values["beta2"] = np.where(np.isnan(values["beta2"]), values["beta"], values["beta2"])
        for name in (*_NUMBERS, "step"):
            wrong, problem = _wrong(name, values[name])
            if (rows := np.flatnonzero(wrong)).size:
                raise ValueError(f"row {rows[0] + 1} {problem.format(values[name][rows[0]])}")
        self.values, self.val, self.train = values, values[losses[0]], values[losses[1]]
        self.split = _choices(columns.get("split"), "split", SPLITS, count, SPLITS[0])
        self.status = _choices(columns.get("status"), "status", STATES, count)
        lr = np.nan_to_num(values["lr"], nan=-1.0)
        self._run = np.stack([self.experiment, values["beta"], values["beta2"], lr, values["seed"]], axis=1)

    def sweeps(self) -> Iterator[Sweep]:
        """Every experiment with its runs; ValueError if a row repeats another, or an experiment has two budgets."""
        step = self.values["step"]
        order = np.lexsort((step, *self._run.T[::-1]))
        same_run = (self._run[order][1:] == self._run[order][:-1]).all(axis=1)
        if (again := np.flatnonzero(same_run & (np.diff(step[order]) == 0))).size:
            before, row = min((order[place], order[place + 1]) for place in again)
            what = f"{self.names[self.experiment[row]]}, beta {self.values['beta'][row]:g}"
            what += f", seed {self.values['seed'][row]:g}" + (f", step {step[row]:g}" if self.has_curves else "")
            raise ValueError(f"row {row + 1} repeats row {before + 1} ({what}); keep one of them")
        runs: dict[int, list[RunRecord]] = {}
        for rows in np.split(order, np.flatnonzero(~same_run) + 1):
            runs.setdefault(int(self.experiment[rows[0]]), []).append(self._record(rows))
        for code, records in runs.items():
            yield self._sweep(self.names[code], np.flatnonzero(self.experiment == code), records)

    def _record(self, rows: np.ndarray) -> RunRecord:
        """One run from its rows, in the order of their steps."""
        key, states = self._key(rows[0]), {*self.status[rows]}
        if states & {"failed", "unfinished"}:
            return RunRecord(key, "failed" if "failed" in states else "interrupted")
        step, val, train = self.values["step"][rows], self.val[rows], self.train[rows]
        validated, trained = ~np.isnan(val) | np.isnan(train), ~np.isnan(train)
        diverged = "diverged" in states or has_diverged(val[validated][-1:].tolist())
        best = np.where(np.isfinite(val), val, np.inf).argmin()
        has_loss = bool(np.isfinite(val[best]))
        return RunRecord(
            key=key,
            status="diverged" if diverged else "finished",
            steps=int(step[-1]),
            best_loss=float(val[best]) if has_loss else None,
            best_step=int(step[best]) if self.has_curves and has_loss else None,
            best_train_loss=min(train[np.isfinite(train)].tolist(), default=None),
            val=self._curve(step[validated], val[validated]),
            train=self._curve(step[trained], train[trained]),
        )

    def _key(self, row: int) -> RunKey:
        beta, beta2, seed, lr, budget, _ = (float(self.values[name][row]) for name in _NUMBERS)
        return RunKey(
            experiment=self.names[self.experiment[row]],
            beta=beta if beta2 == beta else (beta, beta2),
            seed=int(seed),
            budget=0 if math.isnan(budget) else math.ceil(budget),
            lr=None if math.isnan(lr) else lr,
            split=str(self.split[row]),
        )

    def _curve(self, step: np.ndarray, losses: np.ndarray) -> Curve | None:
        if not self.has_curves or not np.isfinite(losses).any():
            return None
        return Curve(tuple(map(_whole, step.tolist())), losses.tolist())

    def _sweep(self, name: str, rows: np.ndarray, runs: Sequence[RunRecord]) -> Sweep:
        """One experiment from its runs; columns that must have one value for all of them are checked here."""
        split, budget, t_es = self.split, self.values["budget"], self.values["t_es"]
        for column, values in (("split", split), ("budget", budget), ("t_es", t_es)):
            first = values[rows[0]]
            other = rows[(values[rows] != first) & ((values[rows] == values[rows]) | (first == first))]
            if other.size:
                row = f"row {other[0] + 1} has {column} {values[other[0]]}"
                where = f"row {rows[0] + 1} of the same experiment ({name}) has {first}"
                raise ValueError(f"{row} where {where}; an experiment has one")
        lost = [f"{name}: beta {run.beta}, seed {run.seed} has no result; left out" for run in runs if not run.has_loss]
        steps, horizon = (None if math.isnan(one) else _whole(float(one)) for one in (budget[rows[0]], t_es[rows[0]]))
        return sweep_of(runs, steps, horizon, lost)


def _as_long_table(columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    """The columns of `Study.table()` as those of a long table; any others as they are."""
    if not {"beta", "best_loss", "status"} <= columns.keys() or {"val_loss", "min_val_loss"} & columns.keys():
        return columns
    pairs = [beta if isinstance(beta, tuple) else (beta, beta) for beta in columns["beta"]]
    not_ended = [status for status in get_args(Status) if status not in ENDS]
    states = ["unfinished" if status in not_ended else status for status in columns["status"]]
    beta, beta2 = zip(*pairs, strict=True) if pairs else ((), ())
    return {**columns, "beta": beta, "beta2": beta2, "status": states, "min_val_loss": columns["best_loss"]}


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
        short = values.dtype.kind == "f" and values.dtype.itemsize < 8 and name in _NUMBERS
        return values.astype(str if short else float).astype(float)  # 0.9 in 32 bits is 0.9, as in `rule.as_float`
    row = 0
    try:
        result = np.empty(len(values))
        for row, value in enumerate(values):
            result[row] = math.nan if value is None or value == "" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"row {row + 1} has {name} {_short(values[row])}, which is not a number") from None
    return result


def _choices(
    values: Sequence[Any] | None, name: str, allowed: Sequence[str], count: int, default: str | None = None
) -> np.ndarray:
    """A column with a few allowed words; without a `default`, cells may be empty."""
    if values is None:
        return np.full(count, default or "")
    texts = [_text(value) for value in values]
    for row, text in enumerate(texts):
        if text not in allowed and (text or default is not None):
            words = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
            raise ValueError(f"row {row + 1} has {name} {_short(values[row])}; it is {words}")
    return np.array(texts)


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value).strip()


def _short(value: Any) -> str:
    """A cell for a message of one line; a long one is cut."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}.."


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value
