"""The subject of a report: a study, its analysis, and where both come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneclock.rule import REFRESHES, Rule
from oneclock.stats import Analysis, Sweeps, analyse, read


@dataclass(frozen=True)
class Subject:
    """A title, the data and their analysis.

    `environments` are those of the runs, with the number of runs of each; `progress` describes an unfinished study.
    `plain_means`: figures of sweeps draw means over seeds, as the paper does, and not losses paired by seed.
    """

    title: str
    study: Sweeps
    analysis: Analysis
    notes: tuple[str, ...] = ()
    progress: str = ""
    environments: tuple[tuple[Mapping[str, Any], int], ...] = ()
    plain_means: bool = False


def subject_of(source: Path, refreshes: float = REFRESHES, rules: Sequence[Rule] = ()) -> Subject:
    """A study's folder, or a CSV or Parquet table of runs, analysed with the refresh rule and these rules beside it."""
    study = read(source)
    return Subject(
        title=source.resolve().name if source.is_dir() else source.stem,
        study=study,
        analysis=analyse(study, refreshes, rules=rules),
        progress=progress_of(study.states),
        environments=study.environments,
    )


def progress_of(states: Mapping[str, int]) -> str:
    """How the runs of a folder ended, in words; empty if all finished.

    >>> progress_of({"finished": 2}), progress_of({"finished": 2, "failed": 1})
    ('', 'Of 3 runs: 2 finished, 1 failed.')
    """
    parts = [f"{states[kind]} {kind}" for kind in ("finished", "diverged", "failed", "unfinished") if states.get(kind)]
    if not {*states} - {"finished"}:
        return ""
    far = " so far" if states.get("unfinished") else ""
    return f"Of {sum(states.values())} runs{far}: {', '.join(parts)}."
