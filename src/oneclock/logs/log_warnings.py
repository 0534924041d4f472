"""Warnings about a log: on the chosen metric, on values left out, and on curves that look wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneclock.logs import names
from oneclock.logs.series import MetricSeries
from oneclock.logs.timeline import Restart, Timeline
from oneclock.metric import Direction

if TYPE_CHECKING:
    from oneclock.logs.read import LoggedRun

_MOST_RESTARTS = 3  # that are listed one by one


def about_metric(metric: str, direction: Direction, seen: Sequence[str], requested: bool) -> list[str]:
    """Warnings about the choice of the metric; `requested` if the user named it."""
    warnings = []
    if direction.source == "curve":
        shape, other = ("rises", "lower") if direction.higher_is_better else ("falls", "higher")
        kind = "higher" if direction.higher_is_better else "lower"
        warnings.append(
            f"{metric!r} is taken as {kind}-is-better because it {shape}; if that is wrong, say --{other}-is-better"
        )
    elif direction.source == "name" and direction.higher_is_better:
        warnings.append(f"{metric!r} is taken as higher-is-better by its name")
    if not requested and names.is_training(metric):
        warnings.append(
            f"no validation loss was found: {metric!r} may be a training loss, which says little about the horizon"
        )
    equals = [name for name in seen if name != metric and names.rank(name) == names.rank(metric) is not None]
    if not requested and equals:
        warnings.append(f"{names.name_list(equals)} would do as well as {metric!r}; name the metric to choose")
    return warnings


def about_points(
    series: Sequence[MetricSeries], lines: Sequence[Timeline], placeholders: Counter[float], metric: str
) -> list[str]:
    """Warnings about values that were left out, replaced or put elsewhere."""
    warnings = []
    if ignored := sum(one.ignored for one in series):
        warnings.append(f"{ignored:,} values at negative or impossible steps were left out")
    for value, count in sorted(placeholders.items()):
        values = "1 value" if count == 1 else f"{count:,} values"
        warnings.append(f"{values} of {metric!r} of exactly {value:g}, a placeholder, left out")
    warnings += _about_restarts([restart for line in lines for restart in line.restarts])
    if out_of_order := sum(line.out_of_order for line in lines):
        warnings.append(f"the steps go back {out_of_order:,} times: the values were sorted by step")
    if duplicates := sum(line.duplicates for line in lines):
        warnings.append(f"{duplicates:,} steps were logged more than once: the last value counts")
    if (stride := max(one.stride for one in series)) > 1:
        warnings.append(
            f"a very long curve: of {stride} evaluations in a row only the first counts, and the last of all"
        )
    return warnings


def about_curves(runs: Sequence[LoggedRun], metric: str, unit: str) -> list[str]:
    """Warnings about curves that show no training, or the end of it."""
    warnings = []
    for run in runs:
        of_run = f" of {run.name}" if len(runs) > 1 else ""
        finite = [value for value in run.values if math.isfinite(value)]
        if len(finite) > 1 and min(finite) == max(finite):
            warnings.append(
                f"every finite {metric!r}{of_run} is {finite[0]:g}: nothing was learned, or it is a constant"
            )
        if (end := run.diverged_at) is not None:
            warnings.append(
                f"{metric!r}{of_run} is not finite from {unit.removesuffix('s')} {end:,g} on: the run diverged"
            )
    return warnings


def _about_restarts(restarts: Sequence[Restart]) -> list[str]:
    warnings = [_about_restart(restart) for restart in restarts[:_MOST_RESTARTS]]
    if more := len(restarts) - len(warnings):
        warnings.append(f"the step counter goes back {more:,} more times")
    return warnings


def _about_restart(restart: Restart) -> str:
    back = f"the step counter goes back from {restart.last:,g} to {restart.first:,g}"
    return {
        "joined": f"{back} while the curve goes on, as after a resume: the parts were joined in order",
        "replayed": f"{back}, as after a resume from a checkpoint: the later values replace the earlier ones",
        "fresh": f"{back}, and so does the curve, as of a second run: only the last run counts",
    }[restart.kind]
