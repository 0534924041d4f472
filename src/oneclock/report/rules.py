"""The figures over all experiments, as values: gaps per rule, the R0 sweep, noise in T_ES."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from oneclock.report import palette
from oneclock.report.chart import Axis, Chart, Dash, Figure, Line, Marker, Span, Trace, named_axis, number_axis
from oneclock.report.refreshes import refresh_figure
from oneclock.report.series import series_figure
from oneclock.stats.analyse import Analysis
from oneclock.stats.risk import NEAR, Estimate, Risk, RuleRow
from oneclock.stats.robustness import NoiseFigure, NoiseRisk
from oneclock.stats.verdict import interval_words, percent

Split = Literal["development", "heldout", "all"]
SPLITS: dict[Split, str] = {"development": "development", "heldout": "held-out", "all": "all experiments"}

_GAP_UNIT = 0.001
"""Gaps below this are drawn about linearly, larger ones by their logarithm."""

_FIGURES: tuple[tuple[Literal["mean", "cvar", "max"], str, str, Dash, Marker], ...] = (
    ("mean", "mean", "c0", "solid", "circle"),
    ("cvar", "CVaR (worst quarter)", "c4", "dashed", "square"),
    ("max", "maximum", "c1", "dashdot", "triangle"),
)


def rule_figures(analysis: Analysis) -> Iterator[Figure]:
    """Those that this analysis has values for."""
    yield gaps_figure(analysis)
    yield from r0_figure(analysis)
    yield from noise_figure(analysis)
    yield refresh_figure(analysis)
    yield from series_figure(analysis)


def gaps_figure(analysis: Analysis) -> Figure:
    """Every rule: a dot per experiment, the mean with its interval."""
    rows = analysis.rules
    largest = max((gap for row in rows for gap in row.gaps if gap is not None and math.isfinite(gap)), default=NEAR)
    series = [*gap_marks(analysis, rows)]
    chart = Chart(
        title="",
        x=gap_axis("loss above the best beta, %", largest),
        y=named_axis("", [rule_label(row) for row in rows]),
        series=tuple(line for line in series if line.x),
        lines=(Line(gap_place(NEAR), "x", palette.QUIET, "1 %", "dotted"),),
    )
    caption = (
        "What each rule costs against the best beta of every experiment; the diamond is the mean over all of them, its "
        "bar the interval over experiments and seeds. The axis is logarithmic above 0.1 %."
    )
    return Figure("gaps-per-rule", "Gaps per rule", caption, (chart,))


def r0_figure(analysis: Analysis) -> Iterator[Figure]:
    """The R0 sweep with its plateau and the choice, one panel per split that has experiments."""
    candidates = [row for row in analysis.calibration.candidates if row.admissible]
    plateau = analysis.calibration.plateau
    charts = []
    for split, title in SPLITS.items():
        risks = [(row.refreshes, _risk(row.rule, split)) for row in candidates]
        known = [(refreshes, risk) for refreshes, risk in risks if risk is not None]
        if not known:
            continue
        series = [_risk_series(known, figure) for figure in _FIGURES]
        fixed = _risk(analysis.summary.fixed, split)
        lines = [] if fixed is None else [*_fixed_lines(analysis.summary.fixed, fixed)]
        spans = [Span(min(plateau) - 35, max(plateau) + 35, "c2", "plateau: smallest development maximum")]
        chosen = analysis.calibration.chosen
        if chosen is not None:
            lines.append(Line(chosen, "x", palette.INK, f"chosen: R₀ = {chosen:g}", "solid"))
        values = [refreshes for refreshes, _ in known]
        x = number_axis("refresh count R₀", min(values) - 50, max(values) + 50)
        charts.append(
            Chart(title, x, _gap_from_zero(series, lines), tuple(series), tuple(spans if plateau else ()), tuple(lines))
        )
    if charts:
        caption = (
            "Mean, worst quarter and maximum of the gaps for every candidate R0. R0 is chosen on the development "
            "experiments by the smallest maximum; shaded are all candidates that reach it."
        )
        yield Figure("r0-sweep", "The R0 sweep and its plateau", caption, tuple(charts), len(charts))


def noise_figure(analysis: Analysis) -> Iterator[Figure]:
    """Gaps under noise in T_ES with the sampling range of a repeat, one panel per split that has experiments."""
    charts = []
    for split, title in SPLITS.items():
        known = [(row.sigma, risk) for row in analysis.robustness.noise if (risk := _noise(row, split)) is not None]
        if len(known) < 2:
            continue
        series = [_noise_series(known, figure) for figure in _FIGURES]
        fixed = _risk(analysis.summary.fixed, split)
        lines = [] if fixed is None else [*_fixed_lines(analysis.summary.fixed, fixed)]
        x = number_axis("relative error in T_ES, sigma", -0.01, max(sigma for sigma, _ in known) + 0.01)
        charts.append(Chart(title, x, _gap_from_zero(series, lines), tuple(series), lines=tuple(lines)))
    if charts:
        draws = analysis.robustness.noise[-1].draws
        caption = (
            f"The refresh rule with T' = T (1 + ε), ε normal with deviation sigma, {draws} draws per experiment. "
            "Lines are the expected figures, bands the range in which repeats fall."
        )
        yield Figure("noise", "Robustness to an error in T_ES", caption, tuple(charts), len(charts))


def gap_marks(analysis: Analysis, rows: Sequence[RuleRow]) -> Iterator[Trace]:
    """A dot for each experiment, in the colour of its split, and the mean with its interval, a line for each rule."""
    for split, color, marker in DOTS:
        yield _dots(analysis, rows, split, color, marker)
    yield from _means(rows)


def gap_place(gap: float) -> float:
    """Where a gap is drawn on `gap_axis`; the sign is kept, for an untied baseline may beat the best tied beta."""
    return math.copysign(math.log10(1 + abs(gap) / _GAP_UNIT), gap)


def gap_axis(label: str, largest: float) -> Axis:
    """From 0 to `largest`, logarithmic above 0.1 %, ticked in percent.

    >>> [text for _, text in gap_axis("gap", 0.02).ticks]
    ['0', '0.1', '0.3', '1']
    """
    ticks = [(gap_place(value / 100), f"{value:g}") for value in (0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)]
    high = gap_place(max(largest, NEAR)) * 1.05
    return Axis(label, -0.06 * high, high, tuple(tick for tick in ticks if tick[0] <= high))


DOTS: tuple[tuple[Literal["development", "heldout"], str, Marker], ...] = (
    ("development", "c0", "circle"),
    ("heldout", "c4", "square"),
)


def _dots(
    analysis: Analysis,
    rows: Sequence[RuleRow],
    split: Literal["development", "heldout"],
    color: str,
    marker: Marker,
) -> Trace:
    found = [
        (gap, place, f"{row.name} on {result.name}: β {beta:g}, gap {percent(gap)}")
        for place, row in enumerate(rows)
        for result, beta, gap in zip(analysis.experiments, row.betas, row.gaps, strict=True)
        if result.split == split and beta is not None and gap is not None and math.isfinite(gap)
    ]
    return Trace(
        name=f"{SPLITS[split]} experiment",
        x=tuple(gap_place(gap) for gap, _, _ in found),
        y=tuple(float(place) for _, place, _ in found),
        color=color,
        dash="none",
        marker=marker,
        texts=tuple(words for _, _, words in found),
        group=f"{SPLITS[split]} experiment",
    )


def _means(rows: Sequence[RuleRow]) -> Iterator[Trace]:
    name = "mean, with its interval"
    for place, row in enumerate(rows):
        if row.all is None or not math.isfinite(row.all.mean.value):
            continue
        mean = row.all.mean
        interval = mean.experiments or mean.seeds
        words = f"{row.name}, mean over {row.all.answered}: {percent(mean.value)}{interval_words(interval)}"
        yield Trace(
            name, (gap_place(mean.value),), (float(place),), palette.INK, "none", "diamond", texts=(words,), group=name
        )
        if interval is not None and math.isfinite(interval.upper):
            ends = (gap_place(interval.lower), gap_place(interval.upper))
            yield Trace(name, ends, (float(place),) * 2, palette.INK, texts=(words, words), group=name)


def rule_label(row: RuleRow) -> str:
    """The rule's name, and for how many experiments it has a beta where not for all."""
    part = (
        ""
        if row.all is None or row.all.answered == row.all.experiments
        else (f" ({row.all.answered} of {row.all.experiments})")
    )
    return f"{row.name}{part}"


