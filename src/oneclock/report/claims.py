"""What the paper's introduction claims, drawn: gaps on the training loss and times to target, rule by rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from oneclock.analysis.risk import NEAR
from oneclock.analysis.values import Analysis, TimeRow
from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Figure, Line, Trace, log_axis, named_axis
from oneclock.report.rules import DOTS, SPLITS, gap_axis, gap_marks, gap_place, rule_label

_LONGEST = 10.0
"""Times beyond so many of the oracle's own are drawn there, with those that never come."""


def claim_figures(analysis: Analysis) -> Iterator[Figure]:
    """Those that this analysis has values for."""
    yield from train_figure(analysis)
    yield from time_figure(analysis)


def train_figure(analysis: Analysis) -> Iterator[Figure]:
    """Every rule: a dot per experiment, the mean with its interval, on the training loss."""
    rows = analysis.claims.train
    if not rows:
        return
    largest = max((gap for row in rows for gap in row.gaps if gap is not None and math.isfinite(gap)), default=NEAR)
    chart = Chart(
        title="",
        x=gap_axis("gap on the training loss, %", largest),
        y=named_axis("", [rule_label(row) for row in rows]),
        series=tuple(line for line in gap_marks(analysis, rows) if line.x),
        lines=(Line(gap_place(NEAR), "x", palette.QUIET, "1 %", "dotted"),),
    )
    caption = (
        "The training loss of the beta that each rule picks, against the smallest of any beta; the diamond is the "
        "mean, its bar the interval over experiments and seeds. The axis is logarithmic above 0.1 %."
    )
    yield Figure("train-robustness", "Train robustness", caption, (chart,))


def time_figure(analysis: Analysis) -> Iterator[Figure]:
    """Every rule: the time to target of each experiment over the oracle's own, and the mean."""
    rows = analysis.claims.times
    if not rows:
        return
    marks = [*_dots(analysis, rows), *_means(rows)]
    chart = Chart(
        title="",
        x=_time_axis([x for line in marks for x in line.x]),
        y=named_axis("", [row.name for row in rows]),
        series=tuple(line for line in marks if line.x),
        lines=(Line(0.0, "x", palette.QUIET, "as fast as the oracle's beta", "dotted"),),
    )
    caption = (
        "Steps until the validation loss first comes within 1 % of the best, over those that the oracle's beta takes; "
        f"the diamond is the mean. A cross stands for an experiment that never comes there, at {_LONGEST:g}."
    )
    yield Figure("time-to-target", "Time to target", caption, (chart,))


def _time_axis(places: Sequence[float]) -> Axis:
    """Logarithmic, from the fastest to the slowest, and at least from half to twice the oracle's time."""
    low, high = min([*places, math.log10(0.5)]), max([*places, math.log10(2)])
    return log_axis("steps to target / those of the oracle's beta", 10 ** (low - 0.03), 10 ** (high + 0.03))


def _place(ratio: float) -> float:
    return math.log10(min(ratio, _LONGEST))


def _dots(analysis: Analysis, rows: Sequence[TimeRow]) -> Iterator[Trace]:
    never = "never reaches it"
    for split, color, marker in DOTS:
        for name, shape, wanted in ((f"{SPLITS[split]} experiment", marker, True), (never, "cross", False)):
            found = [
                (ratio, place, f"{row.name} on {result.name}: {_words(ratio)}")
                for place, row in enumerate(rows)
                for result, ratio in zip(analysis.experiments, row.ratios, strict=True)
                if result.split == split and ratio is not None and math.isfinite(ratio) == wanted
            ]
            yield Trace(
                name=name,
                x=tuple(_place(ratio) for ratio, _, _ in found),
                y=tuple(float(place) for _, place, _ in found),
                color=color if wanted else palette.QUIET,
                dash="none",
                marker=shape,
                texts=tuple(words for _, _, words in found),
                group=name,
            )


def _means(rows: Sequence[TimeRow]) -> Iterator[Trace]:
    name = "mean, with its interval"
    for place, row in enumerate(rows):
        if row.all is None or not math.isfinite(row.all.mean.value):
            continue
        mean, interval = row.all.mean, row.all.mean.experiments
        words = f"{row.name}, mean over {row.all.answered}: {_words(mean.value)}"
        at = (float(place),)
        yield Trace(name, (_place(mean.value),), at, palette.INK, "none", "diamond", texts=(words,), group=name)
        if interval is not None and math.isfinite(interval.upper):
            ends = (_place(interval.lower), _place(interval.upper))
            yield Trace(name, ends, at * 2, palette.INK, texts=(words, words), group=name)


def _words(ratio: float) -> str:
    return (
        f"{ratio:.2f} times the steps of the oracle's beta"
        if math.isfinite(ratio)
        else "never within 1 % of the best loss"
    )
