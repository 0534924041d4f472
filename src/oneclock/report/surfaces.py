"""The figure of a sweep over beta and learning rate, as values: the plane of both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Figure, Span, Trace, log_axis, memory_axis, memory_position, trace
from oneclock.report.sweeps import experiments_to_draw
from oneclock.runs.key import safe_name
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Surface, SurfaceCell
from oneclock.stats.verdict import count_of

SHADES = 5
"""Shades of the plane; all have about the same number of cells."""

_CAPTION = (
    "Every pair that ran, shaded by the rank of its loss. The star is the lowest cell, the diamond the minimum "
    "of a fitted quadratic, with its 95 % CIs. The dashed path is the best beta at each learning rate where three or "
    "more betas ran."
)


def surface_figures(analysis: Analysis) -> Iterator[Figure]:
    """One figure per experiment that is drawn and was swept over learning rates too."""
    for result in experiments_to_draw(analysis):
        if result.surface is not None:
            name = f"surface-{safe_name(result.name)}"
            chart = plane_chart(result.surface)
            yield Figure(name, f"Beta and learning rate: {result.name}", _CAPTION, (chart,))


def plane_chart(surface: Surface) -> Chart:
    """The cells over beta and learning rate, the lowest of them, and the fitted pair where there is one."""
    lrs = [cell.lr for cell in surface.cells]
    betas = memory_axis(cell.beta for cell in surface.cells)
    low, high = min(lrs) / 1.3, max(lrs) * 1.3
    lowest = min(surface.cells, key=lambda cell: (cell.loss, cell.beta, cell.lr))
    return Chart(
        title="beta and learning rate",
        x=betas,
        y=log_axis("learning rate", low, high),
        series=(
            *_shades(surface),
            _cells("lowest cell", [lowest], palette.ORACLE, "star"),
            *_fitted(surface, low, high),
        ),
        spans=tuple(_span(surface, betas)),
    )


def _shades(surface: Surface) -> Iterator[Trace]:
    """The cells in shades by the rank of their loss, those without a finite loss as crosses, and the path of the best.

    The path goes through the lowest cell of each learning rate, from the smallest up.
    """
    ranked = sorted((cell for cell in surface.cells if math.isfinite(cell.loss)), key=lambda cell: cell.loss)
    for shade in range(SHADES):
        if part := ranked[shade * len(ranked) // SHADES : (shade + 1) * len(ranked) // SHADES]:
            name = f"loss {part[0].loss:.4g} to {part[-1].loss:.4g}"
            yield _cells(name, part, palette.ramp(SHADES - 1 - shade, SHADES), "cell")
    if lost := [cell for cell in surface.cells if not math.isfinite(cell.loss)]:
        yield _cells("no finite loss", lost, palette.INK, "cross")
    counts = Counter(cell.lr for cell in ranked)
    best = {cell.lr: cell for cell in reversed(ranked) if counts[cell.lr] >= 3}
    if len(best) > 1:
        yield _cells("best beta at each learning rate", [best[lr] for lr in sorted(best)], palette.INK, dash="dashed")


def _cells(name: str, cells: Iterable[SurfaceCell], color: str, marker: Any = "none", dash: Any = "none") -> Trace:
    words = "lowest: " if marker == "star" else ""
    points = [(memory_position(cell.beta), math.log10(cell.lr), words + _words(cell)) for cell in cells]
    return trace(name, points, color, dash, marker)


def _fitted(surface: Surface, low: float, high: float) -> Iterator[Trace]:
    """The lowest point of the fitted quadratic, and the CI of its learning rate as an upright line through it."""
    if surface.beta is None or surface.lr is None:
        return
    at, name = memory_position(surface.beta), "fitted best pair"
    text = f"{name}: β {surface.beta:.4g}, lr {surface.lr:.3g}"
    yield trace(name, [(at, math.log10(surface.lr), text)], palette.RULE, marker="frame")
    if (between := surface.lr_interval) is not None:
        low, high = max(between.lower, low), min(between.upper, high)
        text += f", {100 * between.level:g} % CI of the learning rate {between.lower:.3g} to {between.upper:.3g}"
        ends = [(at, math.log10(end), text) for end in (low, max(high, low))]
        yield trace("CI of its learning rate", ends, palette.RULE, "solid", group=name)


def _span(surface: Surface, axis: Axis) -> Iterator[Span]:
    if (between := surface.beta_interval) is not None:
        low = max(memory_position(between.lower), axis.low) if between.lower > 0 else axis.low
        high = min(memory_position(between.upper), axis.high) if between.upper < 1 else axis.high
        yield Span(low, max(low, high), palette.RULE, f"{100 * between.level:g} % CI of the fitted beta")


def _words(cell: SurfaceCell) -> str:
    return f"β {cell.beta:g}, lr {cell.lr:g}: loss {cell.loss:.5g}, {count_of(cell.seeds, 'seed')}"
