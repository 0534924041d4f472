"""Figures on paper: chart values drawn with matplotlib into PNG, SVG and PDF. Equal values give equal SVG bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.plain_text import printable
from oneclock.report.chart import Chart, Figure, ReferenceLine, Span, Trace
from oneclock.report.palette import colours

FORMATS = ("png", "svg", "pdf")

_DASHES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 2)), "dotted": (0, (1, 1.6)), "dashdot": (0, (6, 2, 1, 2))}
_MARKERS = {
    **{"circle": "o", "square": "s", "cell": "s", "triangle": "^", "diamond": "D"},
    **{"star": "*", "cross": "x", "frame": "D", "ring": "o", "none": ""},
}
_SIZES = {"star": 9.0, "diamond": 6.0, "cross": 5.0, "frame": 9.0, "ring": 4.5, "cell": 11.0}
_STYLE: dict[str, Any] = {
    **{"font.family": "DejaVu Sans", "font.size": 8.5, "axes.titlesize": 9, "axes.labelsize": 8.5},
    **{"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "legend.fontsize": 8},
    **{"axes.grid": True, "grid.color": "#E5E7EB", "grid.linewidth": 0.6},
    **{"svg.hashsalt": "oneclock", "svg.fonttype": "path", "pdf.fonttype": 42},
    "text.parse_math": False,  # names are data: a dollar sign in a name does not start a formula
}
_UNDATED: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "oneclock"},
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": "oneclock", "Creator": "oneclock"},
    "png": {"Software": "oneclock"},
}
_TICKS = {1: 10, 2: 7, 3: 4}
"""Along x, by the number of columns."""
_LEGEND_LETTERS, _LEGEND_HANDLE = 125, 8
"""About how many letters fit in a row of the legend, and how many a handle takes."""
_PANEL, _WIDTH, _LEGEND_ROW = 2.3, 7.2, 0.19


def save_figure(figure: Figure, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw the figure once and write it as folder/NAME.FORMAT. Returns the paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        canvas = _drawn(figure)
        FigureCanvasAgg(canvas)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # laid out once, for all formats
        paths = [folder / f"{figure.name}.{kind}" for kind in formats]
        for path, kind in zip(paths, formats, strict=True):
            canvas.savefig(path, format=kind, dpi=160, metadata=_UNDATED[kind])
    return paths


def _drawn(figure: Figure) -> Any:
    from matplotlib.figure import Figure as Paper

    rows = math.ceil(len(figure.charts) / figure.columns)
    handles = _legend(figure)
    letters = max(map(len, handles), default=0) + _LEGEND_HANDLE
    wide = min(max(_LEGEND_LETTERS // letters, 1), 4, max(len(handles), 1))
    legend_rows = math.ceil(len(handles) / wide)
    panel = _PANEL if all(chart.title for chart in figure.charts) else 1.5 * _PANEL
    height = rows * panel + legend_rows * _LEGEND_ROW + 0.35
    paper = Paper(figsize=(_WIDTH, height), layout="constrained")
    axes = paper.subplots(rows, figure.columns, squeeze=False).flatten()
    for chart, axis in zip(figure.charts, axes, strict=False):
        _draw(chart, axis, ticks=_TICKS[min(figure.columns, 3)])
    for axis in axes[len(figure.charts) :]:
        axis.set_visible(False)
    paper.suptitle(printable(figure.title), fontsize=10.5, fontweight="bold", x=0.01, ha="left")
    paper.legend(
        handles=list(handles.values()), labels=list(map(printable, handles)), loc="outside lower center", ncols=wide
    )
    return paper


def _draw(chart: Chart, axis: Any, ticks: int) -> None:
    """One pair of axes; more than `ticks` ticks along x are turned."""
    for span in chart.spans:
        axis.axvspan(span.low, span.high, **_span(span))
    for line in chart.lines:
        (axis.axvline if line.axis == "x" else axis.axhline)(line.at, **_line(line))
    for series in chart.series:
        _draw_series(series, axis)
    axis.set_title(printable(chart.title), loc="left")
    axis.set_xlim(chart.x.low, chart.x.high)
    axis.set_ylim(chart.y.low, chart.y.high)
    every = math.ceil(len(chart.x.ticks) / ticks)
    kept = chart.x.ticks[::every]
    if chart.x.beyond:
        axis.secondary_xaxis("top").set_xticks([position for position, _ in kept], chart.x.beyond[::every])
    upright = {"rotation": 90, "fontsize": 7} if every > 1 else {}
    axis.set_xticks([position for position, _ in chart.x.ticks], [text for _, text in chart.x.ticks], **upright)
    axis.set_yticks([position for position, _ in chart.y.ticks], [printable(text) for _, text in chart.y.ticks])
    axis.set_xlabel(chart.x.label)
    axis.set_ylabel(chart.y.label)


def _draw_series(series: Trace, axis: Any) -> None:
    axis.plot(series.x, series.y, **_series(series))
    if series.low:
        low, high = (np.array(side, dtype=float) for side in (series.low, series.high))  # None becomes NaN
        axis.fill_between(series.x, low, high, color=colours()[series.color], alpha=0.18, linewidth=0)
        if series.marker != "none":  # no bound on a side: the bar ends at the point
            ends = [np.where(np.isnan(side), series.y, side) for side in (low, high)]
            axis.vlines(series.x, *ends, color=colours()[series.color], alpha=0.6, linewidth=0.9)


def _legend(figure: Figure) -> dict[str, Any]:
    """One entry per group, line and span label over all panels, in the order they are drawn."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for chart in figure.charts:
        for series in chart.series:
            entries.setdefault(series.group, Line2D([], [], **_series(series)))
        for line in chart.lines:
            others.setdefault(line.label, Line2D([], [], **_line(line)))
        for span in chart.spans:
            others.setdefault(span.label, Patch(**_span(span)))
    return {name: one for name, one in (entries | others).items() if name}


def _series(series: Trace) -> dict[str, Any]:
    color = colours()[series.color]
    outlined = series.marker in ("cross", "frame", "ring")
    inside = {"frame": "none", "ring": "white"}.get(series.marker, color)
    return {
        "color": color,
        "linestyle": "" if series.dash == "none" else _DASHES[series.dash],
        "linewidth": 1.0 if len(series.x) > 40 else 1.4,
        "marker": _MARKERS[series.marker],
        "markersize": _SIZES.get(series.marker, 4.0),
        "markerfacecolor": inside,
        "markeredgecolor": color if outlined else "white",
        "markeredgewidth": 1.5 if outlined else 0.6,
        "zorder": 4 if series.dash == "none" else 3,
    }


def _line(line: ReferenceLine) -> dict[str, Any]:
    return {"color": colours()[line.color], "linestyle": _DASHES[line.dash], "linewidth": 1.0, "zorder": 2}


def _span(span: Span) -> dict[str, Any]:
    return {"color": colours()[span.color], "alpha": 0.12, "linewidth": 0, "zorder": 1}
