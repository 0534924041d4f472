"""The figures of single experiments, as values: the beta sweep, and the validation curves behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from statistics import quantiles

from oneclock.horizon import early_stop
from oneclock.report import palette
from oneclock.report.chart import (
    Axis,
    Chart,
    Figure,
    Line,
    Span,
    Trace,
    memory_axis,
    memory_place,
    number_axis,
    padded,
    short_beta,
)
from oneclock.report.notebook_view import FEW, by_rank, drawn, not_drawn
from oneclock.runs.key import safe_name
from oneclock.runs.losses import error_bars
from oneclock.runs.record import RunRecord
from oneclock.runs.table import Sweep, Sweeps
from oneclock.stats.analyse import Analysis
from oneclock.stats.results import BetaPoint, ExperimentResult
from oneclock.stats.verdict import interval_words, percent

SPLIT_TITLES = {"development": "development experiments", "heldout": "held-out experiments"}


def sweep_figures(analysis: Analysis, plain_means: bool = False) -> list[Figure]:
    """One figure per split, one panel per experiment that is drawn; with plain means, as the paper draws them."""
    figures = []
    for split, title in SPLIT_TITLES.items():
        members = [result for result in drawn(analysis) if result.split == split]
        if not members:
            continue
        refreshes, betas = analysis.summary.refreshes, all_betas(analysis)
        charts = tuple(sweep_chart(result, refreshes, betas, plain_means) for result in members)
        kind = "mean over seeds" if plain_means else "paired by seed"
        quantity = f"Smallest validation loss at each swept beta, {kind}; bars and band are the spread of seeds."
        caption = (
            f"{quantity} The star is the best beta. The vertical line is at the smallest plain mean, the paper's "
            "oracle, the frame at the refresh rule's choice; shaded are the betas, and so the horizons, for which that "
            "choice stays. The line has a gap where a beta has no result."
        )
        caption = " ".join(filter(None, (caption, not_drawn(analysis))))
        figures.append(Figure(f"beta-sweeps-{split}", f"Beta sweeps: {title}", caption, charts, min(3, len(charts))))
    return figures


def all_betas(analysis: Analysis) -> list[float]:
    """Every beta that some experiment swept: the axis that all panels share."""
    return sorted({point.beta for result in analysis.experiments for point in result.points})


def sweep_chart(result: ExperimentResult, refreshes: float, betas: Sequence[float], plain_means: bool = False) -> Chart:
    """L(beta) of one experiment with its best beta, the rule's choice and the stretch where it stays.

    The axis reaches over `betas`, so that panels can be compared.
    """
    points = [point for point in result.points if math.isfinite(point.loss)]
    if plain_means:
        points = [replace(point, loss=point.mean_loss) for point in points]
    x = memory_axis(betas)
    low, high = _bounds(points)
    curves = [_sweep_line(part) for part in _unbroken(points, result.not_measured)]
    arms = tuple(_arms(result, x))
    beside = (value for arm in arms for value in (*arm.y, *arm.low, *arm.high))
    heights = (point.loss for point in points)
    known = [value for value in (*heights, *low, *high, *beside) if value is not None]
    return Chart(
        title=result.name,
        x=x,
        y=number_axis("smallest validation loss", *padded(known)),
        series=(*curves, *_marks(result, points), *arms),
        spans=tuple(_stable(result, refreshes, x)),
        lines=(Line(memory_place(result.oracle_beta), "x", palette.ORACLE, "smallest mean loss", "dashdot"),),
    )


def _unbroken(points: Sequence[BetaPoint], missing: Sequence[float]) -> Iterator[list[BetaPoint]]:
    """The points in parts: no line is drawn across a beta without a result."""
    part: list[BetaPoint] = []
    for point in points:
        if part and any(part[-1].beta < beta < point.beta for beta in missing):
            yield part
            part = []
        part.append(point)
    if part:
        yield part


def _sweep_line(points: list[BetaPoint]) -> Trace:
    low, high = _bounds(points)
    name = "loss, paired by seed"
    return Trace(
        name=name,
        x=tuple(memory_place(point.beta) for point in points),
        y=tuple(point.loss for point in points),
        color=palette.CURVE,
        marker="circle",
        low=low,
        high=high,
        texts=tuple(map(point_words, points)),
        group=name,
    )


def _marks(result: ExperimentResult, points: list[BetaPoint]) -> Iterator[Trace]:
    """Open rings where one seed ran, a star at the best beta, a frame at the rule's choice."""
    heights = {point.beta: point.loss for point in points}
    if single := [point for point in points if point.seeds == 1]:
        yield _one_seed(single, heights)
    if result.best.beta in heights:
        yield _marked("best beta", result.best.beta, heights, palette.ORACLE, "star", points)
    if result.selected_beta in heights:
        yield _marked("the rule's choice", result.selected_beta, heights, palette.RULE, "frame", points)


