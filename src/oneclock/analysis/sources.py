"""The door into the analysis: a table or a study, and for the paper's own experiments what the paper says of them.

The losses that the paper's authors publish come without T_ES and without budgets; both are printed in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.experiments.spelled import spelled
from oneclock.study import table
from oneclock.study.sweeps import Sweep, Sweeps

if TYPE_CHECKING:
    import pandas as pd


def read(source: str | Path | pd.DataFrame | Mapping[str, Sequence[Any]]) -> Sweeps:
    """A study from a CSV, TSV or Parquet file, a study's folder, a DataFrame or a mapping of columns.

    An experiment of the paper without T_ES, budget and curves gets those that the paper prints, and `missing` says so.

    >>> study = read({"model": ["ViT-B/16"], "dataset": ["CIFAR-100"], "beta": [0.9], "seed_best_val_losses": ["1;2"]})
    >>> study.sweeps[0].t_es, study.sweeps[0].budget, study.missing[0]
    (20000, 19500, "T_ES and budget are the paper's, for the table has neither: ViT-B/16, CIFAR-100")
    """
    study = table.read(source)
    filled = tuple(map(_with_the_papers, study.sweeps))
    names = [new.name for old, new in zip(study.sweeps, filled, strict=True) if new is not old]
    if not names:
        return study
    told = f"T_ES and budget are the paper's, for the table has neither: {'; '.join(names)}"
    return Sweeps(filled, (*study.missing, told))


def _with_the_papers(sweep: Sweep) -> Sweep:
    if sweep.t_es is not None or sweep.budget is not None or any(trial.val is not None for trial in sweep.tied):
        return sweep
    experiment = spelled(sweep.name)
    return sweep if experiment is None else replace(sweep, t_es=experiment.t_es, budget=experiment.budget)
