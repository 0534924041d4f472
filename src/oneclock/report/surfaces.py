"""The figure of a sweep over beta and learning rate, as values: the plane of both, and the valley along beta."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oneclock.report import palette
from oneclock.report.chart import (
    Axis,
    Chart,
    Figure,
    Span,
    Trace,
    log_axis,
    memory_axis,
    memory_place,
    number_axis,
    padded,
)
from oneclock.report.notebook_view import drawn
from oneclock.runs.key import safe_name
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Surface, SurfaceCell

SHADES = 5
"""Shades of the plane: each holds as many cells as the others."""

_CAPTION = (
    "Left: every pair that ran, shaded by the rank of its loss; the star is the lowest cell, the diamond the best pair "
    "by a fitted quadratic, with its 95 % CIs; the dashed path goes through the best beta at each rate where three or "
    "more ran. Right: the loss at each beta's own best rate. The rate is a factor where an experiment of the "
    "project was swept."
)


def surface_figures(analysis: Analysis) -> Iterator[Figure]:
    """One figure per experiment that is drawn and was swept over rates too."""
    for result in drawn(analysis):
        if result.surface is not None:
            charts = plane_chart(result.surface), profile_chart(result.surface)
            name = f"surface-{safe_name(result.name)}"
            yield Figure(name, f"Beta and learning rate: {result.name}", _CAPTION, charts, 2)


def plane_chart(surface: Surface) -> Chart:
    """The cells over beta and rate, the lowest of them, and the fitted pair where there is one."""
    rates = [cell.lr for cell in surface.cells]
    lowest = next(cell for cell in surface.cells if (cell.beta, cell.lr) == surface.lowest)
    return Chart(
        title="beta and rate",
        x=_betas(surface),
        y=log_axis("learning rate", min(rates) / 1.3, max(rates) * 1.3),
        series=(*_shades(surface), *_path(surface), _lowest(lowest, math.log10(lowest.lr)), *_fitted(surface)),
        spans=tuple(_span(surface)),
    )


def profile_chart(surface: Surface) -> Chart:
    """The loss at each beta's best rate."""
    best: dict[float, SurfaceCell] = {}
    for cell in _finite(surface):
        best[cell.beta] = min(best.get(cell.beta, cell), cell, key=lambda one: one.loss)
    cells = [best[beta] for beta in sorted(best)]
    lowest = min(cells, key=lambda cell: cell.loss)
    valley = Trace(
        name="each beta at its best rate",
        x=tuple(memory_place(cell.beta) for cell in cells),
        y=tuple(cell.loss for cell in cells),
        color=palette.CURVE,
        marker="circle",
        texts=tuple(map(_words, cells)),
        group="each beta at its best rate",
    )
    return Chart(
        title="at each beta's best rate",
        x=_betas(surface),
        y=number_axis("loss, of the mean seed", *padded(cell.loss for cell in cells)),
        series=(valley, _lowest(lowest, lowest.loss)),
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


def _cells(name: str, cells: list[SurfaceCell], color: str, marker: str) -> Trace:
    cells = sorted(cells, key=lambda cell: (cell.beta, cell.lr))
    return Trace(
        name=name,
        x=tuple(memory_place(cell.beta) for cell in cells),
        y=tuple(math.log10(cell.lr) for cell in cells),
        color=color,
        dash="none",
        marker=marker,  # type: ignore[arg-type]
        texts=tuple(map(_words, cells)),
        group=name,
    )


def _path(surface: Surface) -> Iterator[Trace]:
    """How the best beta moves with the rate: a line through the lowest cell of each rate, from the smallest rate up."""
    by_rate: dict[float, list[SurfaceCell]] = {}
    for cell in _finite(surface):
        by_rate.setdefault(cell.lr, []).append(cell)
    best = [min(by_rate[rate], key=lambda cell: cell.loss) for rate in sorted(by_rate) if len(by_rate[rate]) >= 3]
    if len(best) > 1:
        places = tuple(memory_place(cell.beta) for cell in best)
        heights = tuple(math.log10(cell.lr) for cell in best)
        name = "best beta at each rate"
        texts = tuple(f"{name}: {_words(cell)}" for cell in best)
        yield Trace(name, places, heights, palette.INK, "dashed", texts=texts, group=name)


def _lowest(cell: SurfaceCell, height: float) -> Trace:
    place, text = (memory_place(cell.beta),), (f"lowest: {_words(cell)}",)
    return Trace("lowest cell", place, (height,), palette.ORACLE, "none", "star", texts=text, group="lowest cell")


def _fitted(surface: Surface) -> Iterator[Trace]:
    """The bowl's lowest point, and the interval of its rate as an upright line through it."""
    if surface.beta is None or surface.lr is None:
        return
    at, name = memory_place(surface.beta), "fitted best pair"
    text = f"{name}: β {surface.beta:.4g}, rate {surface.lr:.3g}"
    yield Trace(name, (at,), (math.log10(surface.lr),), palette.RULE, "none", "frame", texts=(text,), group=name)
    if (between := surface.lr_interval) is not None:
        rates = [cell.lr for cell in surface.cells]
        low, high = max(between.lower, min(rates) / 1.3), min(between.upper, max(rates) * 1.3)
        ends = (math.log10(low), math.log10(max(high, low)))
        texts = (f"{text}, {100 * between.level:g} % CI of the rate {between.lower:.3g} to {between.upper:.3g}",)
        yield Trace("CI of its rate", (at, at), ends, palette.RULE, texts=texts * 2, group=name)


def _span(surface: Surface) -> Iterator[Span]:
    if (between := surface.beta_interval) is not None:
        axis = _betas(surface)
        low = max(memory_place(between.lower), axis.low) if between.lower > 0 else axis.low
        high = min(memory_place(between.upper), axis.high) if between.upper < 1 else axis.high
        yield Span(low, max(low, high), palette.RULE, f"{100 * between.level:g} % CI of the fitted beta")


def _words(cell: SurfaceCell) -> str:
    seeds = f"{cell.seeds} seed{'s' if cell.seeds != 1 else ''}"
    return f"β {cell.beta:g}, rate {cell.lr:g}: loss {cell.loss:.5g}, {seeds}"
