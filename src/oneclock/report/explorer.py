"""The page's slider: the recommended beta and its cost at every training length at which the slider stops.

The page only looks numbers up: all of them are computed and formatted here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oneclock.recommend import MEASURED, format_beta
from oneclock.report import palette
from oneclock.report.chart import Chart, memory_position, trace
from oneclock.report.selection import POINTS, experiments_to_draw
from oneclock.report.sweeps import all_betas, curve_chart, curves_within, sweep_chart
from oneclock.rule import RECOMMENDED
from oneclock.runs.best import at_best_lrs, beta_list
from oneclock.runs.table import Sweep, Sweeps
from oneclock.stats.analyse import Analysis
from oneclock.stats.experiments import fitted, rule_cost
from oneclock.stats.results import ExperimentResult, RuleCost
from oneclock.stats.verdict import count_of, interval_words, percent

STOPS = 40
"""Stops of the slider in each decade of steps, beside the lengths of the experiments."""

DECADES = (1, 9)
"""The slider reaches from 10 ** 1 to 10 ** 9 steps at most."""

FRAME = "recommended beta"


def explorer(study: Sweeps, analysis: Analysis) -> dict[str, Any]:
    """All data of the slider, as plain values. A cost is interpolated between swept betas, as in the answer."""
    sweeps = {sweep.name: sweep for sweep in study.sweeps}
    axis, results = all_betas(analysis), experiments_to_draw(analysis)
    stops = lengths([result.steps for result in results], axis)
    low, high = MEASURED
    return {
        "stops": [_stop(steps) for steps in stops],
        "outside": f"Known sweeps cover {low:,} to {high:,} steps; outside, the rule extrapolates.",
        "experiments": [
            {
                "name": result.name,
                "sweep": chart_data(_chart(sweep_chart(result, axis))),
                **_curves(sweeps[result.name], result, POINTS // len(results)),
                "costs": _costs(sweeps[result.name], result, stops),
                "start": stops.index(float(result.steps)),
            }
            for result in results
        ],
    }


def _chart(chart: Chart) -> Chart:
    """The sweep chart with an empty frame, which the page moves."""
    kept = [one for one in chart.series if one.marker != "frame"]
    return replace(chart, series=(*kept, trace(FRAME, (), palette.RULE, marker="frame")))


def _curves(sweep: Sweep, result: ExperimentResult, most: int) -> dict[str, Any]:
    """The curves of one experiment, at most `most` evaluations, and a sentence on those that are not on the page."""
    shown, left = curves_within(sweep, result, most)
    words = f"Left to data/curves.csv: {count_of(left, 'run')}; those of the best betas are here." if left else ""
    return {"curves": chart_data(curve_chart(shown, result)), "left": words}


def lengths(planned: Sequence[float], betas: Sequence[float]) -> list[float]:
    """The steps that the slider stops at: those whose recommended beta lies within `betas`, and `planned`. Ascending.

    They are evenly spaced by ratio, in three digits.

    >>> lengths([250], [0.0, 0.5])[:3], 250.0 in lengths([250], [0.0, 0.5])
    ([10.0, 10.6, 11.2], True)
    >>> lengths([], [0.9, 0.99])[0], lengths([], [0.9, 0.99])[-1]
    (3980.0, 473000.0)
    """
    first, last = DECADES
    even = {float(f"{10 ** (stop / STOPS):.3g}") for stop in range(first * STOPS, last * STOPS + 1)}
    within = {steps for steps in even if min(betas) <= RECOMMENDED(steps) <= max(betas)}
    return sorted({*within, *map(float, planned)})


def chart_data(chart: Chart | None) -> dict[str, Any] | None:
    """A chart as the page reads it: curves with six digits, without empty fields."""
    if chart is None:
        return None
    return {
        "title": chart.title,
        "x": vars(chart.x),
        "y": vars(chart.y),
        "series": [
            {name: _short(value) for name, value in vars(series).items() if name in "xy" or value not in ("", ())}
            for series in chart.series
        ],
        "spans": [vars(span) for span in chart.spans],
        "lines": [vars(line) for line in chart.lines],
        "folded": chart.folded,
    }


def _stop(steps: float) -> dict[str, Any]:
    """The text of one stop of the slider."""
    beta, memory = RECOMMENDED(steps), 1 / RECOMMENDED.one_minus_beta(steps)
    inside = MEASURED[0] <= steps <= MEASURED[1]
    return {"steps": f"{steps:,.10g}", "inside": inside, "beta": format_beta(beta), "memory": f"{memory:,.3g}"}


def _costs(sweep: Sweep, result: ExperimentResult, stops: Sequence[float]) -> list[dict[str, Any]]:
    """For each length, what the recommended beta loses in this experiment."""
    one = fitted(sweep, at_best_lrs(sweep), result.steps)
    best = one.fit.losses[one.reference]
    return [_cost(rule_cost(one, "recommended", RECOMMENDED, steps), best) for steps in stops]


def _cost(cost: RuleCost, best: float) -> dict[str, Any]:
    """Where a cost is drawn, and its texts; `y` is None if no finite loss is known there."""
    shown = {"beta": beta_list(cost.neighbours) if cost.neighbours else None}
    if cost.beta is None or cost.excess is None or not math.isfinite(cost.excess):
        return shown | {"y": None, "loss": None, "gap": "not measured" if cost.excess is None else "a run diverged"}
    loss = best * (1 + cost.excess)
    at = {"x": _short(memory_position(cost.beta)), "y": _short(loss), "loss": f"{loss:.5g}"}
    return shown | at | {"gap": percent(cost.excess), "interval": interval_words(cost.interval).strip(" ()")}


def _short(value: Any) -> Any:
    """Numbers to six digits: what a screen can show."""
    if isinstance(value, tuple):
        return [_short(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
