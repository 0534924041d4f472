"""One picture of the evidence, as SVG: the best memory over the training length in every sweep, and the rules.

Pure Python, so that `oneclock evidence --figure` needs no extra package.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from oneclock.evidence.excess import SweepCurve, curve
from oneclock.evidence.model import MARGIN, UNKNOWN_SE, deciding
from oneclock.evidence.table import EvidenceSweep, chose
from oneclock.rule import RECOMMENDED, Refresh, Rule

WIDTH, LEFT, RIGHT, TOP, FLOOR = 720, 66, 66, 44, 380
"""`FLOOR` is where the lower axis lies. The legend is below it, as many rows as the sources need."""

FONT, ROW, ACROSS = 17, 26, 5
"""Size of the text, height of a row of the legend, entries in a row: readable on a phone, at half the width."""

STEPS, MEMORY = (2.0, 6.6), (0.0, 3.3)
"""Powers of ten that the axes show."""

COLOURS = {
    "paper": "#D55E00",
    "joint": "#0072B2",
    "series": "#56B4E9",
    "laptop": "#6B7280",
    "fashion": "#9CA3AF",
    "short": "#009E73",
    "brief": "#5CC9A7",
    "finetune": "#B45309",
    "batch": "#8C6BB1",
    "size": "#4D9221",
    "long": "#1B3A8C",
    "marek-30m": "#CC79A7",
    "marek-gpt2": "#7B2D8E",
    "marin": "#E69F00",
}
DARK = {
    "#ffffff": "#14161a",
    "#000000": "#f3f4f6",
    "#374151": "#d1d5db",
    "#4B5563": "#9ca3af",
    "#6B7280": "#9ca3af",
    "#E5E7EB": "#2f343d",
    "#F3F4F6": "#23272e",
    "#1B3A8C": "#7aa2ff",
    "#7B2D8E": "#cf8ae0",
}
"""The colours for a dark screen."""

PLACES = 400
"""Places between the first and the last swept memory where the loss is read."""

OWN = "#000000"
"""The colour of the user's own sweeps."""


class BestMemory(NamedTuple):
    """The best memory of a sweep, and the memories that are statistically tied with it or within 0.2 %."""

    memory: float
    low: float
    high: float


def best_memory(measured: SweepCurve) -> BestMemory:
    """The swept memory with the least loss, and the interval of memories that may be the best one.

    It goes from the first to the last memory that loses at most 0.2 % or two standard errors more. It reaches half way
    to the next swept memories at least, because nothing between two of them was run.
    """
    best, xs = measured.best, [point.x for point in measured.points]
    error = UNKNOWN_SE if best.se is None else 100 * best.se / best.loss
    limit = max(MARGIN, 2 * math.sqrt(2) * error)
    grid = [xs[0] + (xs[-1] - xs[0]) * place / PLACES for place in range(PLACES + 1)]
    middles = [(one + other) / 2 for one, other in pairwise(xs) if best.x in (one, other)]
    inside = [best.x, *middles, *(x for x in grid if measured.extended(x)[0] <= limit)]
    return BestMemory(math.exp(-best.x), math.exp(-max(inside)), math.exp(-min(inside)))


def draw_svg(evidence: Sequence[EvidenceSweep]) -> str:
    """The picture as the text of an SVG file."""
    chosen = sorted(deciding(evidence), key=lambda sweep: not chose(sweep.source))
    body = [*_axes(), *_rule(Refresh(), "#6B7280", "2 4"), *_rule(RECOMMENDED, "#000000", "")]
    for sweep in chosen:
        measured = curve(sweep)
        assert measured is not None  # see `deciding`
        body.append(_mark(sweep, best_memory(measured)))
    body += _labels()
    names = list(dict.fromkeys(sweep.source for sweep in chosen))
    body += _legend(names)
    height = _legend_row(len(names) + ACROSS - 1) + ROW
    title = "Best memory over training length: every known sweep, the recommended rule and the paper's rule"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="{FONT}" role="img"><title>{title}</title>{_dark_style()}'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _dark_style() -> str:
    rules = "".join(
        f'[{kind}="{light}"]{{{kind}:{dark}}}' for light, dark in DARK.items() for kind in ("fill", "stroke")
    )
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


