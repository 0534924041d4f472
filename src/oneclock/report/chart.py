"""Figures as plain values: one definition per figure, drawn by matplotlib on paper and by the page's script.

All axes are linear: a logarithmic or memory axis has transformed positions and its own tick labels. Colours are names,
whose values are in `palette`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from oneclock.recommend import short_beta

Dash = Literal["solid", "dashed", "dotted", "dashdot", "none"]
Marker = Literal["none", "circle", "square", "triangle", "diamond", "star", "cross", "frame", "ring", "cell"]


@dataclass(frozen=True)
class Axis:
    """A linear axis with ticks (position, label); `beyond` labels them again on the opposite side."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    beyond: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trace:
    """Points in their order, joined by a line unless `dash` is none; `low` and `high` bound a band, None if unknown.

    `texts` are shown when the pointer is over a point. Traces of one `group` share one switch and legend entry.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    color: str
    dash: Dash = "solid"
    marker: Marker = "none"
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    texts: tuple[str, ...] = ()
    group: str = ""


def trace(
    name: str,
    points: Iterable[tuple[float, float, str]],
    color: str,
    dash: Dash = "none",
    marker: Marker = "none",
    **others: Any,
) -> Trace:
    """The trace of points (x, y, text); its name is its group where no other is given."""
    x, y, texts = zip(*points, strict=True) if (points := list(points)) else ((), (), ())
    return Trace(name, x, y, color, dash, marker, texts=texts, **{"group": name} | others)


@dataclass(frozen=True)
class Span:
    """A shaded stretch of the x axis."""

    low: float
    high: float
    color: str
    label: str


@dataclass(frozen=True)
class ReferenceLine:
    """A reference line across the chart at one value of an axis."""

    at: float
    axis: Literal["x", "y"]
    color: str
    label: str
    dash: Dash = "dashed"


@dataclass(frozen=True)
class Chart:
    """One pair of axes. On a page the groups in `folded` are hidden until somebody asks for them."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Trace, ...]
    spans: tuple[Span, ...] = ()
    lines: tuple[ReferenceLine, ...] = ()
    folded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """Charts side by side in `columns`, saved under `name`; `caption` describes them in words."""

    name: str
    title: str
    caption: str
    charts: tuple[Chart, ...]
    columns: int = 1


_MOST = 14
"""How many labels of betas fit along an axis, upright."""


def memory_axis(betas: Iterable[float]) -> Axis:
    """The axis u = -log10(1 - beta), ticked at betas that are not too close, and above them at their memory in steps.

    >>> axis = memory_axis([0.0, 0.9, 0.99])
    >>> [label for _, label in axis.ticks], axis.beyond
    (['0', '0.9', '0.99'], ('1', '10', '100'))
    """
    marks = [(memory_position(beta), short_beta(beta)) for beta in sorted(set(betas))]
    low, high = marks[0][0], marks[-1][0]
    margin = 0.05 * ((high - low) or 1.0)
    ticks = marks[:1]
    for mark in marks[1:]:
        if mark[0] - ticks[-1][0] >= (high - low) / _MOST * 0.99:
            ticks.append(mark)
    steps = tuple(f"{round(10**position, 1 if position < 1 else 0):,g}" for position, _ in ticks)
    return Axis("β; above, its memory in steps", low - margin, high + margin, tuple(ticks), steps)


def memory_position(beta: float) -> float:
    """u = -log10(1 - beta), which spaces the betas of the grid evenly."""
    return 0.0 - math.log10(1 - beta)


def log_axis(label: str, low: float, high: float) -> Axis:
    """A logarithmic axis: positions are log10 of the value, ticks at 1, 2 and 5 of each decade.

    >>> log_axis("steps", 1_000, 10_000).ticks
    ((3.0, '1,000'), (3.3010299956639813, '2,000'), (3.6989700043360187, '5,000'), (4.0, '10,000'))
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    ticks = tuple((math.log10(value), f"{value:,.10g}") for value in values if low <= value * 1.0001 <= high * 1.0002)
    if len(ticks) > 8:
        ticks = tuple(tick for tick in ticks if tick[1].startswith("1"))
    return Axis(label, math.log10(low), math.log10(high), ticks)


def number_axis(label: str, low: float, high: float, ticks: int = 5) -> Axis:
    """A linear axis with about that many round ticks.

    >>> number_axis("gap", 0, 1.9).ticks[:2]
    ((0.0, '0'), (0.5, '0.5'))
    """
    from matplotlib.ticker import MaxNLocator

    if not high > low:
        low, high = low - (abs(low) or 1) * 0.05, high + (abs(high) or 1) * 0.05
    ends = MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    within = [float(tick) for tick in ends if low - 1e-12 <= tick <= high + 1e-12]
    return Axis(label, low, high, tuple((tick, f"{tick:,.10g}") for tick in within))


def padded(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """The range of the values and a margin on both sides."""
    given = list(values)
    low, high = min(given), max(given)
    return low - share * (high - low), high + share * (high - low)
