"""The figures of the paper: beta sweeps of plain means over seeds, with the rule's choice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from oneclock.lab.protocol.analysis import ProtocolAnalysis, ProtocolResult
from oneclock.report import palette
from oneclock.report.chart import (
    Chart,
    Figure,
    ReferenceLine,
    Span,
    Trace,
    memory_axis,
    memory_position,
    number_axis,
    padded,
    trace,
)
from oneclock.runs.best import at_best_lrs
from oneclock.runs.sweeps import Sweep, Sweeps, error_bars

TITLES = {"development": "development experiments", "heldout": "held-out experiments"}

_CAPTION = (
    "The smallest validation loss at each beta, mean over seeds; bars and band are their spread. The vertical line is "
    "at the smallest mean, the diamond at the choice of the paper's rule. Shaded: the betas, and so the horizons, for "
    "which that choice stays the same."
)


def paper_figures(study: Sweeps, analysis: ProtocolAnalysis) -> Iterator[Figure]:
    """One figure per split, with a panel for each experiment of the study that was analysed."""
    betas = sorted({beta for result in analysis.experiments for beta in result.betas})
    pairs = list(zip(map(at_best_lrs, study.sweeps), analysis.experiments, strict=True))
    for split, title in TITLES.items():
        charts = tuple(
            sweep_chart(sweep, result, betas, analysis.summary.refreshes)
            for sweep, result in pairs
            if result.split == split
        )
        if charts:
            yield Figure(f"paper-sweeps-{split}", f"Beta sweeps: {title}", _CAPTION, charts, min(3, len(charts)))


def sweep_chart(sweep: Sweep, result: ProtocolResult, betas: Sequence[float], refreshes: float) -> Chart:
    """L(beta) of one experiment, over an axis of all `betas`; the rule's choice and where it stays the same."""
    points = [(beta, loss) for beta, loss in zip(result.betas, result.losses, strict=True) if math.isfinite(loss)]
    minima = {beta: [run.best_loss for run in sweep.tied if run.beta == beta] for beta, _ in points}
    spreads = [error_bars([one for one in minima[beta] if one is not None]) for beta, _ in points]
    low = tuple(spread and loss - spread[0] for (_, loss), spread in zip(points, spreads, strict=True))
    high = tuple(spread and loss + spread[1] for (_, loss), spread in zip(points, spreads, strict=True))
    x = memory_axis(betas)
    marks = [_marks("loss", points, low=low, high=high) if any(spreads) else _marks("loss", points)]
    if single := [point for point, spread in zip(points, spreads, strict=True) if spread is None]:
        marks.append(_marks("one seed", single, marker="ring", dash="none"))
    chosen = [point for point in points if point[0] == result.selected_beta]
    marks.append(_marks("the rule's choice", chosen, color=palette.RULE, marker="frame", dash="none"))
    heights = [value for one in marks for value in (*one.y, *one.low, *one.high) if value is not None]
    oracle = ReferenceLine(memory_position(result.oracle_beta), "x", palette.ORACLE, "smallest mean loss", "dashdot")
    return Chart(
        title=result.name,
        x=x,
        y=number_axis("smallest validation loss", *padded(heights)),
        series=tuple(one for one in marks if one.x),
        spans=tuple(_stable(result, refreshes, x.low, x.high)),
        lines=(oracle,),
    )


def _marks(name: str, points: Sequence[tuple[float, float]], **how: object) -> Trace:
    drawn = [(memory_position(beta), loss, f"β {beta:g}: {name} {loss:.5g}") for beta, loss in points]
    return trace(name, drawn, **{"color": palette.CURVE, "dash": "solid", "marker": "circle"} | how)  # type: ignore[arg-type]


def _stable(result: ProtocolResult, refreshes: float, low: float, high: float) -> Iterator[Span]:
    """The betas 1 - R0 / T of the horizons T that leave the choice as it is: log10(T / R0) on the memory axis."""
    if result.selected_beta is not None:
        first = math.log10(result.stable_from / refreshes) if result.stable_from else low
        last = math.log10(result.stable_to / refreshes) if result.stable_to else high
        yield Span(max(first, low), min(last, high), palette.RULE, "horizons with the same choice")
