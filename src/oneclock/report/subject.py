"""What a report is about: a study, its analysis, and where both come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneclock.analysis import Analysis, Sweeps, analyse, read
from oneclock.rule import REFRESHES, Rule
from oneclock.study import records


@dataclass(frozen=True)
class Subject:
    """A title, the data and what they say.

    `environments` are those the runs recorded, each with how many runs did; `progress` says how far an unfinished
    study is.
    """

    title: str
    study: Sweeps
    analysis: Analysis
    notes: tuple[str, ...] = ()
    progress: str = ""
    environments: tuple[tuple[Mapping[str, Any], int], ...] = ()


def subject_of(source: Path, refreshes: float = REFRESHES, rules: Sequence[Rule] = ()) -> Subject:
    """A study's folder, or a CSV or Parquet table of runs, analysed with the refresh rule and these rules beside it."""
    study = read(source)
    runs = list(records.runs_of(source)) if source.is_dir() else []
    return Subject(
        title=source.resolve().name if source.is_dir() else source.stem,
        study=study,
        analysis=analyse(study, refreshes, rules=rules),
        progress=progress_of(runs),
        environments=_environments(runs),
    )


def progress_of(runs: Sequence[records.Run]) -> str:
    """How the runs of a folder ended, in words; empty where all finished.

    >>> progress_of([])
    ''
    """
    results = [run.result for run in runs]
    counts = Counter("unfinished" if result is None else result.status for result in results)
    if counts["finished"] == len(runs):
        return ""
    parts = [f"{counts[kind]} {kind}" for kind in ("finished", "diverged", "failed", "unfinished") if counts[kind]]
    far = " so far" if counts["unfinished"] else ""
    return f"Of {len(runs)} runs{far}: {', '.join(parts)}."


def _environments(runs: Sequence[records.Run]) -> tuple[tuple[Mapping[str, Any], int], ...]:
    counts = Counter(json.dumps(run.environment, sort_keys=True) for run in runs if run.environment)
    return tuple((json.loads(text), count) for text, count in counts.most_common())
