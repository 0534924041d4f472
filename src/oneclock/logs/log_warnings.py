"""Warnings about a log: on the chosen metric, on values left out, and on curves that look wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneclock.logs import names
from oneclock.logs.series import MetricSeries, Timeline
from oneclock.metric import Direction

if TYPE_CHECKING:
    from oneclock.logs.read import LoggedRun

_MOST_RESTARTS = 3  # that are listed one by one


def about_metric(metric: str, direction: Direction, seen: Sequence[str], requested: bool) -> list[str]:
    """Warnings about the choice of the metric; `requested` if the user named it."""
    warnings = []
    higher = direction.higher_is_better
    if direction.source == "curve":
        kind, shape, other = ("higher", "rises", "lower") if higher else ("lower", "falls", "higher")
        warnings.append(
            f"{metric!r} is taken as {kind}-is-better because it {shape}; if that is wrong, say --{other}-is-better"
        )
    elif direction.source == "name" and higher:
        warnings.append(f"{metric!r} is taken as higher-is-better by its name")
    if not requested and names.is_training(metric):
        warnings.append(
            f"no validation loss was found: {metric!r} may be a training loss, which says little about the horizon"
        )
    equals = [name for name in seen if name != metric and names.rank(name) == names.rank(metric) is not None]
    if not requested and equals:
        warnings.append(f"{names.name_list(equals)} would do as well as {metric!r}; name the metric to choose")
    return warnings


def about_points(series: Sequence[MetricSeries], lines: Sequence[Timeline], metric: str) -> list[str]:
    """Warnings about values that were left out, replaced or put elsewhere."""
    warnings = []
    if ignored := sum(one.ignored for one in series):
        warnings.append(f"left out: {names.counted(ignored, 'value')} at negative or impossible steps")
    for value, count in sorted(sum((line.placeholders for line in lines), Counter[float]()).items()):
        warnings.append(f"left out: {names.counted(count, 'value')} of {metric!r} of exactly {value:g}, a placeholder")
    restarts = [restart for line in lines for restart in line.restarts]
    for joined, last, first in restarts[:_MOST_RESTARTS]:
        back = f"the step counter goes back from {last:,g} to {first:,g}"
        resumed = f"{back} while the curve goes on, as after a resume: the parts were joined in order"
        repeated = f"{back}, as after a resume or in a second run: the later values replace the earlier ones"
        warnings.append(resumed if joined else repeated)
    if len(restarts) > _MOST_RESTARTS:
        warnings.append(f"the step counter goes back {names.counted(len(restarts) - _MOST_RESTARTS, 'more time')}")
    if out_of_order := sum(line.out_of_order for line in lines):
        warnings.append(f"the steps go back {names.counted(out_of_order, 'time')}: the values were sorted by step")
    if duplicates := sum(line.duplicates for line in lines):
        warnings.append(f"logged more than once: {names.counted(duplicates, 'step')}; the last value counts")
    if (stride := max(one.stride for one in series)) > 1:
        warnings.append(
            f"a very long curve: of {stride} evaluations in a row only the first counts, and the last of all"
        )
    return warnings


def about_curves(runs: Sequence[LoggedRun], metric: str, unit: str) -> list[str]:
    """Warnings about curves that show no training, or the end of it."""
    warnings = []
    for run in runs:
        name = f"{metric!r} of {run.name}" if len(runs) > 1 else f"{metric!r}"
        finite = [value for value in run.values if math.isfinite(value)]
        if len(finite) > 1 and min(finite) == max(finite):
            warnings.append(f"every finite {name} is {finite[0]:g}: nothing was learned, or it is a constant")
        if (end := run.diverged_at) is not None:
            warnings.append(f"{name} is not finite from {unit.removesuffix('s')} {end:,g} on: the run diverged")
    return warnings
