"""The figures of single experiments: the beta sweep and its validation curves; of a large study only some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from statistics import median, quantiles

from oneclock.recommend import short_beta
from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Figure, Trace, memory_axis, memory_position, number_axis, padded, trace
from oneclock.report.words import above
from oneclock.runs.key import safe_name
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweeps, error_bars
from oneclock.stats.analyse import Analysis
from oneclock.stats.experiments import BetaPoint, ExperimentResult
from oneclock.stats.verdict import count_of

CUT = 8
"""The axis ends where a loss lies this many times as far above the lowest loss as the median does."""

MANY = 16
"""Up to this many experiments are all drawn."""

MOST = 6
"""Of more, this many are drawn: those in which the recommended beta loses most."""

FEW = 5
"""Betas whose curves are visible at first; a click shows the others."""

POINTS = 160_000
"""The most evaluations on a page; if there are more, the curves of the best betas are drawn."""

CAPTION = (
    "The smallest validation loss at each beta, paired by seed; bars and band are the spread of seeds. The star is the "
    "best beta, the diamond the recommended one. Level lines are default betas. A beta without a result leaves a gap "
    "in the line. Very high losses are cut off."
)


def experiments_to_draw(analysis: Analysis) -> Sequence[ExperimentResult]:
    """The experiments to draw, in their order: all, or in a large study the most important ones."""
    results = analysis.experiments
    if len(results) <= MANY:
        return results
    costs = [math.inf if one.rules[0].excess is None else one.rules[0].excess for one in results]
    return [results[at] for at in sorted(sorted(range(len(results)), key=lambda at: -costs[at])[:MOST])]


def by_rank(runs: Sequence[RunRecord], result: ExperimentResult) -> list[RunRecord]:
    """Runs from the beta with the smallest loss to the largest, each with its seeds, untied pairs last."""
    loss = {point.beta: point.loss for point in result.points}
    return sorted(runs, key=lambda run: (not run.key.is_tied, loss.get(run.key.betas[0], math.inf), run.key.betas[0]))


def sweep_figure(analysis: Analysis, name: str = "beta-sweeps", cut: float = CUT) -> Figure:
    """One panel per experiment that is drawn; all share an axis of every beta that some experiment swept."""
    betas = sorted({point.beta for result in analysis.experiments for point in result.points})
    charts = tuple(sweep_chart(result, betas, cut) for result in experiments_to_draw(analysis))
    caption = CAPTION
    if (count := len(analysis.experiments)) > MANY:
        caption += (
            f" Of {count:,} experiments {MOST} are drawn: those in which the recommended beta loses most. "
            "All are in the answer above, in the tables, and in the data beside this page."
        )
    return Figure(name, "Beta sweeps", caption, charts, min(3, len(charts)))


def sweep_chart(result: ExperimentResult, betas: Sequence[float], cut: float = CUT) -> Chart:
    """The loss over beta of one experiment with its best, recommended and default betas, over an axis of `betas`."""
    points = [point for point in result.points if math.isfinite(point.loss)]
    missing = [*result.not_measured, *(point.beta for point in result.points if not math.isfinite(point.loss))]
    x = memory_axis(betas)
    # No line is drawn across a beta without a result.
    parts = groupby(points, key=lambda point: sum(beta < point.beta for beta in missing))
    curves = [_sweep_line(list(part)) for _, part in parts]
    marks = [*_marks(result, points), *_default_betas(result, x)]
    y = number_axis("smallest validation loss", *padded(_in_sight(curves, marks, cut)))
    return Chart(result.name, x, y, (*curves, *marks))


def _in_sight(curves: Iterable[Trace], marks: Iterable[Trace], cut: float) -> list[float]:
    """The losses that the axis must show: best, recommended and default betas, and losses up to `cut`."""
    losses = [loss for curve in curves for loss in curve.y]
    low = min(losses, default=0.0)
    top = low + cut * (median(losses) - low) if losses else 0.0
    bars = [bar for curve in curves for bar in (*curve.low, *curve.high) if bar is not None]
    marked = [y for mark in marks if mark.marker != "ring" for y in (*mark.y, *mark.low, *mark.high) if y is not None]
    return [*(value for value in (*losses, *bars) if value <= top), *marked] or [0.0]


def _sweep_line(points: list[BetaPoint]) -> Trace:
    """The losses with the spread of their seeds."""
    low = tuple(None if p.below is None else p.loss - p.below for p in points)
    high = tuple(None if p.above is None else p.loss + p.above for p in points)
    band = {"low": low, "high": high} if any(high) else {}
    return trace("loss", _positions(points), palette.CURVE, "solid", "circle", **band)


def _positions(points: Iterable[BetaPoint]) -> list[tuple[float, float, str]]:
    """Where the points are, and in words: beta, loss, gap with its interval, seeds."""
    positions = []
    for point in points:
        lr = "" if point.lr is None else f", lr {point.lr:g}"
        cost = above(point.excess, point.interval) if point.excess else "the best"
        text = f"β {point.beta:g}{lr}: loss {point.loss:.5g}, {cost}, {count_of(point.seeds, 'seed')}"
        positions.append((memory_position(point.beta), point.loss, text))
    return positions


def _marks(result: ExperimentResult, points: list[BetaPoint]) -> Iterator[Trace]:
    """Rings at betas with one seed, a star at the best beta, a frame at the recommended one, which may lie between."""
    if single := [point for point in points if point.seeds == 1]:
        yield trace("one seed", _positions(single), palette.CURVE, marker="ring")
    best = [point for point in points if point.beta == result.best.beta]
    if not best:
        return
    star = [(x, y, f"best beta: {text}") for x, y, text in _positions(best)]
    yield trace("best beta", star, palette.ORACLE, marker="star")
    rule, name = result.rules[0], "recommended beta"
    if rule.beta is not None and rule.excess is not None and math.isfinite(rule.excess):
        text = f"{name} {short_beta(rule.beta)}: {above(rule.excess, rule.interval)}"
        position = (memory_position(rule.beta), best[0].loss * (1 + rule.excess), text)
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


def curve_figures(study: Sweeps, analysis: Analysis) -> Iterator[Figure]:
    """One figure per experiment that is drawn and has curves; of very many evaluations, those of the best betas."""
    sweeps = {sweep.name: sweep for sweep in study.sweeps}
    drawn = experiments_to_draw(analysis)
    for result in drawn:
        sweep = sweeps[result.name]
        runs = [run for run in (*sweep.tied, *sweep.untied) if run.val is not None]
        ranked = by_rank(runs, result)
        totals = accumulate(len(run.val.steps) for run in ranked if run.val is not None)
        kept = {id(run) for run, total in zip(ranked, totals, strict=True) if total <= POINTS // len(drawn)}
        if kept:
            caption = "Validation loss of every run; runs of one beta share a colour and a dash."
            if left := len(runs) - len(kept):
                caption += f" Left to data/curves.csv: {count_of(left, 'run')}."
            chart = curve_chart([run for run in runs if id(run) in kept], result)
            yield Figure(f"curves-{safe_name(result.name)}", f"Validation curves: {result.name}", caption, (chart,))


def curve_chart(runs: Sequence[RunRecord], result: ExperimentResult) -> Chart:
    """The validation curves of one experiment. All but the best few betas are folded."""
    betas = [point.beta for point in result.points]
    series = tuple(_curve(run, betas) for run in runs)
    last = max((line.x[-1] for line in series if line.x), default=1.0)
    groups = tuple(dict.fromkeys(_curve_name(run) for run in by_rank(runs, result) if run.key.is_tied))
    x = number_axis("optimizer step", 0, last * 1.02)
    return Chart("", x, _loss_axis(series, last), series, folded=groups[FEW:])


def _curve(run: RunRecord, betas: Sequence[float]) -> Trace:
    assert run.val is not None
    kept = [(s, loss) for s, loss in zip(run.val.steps, run.val.losses, strict=True) if math.isfinite(loss)]
    x, y = zip(*kept, strict=True) if kept else ((), ())
    index = betas.index(run.tied_beta) if run.key.is_tied else len(betas)
    color = palette.ramp(index, len(betas)) if run.key.is_tied else palette.FIXED
    name = _curve_name(run)
    return Trace(f"{name}, seed {run.seed}", x, y, color, palette.dash(index), group=name)


def _curve_name(run: RunRecord) -> str:
    beta1, beta2 = run.key.betas
    return f"β {short_beta(beta1)}" if run.key.is_tied else f"({beta1:g}, {beta2:g})"


def _loss_axis(series: Iterable[Trace], last: float) -> Axis:
    """From the smallest loss to the 95th percentile after a third of training: the steep start would flatten it."""
    points = [point for line in series for point in zip(line.x, line.y, strict=True)]
    late = [y for x, y in points if x >= last / 3]
    low = min((y for _, y in points), default=0.0)
    top = quantiles(late, n=20)[-1] if len(late) > 1 else max((y for _, y in points), default=1.0)
    return number_axis("validation loss", *padded([low, max(top, low)]))
