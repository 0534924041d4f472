"""The figures of single experiments, as plain values: the beta sweep, and the validation curves behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from statistics import median, quantiles

from oneclock.horizon import early_stop
from oneclock.recommend import short_beta
from oneclock.report import palette
from oneclock.report.chart import (
    Axis,
    Chart,
    Figure,
    Marker,
    ReferenceLine,
    Span,
    Trace,
    memory_axis,
    memory_position,
    number_axis,
    padded,
    trace,
    unbroken,
)
from oneclock.report.selection import FEW, by_rank, experiments_to_draw, words_on_rest
from oneclock.report.words import above
from oneclock.runs.key import safe_name
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import error_bars
from oneclock.runs.table import Sweep, Sweeps
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import BetaPoint, ExperimentResult
from oneclock.stats.verdict import count_of

SPLIT_TITLES = {"development": "development experiments", "heldout": "held-out experiments"}

CUT = 8
"""The axis ends where a loss lies this many times as far above the lowest loss as the median does."""

CAPTION = (
    "The smallest validation loss at each beta, paired by seed; bars and band are the spread of seeds. The star is the "
    "best beta, the diamond the recommended one. Level lines are default betas. A beta without a result leaves a gap "
    "in the line. Very high losses are cut off."
)
_PAPER_CAPTION = (
    "The smallest validation loss at each beta, mean over seeds; bars and band are their spread. The star is the best "
    "beta. The vertical line is at the smallest mean, the diamond at the choice of the paper's rule. Shaded: the "
    "betas, and so the horizons, for which that choice stays the same."
)


def sweep_figures(analysis: Analysis, as_paper: bool = False) -> list[Figure]:
    """One figure per split, one panel per experiment that is drawn; with means and marks as in the paper."""
    refreshes = analysis.summary.refreshes if as_paper else None
    caption = " ".join(filter(None, (_PAPER_CAPTION if as_paper else CAPTION, words_on_rest(analysis))))
    figures = []
    for split, title in SPLIT_TITLES.items():
        members = [result for result in experiments_to_draw(analysis) if result.split == split]
        charts = tuple(sweep_chart(result, all_betas(analysis), refreshes) for result in members)
        if charts:
            name, columns = f"beta-sweeps-{split}", min(3, len(charts))
            figures.append(Figure(name, f"Beta sweeps: {title}", caption, charts, columns))
    return figures


def all_betas(analysis: Analysis) -> list[float]:
    """Every beta that some experiment swept: the axis that all panels share."""
    return sorted({point.beta for result in analysis.experiments for point in result.points})


def sweep_chart(
    result: ExperimentResult, betas: Sequence[float], refreshes: float | None = None, cut: float = CUT
) -> Chart:
    """L(beta) of one experiment with its best beta, the recommended beta and the default betas.

    The axis covers `betas`, so that panels can be compared. With `refreshes` it is drawn as in the paper: plain means,
    all of them visible, and the choice of the refresh rule with this R0.
    """
    points = [point for point in result.points if math.isfinite(point.loss)]
    if refreshes is not None:
        points = [replace(point, loss=point.mean_loss) for point in points]
    missing = [*result.not_measured, *(point.beta for point in result.points if not math.isfinite(point.loss))]
    x = memory_axis(betas)
    curves = [_sweep_line(part) for part in unbroken(points, missing)]
    marks = [*_marks(result, points, refreshes), *_default_betas(result, x)]
    return Chart(
        title=result.name,
        x=x,
        y=number_axis(
            "smallest validation loss", *padded(_in_sight(curves, marks, cut if refreshes is None else math.inf))
        ),
        series=(*curves, *marks),
        spans=tuple(_stable(result, refreshes, x)) if refreshes is not None else (),
        lines=tuple(_smallest_mean(result)) if refreshes is not None else (),
    )


def _in_sight(curves: Iterable[Trace], marks: Iterable[Trace], cut: float) -> list[float]:
    """The losses that the axis must show: best, recommended and default betas, and losses up to `cut`."""
    losses = [loss for curve in curves for loss in curve.y]
    low = min(losses, default=0.0)
    top = low + cut * (median(losses) - low) if losses and cut < math.inf else math.inf
    bars = [bar for curve in curves for bar in (*curve.low, *curve.high) if bar is not None]
    marked = [y for mark in marks if mark.marker != "ring" for y in (*mark.y, *mark.low, *mark.high) if y is not None]
    return [*(value for value in (*losses, *bars) if value <= top), *marked] or [0.0]


def _sweep_line(points: list[BetaPoint]) -> Trace:
    """The losses with the spread of their seeds."""
    bars = [
        (p.loss - p.below, p.loss + p.above) if p.below is not None and p.above is not None else None for p in points
    ]
    low, high = (tuple(None if bar is None else bar[side] for bar in bars) if any(bars) else () for side in (0, 1))
    return trace("loss", _positions(points), palette.CURVE, "solid", "circle", low=low, high=high)


def _positions(points: Iterable[BetaPoint]) -> list[tuple[float, float, str]]:
    return [(memory_position(point.beta), point.loss, point_words(point)) for point in points]


def _marks(result: ExperimentResult, points: list[BetaPoint], refreshes: float | None) -> Iterator[Trace]:
    """Open rings at betas with one seed, a star at the best beta, a frame at the recommended beta or the rule's
    choice.
    """
    if single := [point for point in points if point.seeds == 1]:
        yield trace("one seed", _positions(single), palette.CURVE, marker="ring")
    marked: list[tuple[str, float | None, str, Marker]] = [
        ("best beta", result.best.beta, palette.ORACLE, "star"),
        ("the rule's choice", result.selected_beta if refreshes is not None else None, palette.RULE, "frame"),
    ]
    for name, beta, color, marker in marked:
        marks = [
            (x, y, f"{name}: {text}") for x, y, text in _positions(point for point in points if point.beta == beta)
        ]
        if marks:
            yield trace(name, marks, color, marker=marker)
    if refreshes is None:
        yield from _recommended(result, points)


def _recommended(result: ExperimentResult, points: Sequence[BetaPoint]) -> Iterator[Trace]:
    """The recommended beta at its exact position, also between swept betas."""
    rule = next(rule for rule in result.rules if rule.name == "recommended")
    best = next((point.loss for point in points if point.beta == result.best.beta), None)
    if best is not None and rule.beta is not None and rule.excess is not None and math.isfinite(rule.excess):
        name = "recommended beta"
        text = f"{name} {short_beta(rule.beta)}: {above(rule.excess, rule.interval)}"
        position = (memory_position(rule.beta), best + abs(best) * rule.excess, text)
        yield trace(name, [position], palette.RULE, marker="frame")


def _default_betas(result: ExperimentResult, axis: Axis) -> Iterator[Trace]:
    """Untied baselines: level lines across the chart, with the spread of their seeds."""
    for index, pair in enumerate(result.baselines, start=1):
        if math.isfinite(pair.loss):
            spread = error_bars([run.loss for run in pair.runs if math.isfinite(run.loss)])
            cost = above(pair.excess, pair.interval, f"β {short_beta(pair.against)}")
            text = f"{pair.name}: loss {pair.loss:.5g}, {cost}, {count_of(pair.seeds, 'seed')}"
            low, high = ((pair.loss - spread[0],) * 2, (pair.loss + spread[1],) * 2) if spread else ((), ())
            ends = [(axis.low, pair.loss, text), (axis.high, pair.loss, text)]
            yield trace(pair.name, ends, palette.FIXED, palette.dash(index), low=low, high=high)


def _stable(result: ExperimentResult, refreshes: float, axis: Axis) -> Iterator[Span]:
    """The betas 1 - R0 / T of the horizons T that leave the choice as it is: log10(T / R0) on the memory axis."""
    if result.selected_beta is not None:
        low = math.log10(result.stable_from / refreshes) if result.stable_from else axis.low
        high = math.log10(result.stable_to / refreshes) if result.stable_to else axis.high
        yield Span(max(low, axis.low), min(high, axis.high), palette.RULE, "horizons with the same choice")


def _smallest_mean(result: ExperimentResult) -> Iterator[ReferenceLine]:
    yield ReferenceLine(memory_position(result.oracle_beta), "x", palette.ORACLE, "smallest mean loss", "dashdot")


def point_words(point: BetaPoint) -> str:
    """One beta of a sweep in words: its loss, its gap with its interval, its seeds."""
    lr = "" if point.lr is None else f", lr {point.lr:g}"
    cost = above(point.excess, point.interval) if point.excess else "the best"
    return f"β {point.beta:g}{lr}: loss {point.loss:.5g}, {cost}, {count_of(point.seeds, 'seed')}"


def curve_figures(study: Sweeps, analysis: Analysis) -> Iterator[Figure]:
    """One figure per experiment that is drawn and has curves."""
    sweeps = {sweep.name: sweep for sweep in study.sweeps}
    caption = (
        "Validation loss of every run; runs of one beta share a colour and a dash. A cross is where early stopping "
        "would have ended the run; the vertical lines are T_ES by its two conventions."
    )
    for result in experiments_to_draw(analysis):
        chart = curve_chart(sweeps[result.name], result)
        if chart is not None:
            name = f"curves-{safe_name(result.name)}"
            yield Figure(name, f"Validation curves: {result.name}", caption, (chart,))


def curves_within(sweep: Sweep, result: ExperimentResult, most: int) -> tuple[Sweep, int]:
    """The sweep with as many runs as have `most` evaluations in all, the best betas first; and the number of other
    runs.
    """
    runs = by_rank([run for run in (*sweep.tied, *sweep.untied) if run.val is not None], result)
    total = accumulate(len(run.val.steps) for run in runs if run.val is not None)
    kept = {id(run) for run, points in zip(runs, total, strict=True) if points <= most}
    tied, untied = (tuple(one for one in side if id(one) in kept) for side in (sweep.tied, sweep.untied))
    return replace(sweep, tied=tied, untied=untied), len(runs) - len(kept)


def curve_chart(sweep: Sweep, result: ExperimentResult) -> Chart | None:
    """Every validation curve of one experiment with its early stop; None if no run has a curve.

    All but the best few betas are folded.
    """
    runs = [run for run in (*sweep.tied, *sweep.untied) if run.val is not None]
    if not runs:
        return None
    betas = [point.beta for point in result.points]
    judged = {run.key for point in result.points for run in point.runs}
    series: list[Trace] = []
    for run in runs:
        line = _curve(run, betas)
        series.append(line)
        stop = early_stop(run.val, result.budget) if run.key in judged and run.val is not None else None
        if stop is not None and stop.stop in line.x:
            series.append(_early_stop(line, line.x.index(stop.stop), ran_out=stop.ran_out))
    last = max(line.x[-1] for line in series)
    groups = tuple(dict.fromkeys(map(_curve_name, by_rank([run for run in runs if run.key.is_tied], result))))
    return Chart(
        title="",
        x=number_axis("optimizer step", 0, last * 1.02),
        y=_loss_axis(series, last),
        series=tuple(series),
        lines=tuple(_horizon_lines(result)),
        folded=groups[FEW:],
    )


def _curve(run: RunRecord, betas: Sequence[float]) -> Trace:
    assert run.val is not None
    kept = [(s, loss) for s, loss in zip(run.val.steps, run.val.losses, strict=True) if math.isfinite(loss)]
    index = betas.index(run.tied_beta) if run.key.is_tied else len(betas)
    return Trace(
        name=f"{_curve_name(run)}, seed {run.seed}",
        x=tuple(step for step, _ in kept),
        y=tuple(loss for _, loss in kept),
        color=palette.ramp(index, len(betas)) if run.key.is_tied else palette.FIXED,
        dash=palette.dash(index),
        group=_curve_name(run),
    )


def _curve_name(run: RunRecord) -> str:
    beta1, beta2 = run.key.betas
    return f"β {short_beta(beta1)}" if run.key.is_tied else f"({beta1:g}, {beta2:g})"


def _early_stop(line: Trace, at: int, ran_out: bool) -> Trace:
    how = "early stop" if ran_out else "not stopped early"
    position = (line.x[at], line.y[at], f"{line.name}: {how} at step {line.x[at]:,g}, loss {line.y[at]:.5g}")
    marker: Marker = "cross" if ran_out else "circle"
    return trace(f"{line.name}, {how}", [position], line.color, marker=marker, group=line.group, also=how)


def _horizon_lines(result: ExperimentResult) -> Iterator[ReferenceLine]:
    horizons = result.horizons
    if horizons.given is not None:
        yield ReferenceLine(
            horizons.given, "x", palette.INK, f"useful steps T_ES, as given: {horizons.given:,g}", "solid"
        )
    if horizons.raw_stop is not None and horizons.stop is not None:
        yield ReferenceLine(
            horizons.raw_stop, "x", palette.INK, f"useful steps T_ES, by early stop: {horizons.raw_stop:,.0f}", "dashed"
        )
    if horizons.raw_best is not None and horizons.best is not None:
        yield ReferenceLine(
            horizons.raw_best, "x", palette.INK, f"useful steps T_ES, by best step: {horizons.raw_best:,.0f}", "dotted"
        )


def _loss_axis(series: Iterable[Trace], last: float) -> Axis:
    """From the smallest loss to the 95th percentile of the losses after the first third of training.

    Otherwise the steep start and diverged betas would make the important part flat.
    """
    lines = [line for line in series if line.dash != "none"]
    late = [y for line in lines for x, y in zip(line.x, line.y, strict=True) if x >= last / 3]
    everything = [y for line in lines for y in line.y]
    top = quantiles(late, n=20)[-1] if len(late) > 1 else max(everything)
    return number_axis("validation loss", *padded([min(everything), max(top, min(everything))]))
