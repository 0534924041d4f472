"""The page's slider, worked out beforehand: for every horizon it can stop at, the rule's beta and what that costs.

The page only looks up: each number it shows was computed and printed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneclock.analysis.values import Analysis, BetaPoint, ExperimentResult
from oneclock.analysis.verdict import count_of, percent
from oneclock.report.chart import Axis, Chart, memory_axis, memory_place
from oneclock.report.shown import POINTS, drawn
from oneclock.report.sweeps import all_betas, curve_chart, curves_within, interval_words, sweep_chart
from oneclock.rule import CALIBRATED, nearest_beta, refresh_beta, stability_interval
from oneclock.study.table import Sweep, Sweeps

STOPS = 181
"""Horizons the slider can stop at, beside those of the experiments."""

REACH = 1000
"""The longest there may be, in units of R0: the rule is then at the last beta of the paper's grid."""


def explorer(study: Sweeps, analysis: Analysis) -> dict[str, Any]:
    """Everything the explorer of a page shows, as plain data. The rule picks among the swept betas."""
    refreshes = analysis.summary.refreshes
    sweeps = {sweep.name: sweep for sweep in study.sweeps}
    axis, results = all_betas(analysis), drawn(analysis)
    stops = horizons(refreshes, [result.horizons.used for result in results], axis)
    return {
        "stops": [_stop(horizon, refreshes) for horizon in stops],
        "outside": f"Outside {CALIBRATED[0]:,} to {CALIBRATED[1]:,} steps the rule extrapolates.",
        "experiments": [
            {
                "name": result.name,
                "sweep": chart_data(sweep_chart(result, refreshes, axis)),
                **_curves(sweeps[result.name], result, POINTS // len(results)),
                "points": _points(result, refreshes, memory_axis(axis)),
                "choices": choices([point.beta for point in result.gaps], stops, refreshes),
                "start": min(range(len(stops)), key=lambda i: abs(stops[i] - result.horizons.used)),
            }
            for result in results
        ],
    }


def _curves(sweep: Sweep, result: ExperimentResult, most: int) -> dict[str, Any]:
    """The curves of one experiment, at most so many evaluations, and words on those that are not on the page."""
    shown, left = curves_within(sweep, result, most)
    words = f"Left to data/curves.csv: {count_of(left, 'run')}; those of the best betas are here." if left else ""
    return {"curves": chart_data(curve_chart(shown, result)), "left": words}


def horizons(refreshes: float, used: Sequence[float], betas: Sequence[float]) -> list[float]:
    """The horizons the slider can stop at, ascending: those whose beta lies within `betas`, and those in `used`.

    They are evenly apart by ratio, three digits each.

    >>> horizons(1000, [20_500], [0.0, 0.999])[:3], 20_500 in horizons(1000, [20_500], [0.0, 0.999])
    ([1040.0, 1080.0, 1120.0], True)
    >>> horizons(1000, [], [0.9, 0.99])[0], horizons(1000, [], [0.9, 0.99])[-1]
    (10300.0, 97500.0)
    """
    ratio = REACH ** (1 / STOPS)
    even = {float(f"{refreshes * ratio**step:.3g}") for step in range(1, STOPS + 1)}
    low, high = (refreshes / (1 - beta) for beta in (min(betas), max(betas)))
    within = {horizon for horizon in even if low <= horizon <= high * 1.0001}
    return sorted({*within, *(float(horizon) for horizon in used)})


def choices(betas: Sequence[float], stops: Sequence[float], refreshes: float) -> list[int | None]:
    """For each horizon, which of the betas the rule picks; None where it has none.

    >>> choices([0.9, 0.99], [1000, 10_000, 1_000_000], 1000)
    [None, 0, 1]
    """
    return [
        betas.index(nearest_beta(refresh_beta(stop, refreshes), betas)) if stop > refreshes else None for stop in stops
    ]


def chart_data(chart: Chart | None) -> dict[str, Any] | None:
    """A chart as the page reads it: curves to six digits, absent things left out."""
    if chart is None:
        return None
    return {
        "title": chart.title,
        "x": vars(chart.x),
        "y": vars(chart.y),
        "series": [
            {name: _short(value) for name, value in vars(series).items() if value not in ("", ())}
            for series in chart.series
        ],
        "spans": [vars(span) for span in chart.spans],
        "lines": [vars(line) for line in chart.lines],
        "folded": chart.folded,
    }


def _stop(horizon: float, refreshes: float) -> dict[str, Any]:
    """One stop of the slider in words."""
    shown = {"steps": f"{horizon:,.10g}", "inside": CALIBRATED[0] <= horizon <= CALIBRATED[1]}
    if horizon <= refreshes:
        return shown
    return shown | {"beta": f"{refresh_beta(horizon, refreshes):.5g}", "memory": f"{horizon / refreshes:,.4g}"}


def _points(result: ExperimentResult, refreshes: float, axis: Axis) -> list[dict[str, Any]]:
    """Every beta the rule may pick: where it is drawn, what it costs, and the horizons that lead to it."""
    betas = [point.beta for point in result.gaps]
    found = []
    for point in result.gaps:
        lower, upper = stability_interval(point.beta, refreshes, betas)
        reach = {
            "from": f"{max(lower, refreshes):,.0f}",
            "to": f"{upper:,.0f}" if math.isfinite(upper) else None,
            "low": max(math.log10(lower / refreshes), axis.low) if lower > refreshes else axis.low,
            "high": min(math.log10(upper / refreshes), axis.high) if math.isfinite(upper) else axis.high,
        }
        found.append({"beta": f"{point.beta:g}", "x": memory_place(point.beta), **_cost(point), **reach})
    return found


def _cost(point: BetaPoint) -> dict[str, Any]:
    """What a beta costs, as printed; `y` is None where it has no finite loss."""
    if not math.isfinite(point.loss):
        return {"y": None, "loss": None, "gap": "no finite loss", "interval": ""}
    return {
        "y": point.loss,
        "loss": f"{point.loss:.5g}",
        "gap": percent(point.gap),
        "interval": interval_words(point.interval).strip(" ()"),
    }


def _short(value: Any) -> Any:
    """Numbers to six digits: what a screen can show."""
    if isinstance(value, tuple):
        return [_short(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