def point_words(point: BetaPoint) -> str:
    """One beta of a sweep in words: its loss, its gap with the interval where there is one, its seeds."""
    seeds = f", {point.seeds} seed{'s' if point.seeds != 1 else ''}"
    rate = "" if point.lr is None else f", lr {point.lr:g}"
    above = f"{percent(point.excess)} above the best{interval_words(point.interval)}" if point.excess else "the best"
    return f"β {point.beta:g}{rate}: loss {point.loss:.5g}, {above}{seeds}"


def curve_figures(study: Sweeps, analysis: Analysis) -> Iterator[Figure]:
    """One figure per experiment that is drawn and has curves."""
    sweeps = {sweep.name: sweep for sweep in study.sweeps}
    for result in drawn(analysis):
        chart = curve_chart(sweeps[result.name], result)
        if chart is not None:
            caption = (
                "Validation loss of every run; runs of one beta share a colour and a dash. A cross is where early "
                "stopping would have ended the run; the vertical lines are T_ES by its two conventions."
            )
            name = f"curves-{safe_name(result.name)}"
            yield Figure(name, f"Validation curves: {result.name}", caption, (chart,))


def curves_within(sweep: Sweep, result: ExperimentResult, most: int) -> tuple[Sweep, int]:
    """The sweep with the runs, those of the best betas first, that have `most` evaluations; and how many it leaves."""
    runs = by_rank([run for run in (*sweep.tied, *sweep.untied) if run.val is not None], result)
    total = accumulate(len(run.val.steps) for run in runs if run.val is not None)
    kept = {id(run) for run, points in zip(runs, total, strict=True) if points <= most}
    tied, untied = (tuple(one for one in side if id(one) in kept) for side in (sweep.tied, sweep.untied))
    return replace(sweep, tied=tied, untied=untied), len(runs) - len(kept)


def curve_chart(sweep: Sweep, result: ExperimentResult) -> Chart | None:
    """Every validation curve of one experiment with its early stop; None where no run has a curve.

    All but the best few betas are folded.
    """
    runs = [run for run in (*sweep.tied, *sweep.untied) if run.val is not None]
    if not runs:
        return None
    judged = {run.key for point in result.points for run in point.runs}
    series: list[Trace] = []
    for run in runs:
        line = _curve(run, tuple(point.beta for point in result.points))
        series.append(line)
        stop = early_stop(run.val, result.budget) if run.key in judged and run.val is not None else None
        if stop is not None and stop.stop in line.x:
            at = line.x.index(stop.stop)
            series.append(_early_stop(line, at, ran_out=stop.ran_out))
    last = max(line.x[-1] for line in series)
    return Chart(
        title="",
        x=number_axis("optimizer step", 0, last * 1.02),
        y=_loss_axis(series, last),
        series=tuple(series),
        lines=tuple(_horizon_lines(result)),
        folded=_folded(runs, result),
    )


def _folded(runs: Sequence[RunRecord], result: ExperimentResult) -> tuple[str, ...]:
    """The groups of all betas but the best few."""
    groups = tuple(dict.fromkeys(map(_curve_name, by_rank([run for run in runs if run.key.is_tied], result))))
    return groups[FEW:]