def _risk(row: RuleRow, split: Split) -> Risk | None:
    risk: Risk | None = getattr(row, split)
    return risk


def _noise(row: object, split: Split) -> NoiseRisk | None:
    risk: NoiseRisk | None = getattr(row, split)
    return risk


def _risk_series(known: Sequence[tuple[float, Risk]], figure: tuple[str, str, str, Dash, Marker]) -> Trace:
    field, name, color, dash, marker = figure
    found = [(refreshes, getattr(risk, field)) for refreshes, risk in known]
    finite: list[tuple[float, Estimate]] = [(r, estimate) for r, estimate in found if math.isfinite(estimate.value)]
    return Trace(
        name,
        tuple(float(refreshes) for refreshes, _ in finite),
        tuple(100 * estimate.value for _, estimate in finite),
        color,
        dash,
        marker,
        texts=tuple(
            f"R₀ {r:g}: {name} {percent(e.value)}{interval_words(e.experiments or e.seeds)}" for r, e in finite
        ),
        group=name,
    )


def _noise_series(known: Sequence[tuple[float, NoiseRisk]], figure: tuple[str, str, str, Dash, Marker]) -> Trace:
    field, name, color, dash, marker = figure
    found: list[tuple[float, NoiseFigure]] = [(sigma, getattr(risk, field)) for sigma, risk in known]
    finite = [(sigma, value) for sigma, value in found if math.isfinite(value.expected)]
    return Trace(
        name,
        tuple(sigma for sigma, _ in finite),
        tuple(100 * value.expected for _, value in finite),
        color,
        dash,
        marker,
        low=tuple(100 * value.lower for _, value in finite),
        high=tuple(100 * value.upper for _, value in finite),
        texts=tuple(
            f"sigma {s:g}: {name} {percent(v.expected)}, repeats {percent(v.lower)} to {percent(v.upper)}"
            for s, v in finite
        ),
        group=name,
    )


def _fixed_lines(row: RuleRow, risk: Risk) -> Iterator[Line]:
    """The baseline's mean and maximum, in the colours of those figures."""
    for field, name, color in (("mean", "mean", "c0"), ("max", "maximum", "c1")):
        value = getattr(risk, field).value
        if math.isfinite(value):
            yield Line(100 * value, "y", color, f"{row.name}: {name}", "dotted")


def _gap_from_zero(series: Sequence[Trace], lines: Sequence[Line]) -> Axis:
    highs = [value for line in series for value in (*line.y, *line.high) if value is not None]
    level = [line.at for line in lines if line.axis == "y"]
    top = max([*highs, *level, 0.01])
    return number_axis("gap, %", -0.03 * top, 1.08 * top)
