"""The figure of a sweep over beta and learning rate, as values: the plane of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from oneclock.report import palette
from oneclock.report.chart import (
    Axis,
    Chart,
    Dash,
    Figure,
    Marker,
    Span,
    Trace,
    log_axis,
    memory_axis,
    memory_position,
    trace,
)
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
    lowest = min(surface.cells, key=lambda cell: (cell.loss, cell.beta, cell.lr))
    star = (memory_position(lowest.beta), math.log10(lowest.lr), f"lowest: {_words(lowest)}")
    return Chart(
        title="beta and learning rate",
        x=_betas(surface),
        y=log_axis("learning rate", min(lrs) / 1.3, max(lrs) * 1.3),
        series=(
            *_shades(surface),
            *_path(surface),
            trace("lowest cell", [star], palette.ORACLE, marker="star"),
            *_fitted(surface),
        ),
        spans=tuple(_span(surface)),
    )


def _finite(surface: Surface) -> list[SurfaceCell]:
    return [cell for cell in surface.cells if math.isfinite(cell.loss)]


def _betas(surface: Surface) -> Axis:
    return memory_axis(cell.beta for cell in surface.cells)


def _shades(surface: Surface) -> Iterator[Trace]:
    """The cells in shades by the rank of their loss, the lowest first; those without a finite loss are crosses."""
    ranked = sorted(_finite(surface), key=lambda cell: cell.loss)
    for shade in range(SHADES):
        part = ranked[shade * len(ranked) // SHADES : (shade + 1) * len(ranked) // SHADES]
        if part:
            name = f"loss {part[0].loss:.4g} to {part[-1].loss:.4g}"
            yield _cells(name, part, palette.ramp(SHADES - 1 - shade, SHADES), "cell")
    lost = [cell for cell in surface.cells if not math.isfinite(cell.loss)]
    if lost:
        yield _cells("no finite loss", lost, palette.INK, "cross")


def _cells(name: str, cells: Iterable[SurfaceCell], color: str, marker: Marker, dash: Dash = "none") -> Trace:
    return trace(name, [(memory_position(c.beta), math.log10(c.lr), _words(c)) for c in cells], color, dash, marker)


def _path(surface: Surface) -> Iterator[Trace]:
    """How the best beta moves with the learning rate: the lowest cell of each, from the smallest learning rate up."""
    by_lr: dict[float, list[SurfaceCell]] = {}
    for cell in _finite(surface):
        by_lr.setdefault(cell.lr, []).append(cell)
    best = [min(by_lr[lr], key=lambda cell: cell.loss) for lr in sorted(by_lr) if len(by_lr[lr]) >= 3]
    if len(best) > 1:
        yield _cells("best beta at each learning rate", best, palette.INK, "none", "dashed")


def _fitted(surface: Surface) -> Iterator[Trace]:
    """The lowest point of the fitted quadratic, and the CI of its learning rate as an upright line through it."""
    if surface.beta is None or surface.lr is None:
        return
    at, name = memory_position(surface.beta), "fitted best pair"
    text = f"{name}: β {surface.beta:.4g}, lr {surface.lr:.3g}"
    yield trace(name, [(at, math.log10(surface.lr), text)], palette.RULE, marker="frame")
    if (between := surface.lr_interval) is not None:
        lrs = [cell.lr for cell in surface.cells]
        low, high = max(between.lower, min(lrs) / 1.3), min(between.upper, max(lrs) * 1.3)
        text += f", {100 * between.level:g} % CI of the learning rate {between.lower:.3g} to {between.upper:.3g}"
        ends = [(at, math.log10(end), text) for end in (low, max(high, low))]
        yield trace("CI of its learning rate", ends, palette.RULE, "solid", group=name)


def _span(surface: Surface) -> Iterator[Span]:
    if (between := surface.beta_interval) is not None:
        axis = _betas(surface)
        low = max(memory_position(between.lower), axis.low) if between.lower > 0 else axis.low
        high = min(memory_position(between.upper), axis.high) if between.upper < 1 else axis.high
        yield Span(low, max(low, high), palette.RULE, f"{100 * between.level:g} % CI of the fitted beta")


def _words(cell: SurfaceCell) -> str:
    return f"β {cell.beta:g}, lr {cell.lr:g}: loss {cell.loss:.5g}, {count_of(cell.seeds, 'seed')}"