def _bounds(points: list[BetaPoint]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """The seed band: error bars of the loss; empty where nothing has one."""
    bounds = [
        (None, None) if p.below is None or p.above is None else (p.loss - p.below, p.loss + p.above) for p in points
    ]
    if all(low is None for low, _ in bounds):
        return (), ()
    return tuple(low for low, _ in bounds), tuple(high for _, high in bounds)


def _marked(
    name: str, beta: float, heights: dict[float, float], color: str, marker: str, points: list[BetaPoint]
) -> Trace:
    words = next(point_words(point) for point in points if point.beta == beta)
    return Trace(
        name=name,
        x=(memory_place(beta),),
        y=(heights[beta],),
        color=color,
        dash="none",
        marker=marker,  # type: ignore[arg-type]
        texts=(f"{name}: {words}",),
        group=name,
    )


def _one_seed(points: list[BetaPoint], heights: dict[float, float]) -> Trace:
    """Open markers where one seed ran: these say nothing of the noise."""
    return Trace(
        name="one seed",
        x=tuple(memory_place(point.beta) for point in points),
        y=tuple(heights[point.beta] for point in points),
        color=palette.CURVE,
        dash="none",
        marker="ring",
        texts=tuple(point_words(point) for point in points),
        group="one seed",
    )


def _stable(result: ExperimentResult, refreshes: float, axis: Axis) -> Iterator[Span]:
    """The betas 1 - R0 / T of the horizons T that leave the choice as it is: log10(T / R0) on the memory axis."""
    if result.selected_beta is None:
        return
    low = math.log10(result.stable_from / refreshes) if result.stable_from else axis.low
    high = math.log10(result.stable_to / refreshes) if result.stable_to else axis.high
    yield Span(max(low, axis.low), min(high, axis.high), palette.RULE, "horizons with the same choice")


def _arms(result: ExperimentResult, axis: Axis) -> Iterator[Trace]:
    """Untied baselines: level lines across the chart, with the spread of their seeds."""
    for place, arm in enumerate(result.baselines):
        if not math.isfinite(arm.loss):
            continue
        spread = error_bars([run.best_loss for run in arm.runs if run.best_loss is not None])
        low, high = (arm.loss - spread[0], arm.loss + spread[1]) if spread else (None, None)
        name = f"untied β₁ {arm.beta1:g}, β₂ {arm.beta2:g}"
        yield Trace(
            name=name,
            x=(axis.low, axis.high),
            y=(arm.loss, arm.loss),
            color=palette.FIXED,
            dash=palette.dash(place + 1),
            low=(low, low) if low is not None else (),
            high=(high, high) if high is not None else (),
            texts=(
                f"{name}: loss {arm.loss:.5g}, {percent(arm.excess)} above β {arm.against:.3g}"
                f"{interval_words(arm.interval)}, {arm.seeds} seeds",
            )
            * 2,
            group=name,
        )


def _curve(run: RunRecord, betas: tuple[float, ...]) -> Trace:
    assert run.val is not None
    kept = [(s, loss) for s, loss in zip(run.val.steps, run.val.losses, strict=True) if math.isfinite(loss)]
    name = _curve_name(run)
    place = betas.index(run.tied_beta) if run.key.is_tied else len(betas)
    color = palette.ramp(place, len(betas)) if run.key.is_tied else palette.FIXED
    return Trace(
        name=f"{name}, seed {run.seed}",
        x=tuple(step for step, _ in kept),
        y=tuple(loss for _, loss in kept),
        color=color,
        dash=palette.dash(place),
        group=name,
    )


def _curve_name(run: RunRecord) -> str:
    beta1, beta2 = run.key.betas
    return f"β {short_beta(beta1)}" if run.key.is_tied else f"untied β₁ {beta1:g}, β₂ {beta2:g}"


def _early_stop(line: Trace, at: int, ran_out: bool) -> Trace:
    how = "early stop" if ran_out else "not stopped early"
    return Trace(
        name=f"{line.name}, {how}",
        x=(line.x[at],),
        y=(line.y[at],),
        color=line.color,
        dash="none",
        marker="cross" if ran_out else "circle",
        texts=(f"{line.name}: {how} at step {line.x[at]:,g}, loss {line.y[at]:.5g}",),
        group=line.group,
        also=how,
    )


def _horizon_lines(result: ExperimentResult) -> Iterator[Line]:
    known = result.horizons
    if known.given is not None:
        yield Line(known.given, "x", palette.INK, f"T_ES given: {known.given:,g}", "solid")
    if known.raw_stop is not None and known.stop is not None:
        yield Line(known.raw_stop, "x", palette.INK, f"T_ES by stop: {known.raw_stop:,.0f} → {known.stop:,g}", "dashed")
    if known.raw_best is not None and known.best is not None:
        yield Line(known.raw_best, "x", palette.INK, f"T_ES by best: {known.raw_best:,.0f} → {known.best:,g}", "dotted")


def _loss_axis(series: Iterable[Trace], last: float) -> Axis:
    """From the smallest loss to where all but the tallest twentieth lie after the first third of training.

    The steep start and a beta that diverged would otherwise leave the part that matters flat.
    """
    lines = [line for line in series if line.dash != "none"]
    late = [y for line in lines for x, y in zip(line.x, line.y, strict=True) if x >= last / 3]
    everything = list(chain.from_iterable(line.y for line in lines))
    top = quantiles(late, n=20)[-1] if len(late) > 1 else max(everything)
    low = min(everything)
    return number_axis("validation loss", *padded([low, max(top, low)]))
