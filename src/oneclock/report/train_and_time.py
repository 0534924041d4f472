"""What the paper's introduction claims, drawn: gaps on the training loss and times to target, rule by rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Figure, Line, Marker, Trace, named_axis, number_axis, padded
from oneclock.report.rules import DOTS, SPLITS, gap_axis, gap_marks, gap_place, rule_label
from oneclock.stats.analyse import Analysis
from oneclock.stats.risk import NEAR
from oneclock.stats.train_and_time import TimeRow


def introduction_figures(analysis: Analysis) -> Iterator[Figure]:
    """Those that this analysis has values for."""
    yield from train_figure(analysis)
    yield from time_figure(analysis)


def train_figure(analysis: Analysis) -> Iterator[Figure]:
    """Every rule: a dot per experiment, the mean with its interval, on the training loss."""
    rows = analysis.train_and_time.train
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
    """Every rule: the time to target of each experiment over the oracle's own, and the mean where all have one."""
    rows = analysis.train_and_time.times
    if not rows:
        return
    axis = _time_axis([ratio for row in rows for ratio, there in _pairs(row) if there])
    marks = [*_dots(analysis, rows, never=axis.ticks[-1][0]), *_means(rows)]
    chart = Chart(
        title="",
        x=axis,
        y=named_axis("", [_label(row) for row in rows]),
        series=tuple(line for line in marks if line.x),
        lines=(Line(1.0, "x", palette.QUIET, "the oracle's own", "dotted"),),
    )
    caption = (
        "Steps until the validation loss first comes within 1 % of the best, over those that the oracle's beta takes. "
        "A cross is a beta that never comes there; the diamond is the mean, where there is none."
    )
    yield Figure("time-to-target", "Time to target", caption, (chart,))


def _pairs(row: TimeRow) -> Iterator[tuple[float, bool]]:
    for ratio, there in zip(row.ratios, row.reached, strict=True):
        if ratio is not None:
            yield ratio, there


def _label(row: TimeRow) -> str:
    return row.name if row.all is None else f"{row.name} ({row.all.reached} of {row.all.answered})"


def _time_axis(ratios: Sequence[float]) -> Axis:
    """From the fastest to the slowest, and a last place for what never comes."""
    low, high = padded([*ratios, 0.8, 1.2])
    axis = number_axis("steps to target, the oracle's = 1", low, high)
    last = high + 0.08 * (high - low)
    return replace(axis, high=last + 0.04 * (high - low), ticks=(*axis.ticks, (last, "never")))


def _dots(analysis: Analysis, rows: Sequence[TimeRow], never: float) -> Iterator[Trace]:
    for split, color, marker in DOTS:
        yield _marked(_times(analysis, rows, split, True), f"{SPLITS[split]} experiment", color, marker)
        lost = [(never, place, words) for _, place, words in _times(analysis, rows, split, False)]
        yield _marked(lost, "never there", palette.QUIET, "cross")


def _times(analysis: Analysis, rows: Sequence[TimeRow], split: str, there: bool) -> list[tuple[float, int, str]]:
    """Ratio, place of the rule and words of each experiment that reaches its target, or of each that does not."""
    return [
        (ratio, place, f"{row.name} on {result.name}: {_words(ratio, there)}")
        for place, row in enumerate(rows)
        for result, ratio, reached in zip(analysis.experiments, row.ratios, row.reached, strict=True)
        if result.split == split and ratio is not None and reached == there
    ]


def _marked(found: Sequence[tuple[float, int, str]], name: str, color: str, marker: Marker) -> Trace:
    return Trace(
        name=name,
        x=tuple(ratio for ratio, _, _ in found),
        y=tuple(float(place) for _, place, _ in found),
        color=color,
        dash="none",
        marker=marker,
        texts=tuple(words for _, _, words in found),
        group=name,
    )


def _means(rows: Sequence[TimeRow]) -> Iterator[Trace]:
    name = "mean, with its interval"
    for place, row in enumerate(rows):
        if row.all is None or row.all.reached < row.all.answered:
            continue
        mean, y = row.all.mean, (float(place),)
        words = f"{row.name}, mean over {row.all.answered}: {_words(mean.value, there=True)}"
        yield Trace(name, (mean.value,), y, palette.INK, "none", "diamond", texts=(words,), group=name)
        if mean.experiments is not None:
            ends = (mean.experiments.lower, mean.experiments.upper)
            yield Trace(name, ends, y * 2, palette.INK, texts=(words, words), group=name)


def _words(ratio: float, there: bool) -> str:
    return f"{'' if there else 'never, in '}{ratio:.2f} times the steps of the oracle's beta"