def _x(steps: float) -> float:
    share = (math.log10(steps) - STEPS[0]) / (STEPS[1] - STEPS[0])
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(memory: float) -> float:
    share = (math.log10(memory) - MEMORY[0]) / (MEMORY[1] - MEMORY[0])
    return FLOOR - min(max(share, -0.01), 1.01) * (FLOOR - TOP)


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = "#374151", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(words)}</text>'


def _axes() -> Iterator[str]:
    for memory in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        y, end = _y(memory), WIDTH - RIGHT
        yield f'<line x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}" stroke="#E5E7EB"/>'
        yield _text(LEFT - 8, y + 5, f"{memory:,}", "end")
        yield _text(end + 8, y + 5, f"{1 - 1 / memory:.4g}")
    names = ("100", "1,000", "10,000", "100,000", "1 million")
    for power, name in enumerate(names, start=2):
        x = _x(10**power)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{FLOOR}" stroke="#F3F4F6"/>'
        yield _text(x, FLOOR + 22, name, "middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, FLOOR + 46, "training length, optimizer steps", "middle")
    yield _text(8, 22, "best memory, steps")
    yield _text(WIDTH - 8, 22, "beta", "end")


def _rule(rule: Rule, colour: str, dashes: str) -> Iterator[str]:
    points = []
    for place in range(461):
        steps = 10 ** (STEPS[0] + place / 100)
        memory = 1 / rule.one_minus_beta(steps)
        if 1 <= memory <= 10 ** MEMORY[1]:
            points.append(f"{_x(steps):.1f},{_y(memory):.1f}")
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2.5"{dashed}/>'


def _labels() -> Iterator[str]:
    yield _text(_x(300), _y(25), "1 + √steps / 7", "middle", "#000000", ' font-weight="bold"')
    yield _text(_x(10**5.95), _y(1250), "the paper's rule, steps / 1,000", "end", "#4B5563")


def _mark(sweep: EvidenceSweep, best: BestMemory) -> str:
    colour, test = COLOURS.get(sweep.source, OWN), not chose(sweep.source)
    jitter = (sum(map(ord, sweep.name)) % 9 - 4) * 1.6
    x, y = _x(sweep.steps) + jitter, _y(best.memory)
    wide, opacity = (2.2, 0.9) if test else (1.2, 0.45)
    words = (
        f"{sweep.source}, {sweep.name}, {sweep.steps:,} steps: best memory {best.memory:.3g} "
        f"({best.low:.3g} to {best.high:.3g})"
    )
    line = (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(best.low):.1f}" y2="{_y(best.high):.1f}" stroke="{colour}" '
        f'stroke-width="{wide}" opacity="{opacity}"/>'
    )
    return f"<g><title>{escape(words)}</title>{line}{_symbol(x, y, colour, test)}</g>"


def _symbol(x: float, y: float, colour: str, test: bool) -> str:
    if test:
        points = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
        return f'<polygon points="{points}" fill="{colour}" stroke="#ffffff"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}" opacity="0.85"/>'


def _legend_row(place: int) -> int:
    return FLOOR + 82 + ROW * (place // ACROSS)


def _legend(names: Sequence[str]) -> Iterator[str]:
    for place, name in enumerate(names):
        x, y = 24 + (WIDTH - 32) / ACROSS * (place % ACROSS), _legend_row(place)
        yield _symbol(x, y - 5, COLOURS.get(name, OWN), not chose(name))
        yield _text(x + 12, y, name)
    yield _text(18, _legend_row(len(names) + ACROSS - 1), "Diamonds took no part in choosing the rule.")
