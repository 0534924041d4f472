"""The whole analysis of a study, as one frozen value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.rule import Fixed, Rule
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweeps
from oneclock.runs.table import read_source
from oneclock.stats.experiments import ExperimentResult, FittedSweep, fitted, result_of, side_by_side
from oneclock.stats.exponents import Series, series_of
from oneclock.stats.rules import RuleComparison, RuleRow, compare, outcome, rule_row
from oneclock.stats.verdict import count_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Analysis:
    """Everything that is known about a study.

    Attributes:
        experiments: One result per experiment: its best beta, every beta, baselines, and what rules would have cost.
        rules: Every rule side by side, the recommended one first, each at its own beta for the planned steps.
        comparisons: The recommended beta, the paper's rule, the best fixed beta and the rules given, two at a time.
        series: How the best beta moves with the length of training.
        missing: What was left out or is not known, in words.
    """

    experiments: tuple[ExperimentResult, ...]
    rules: tuple[RuleRow, ...]
    comparisons: tuple[RuleComparison, ...]
    series: tuple[Series, ...]
    missing: tuple[str, ...]

    @property
    def recommended(self) -> RuleRow:
        """The excess loss of the recommended beta."""
        return self.rules[0]

    def __repr__(self) -> str:
        head = f"<Analysis of {count_of(len(self.experiments), 'experiment')}"
        shown = [f"  {one.name}: {one.best.summary}" for one in self.experiments[:12]]
        more = [f"  .. and {len(self.experiments) - 12} more"] if len(self.experiments) > 12 else []
        return "\n".join([head, *shown, *more]) + ">"


def analyse(
    study: Sweeps | str | Path | pd.DataFrame | Mapping[str, Sequence[Any]], rules: Sequence[Rule] = ()
) -> Analysis:
    """The whole analysis of a study. Equal data and equal rules give an equal value.

    Args:
        study: A study's folder, a CSV, TSV or Parquet file of runs, a DataFrame, columns, or what `read` made of one.
        rules: Other rules to put side by side: `Refresh`, `Fixed`, `Power`, or any callable of that kind.

    Raises:
        ValueError: If the source cannot be read, holds nothing to analyse, or was not swept near a given fixed beta.

    >>> table = {"experiment": "aaabbb", "budget": [10_000] * 6, "beta": [0, 0.9, 0.99] * 2,
    ...          "min_val_loss": [3, 1, 2, 3, 2, 4]}
    >>> [one.best.beta for one in analyse(table).experiments]
    [0.9, 0.9]
    """
    study = study if isinstance(study, Sweeps) else read_source(study)
    sweeps = [fitted(one) for one in study.sweeps]
    swept = sorted({beta for one in sweeps for beta in one.sweep.betas})
    _refuse_unmeasured(rules, swept, sweeps)
    named = [outcome(one, sweeps) for one in side_by_side(rules)]
    fixed = [outcome(Fixed(beta), sweeps) for beta in swept]
    rows = [rule_row(one, sweeps) for one in (*named, *fixed)]
    _, best = min(zip(rows[len(named) :], fixed, strict=True), key=lambda one: (-one[0].measured, one[0].mean or 0.0))
    best = dataclasses.replace(best, name=f"{best.name}, best by mean")
    experiments = tuple(result_of(one, rules) for one in sweeps)
    return Analysis(
        experiments=experiments,
        rules=tuple(rows),
        comparisons=compare(list(combinations([*named, best], 2)), sweeps),
        series=series_of([(one.whole, one.profiles) for one in sweeps]),
        missing=(*study.missing, *_missing(sweeps), *(line for one in experiments for line in one.missing)),
    )


def _refuse_unmeasured(rules: Sequence[Rule], swept: Sequence[float], sweeps: Sequence[FittedSweep]) -> None:
    """ValueError for a fixed beta near which nothing was swept: it is never replaced by another one."""
    for beta in (rule.beta for rule in rules if isinstance(rule, Fixed)):
        if all(sweep.mixture(beta) is None for sweep in sweeps):
            few = ", ".join(f"{near:g}" for near in sorted(swept, key=lambda near: abs(near - beta))[:5])
            raise ValueError(f"no experiment was swept at beta {beta:g}; give a fixed beta that was (nearest: {few})")


def _missing(sweeps: Sequence[FittedSweep]) -> Iterator[str]:
    if not any(one.fit.has_noise for one in sweeps):
        yield "No experiment has two seeds at a beta: no figure has an interval over seeds."
    if len(sweeps) == 1:
        yield "One experiment: there is no CI over experiments."


_OF_RUNS = ("seed", "status", "steps", "best_loss", "best_step", "best_train_loss")


def as_json(value: Any) -> Any:
    """The value as plain JSON data, runs without their curves; numbers that are not finite become null."""
    if isinstance(value, RunRecord):
        return {name: as_json(getattr(value, name)) for name in _OF_RUNS}
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
