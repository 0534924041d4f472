"""Colours that stay apart for colour-blind readers and in print, for light and dark backgrounds.

Roles take the palette of Okabe and Ito (2008); a sweep of betas takes viridis without its palest (light) or
darkest (dark) end. A colour never stands alone: lines differ by dash and marker too.
"""

from __future__ import annotations

from functools import cache

from oneclock.report.chart import Dash, Marker

ROLES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#6B7280")
"""Blue, vermilion, green, purple, orange, sky, ink, grey."""

ROLES_DARK = ("#56B4E9", "#FF8A4C", "#2FC79A", "#E7A0C8", "#F0B73F", "#9AD4F5", "#F3F4F6", "#9CA3AF")

CURVE, RULE, ORACLE, FIXED, INK, QUIET = "c0", "c1", "c2", "c3", "c6", "c7"

STEPS = 13
"""Colours in the ramp."""

_DASHES: tuple[Dash, ...] = ("solid", "dashed", "dashdot", "dotted")
_MARKERS: tuple[Marker, ...] = ("circle", "square", "triangle", "diamond", "cross")


@cache
def colours(dark: bool = False) -> dict[str, str]:
    """Every colour by its name: `c0`.. for roles, `r00`.. for the ramp."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    low, high = (0.25, 1.0) if dark else (0.0, 0.85)
    viridis, roles = colormaps["viridis"], ROLES_DARK if dark else ROLES
    shades = {f"r{step:02d}": to_hex(viridis(low + (high - low) * step / (STEPS - 1))) for step in range(STEPS)}
    return {f"c{index}": role for index, role in enumerate(roles)} | shades


def ramp(index: int, count: int) -> str:
    """The name of the ramp's colour for one of `count` ordered things."""
    return f"r{round(index * (STEPS - 1) / max(count - 1, 1)):02d}"


def dash(index: int) -> Dash:
    """The dash of the index-th of several lines."""
    return _DASHES[index % len(_DASHES)]


def marker(index: int) -> Marker:
    """The marker of the index-th of several lines."""
    return _MARKERS[index % len(_MARKERS)]
