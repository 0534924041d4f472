"""Figures: equal bytes for equal data, every mark where its value is, and names that are data."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Drawing
from report_studies import SCRIPT, write_run

from oneclock.lab.paper.published import losses_study
from oneclock.lab.protocol import analyse_protocol
from oneclock.lab.protocol.figures import paper_figures
from oneclock.report import plot, sweeps
from oneclock.report.chart import Chart, Figure, memory_position, number_axis, trace
from oneclock.report.folder import Subject, figures_of, subject_of
from oneclock.report.palette import colours


def all_figures(subject: Subject) -> list[Figure]:
    return [*figures_of(subject.analysis), *sweeps.curve_figures(subject.study, subject.analysis)]


def test_svg_bytes_are_deterministic_and_every_format_is_written(subject: Subject, tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in all_figures(subject)}
    for figure in (figures["beta-sweeps"], figures["curves-digits"]):
        first = plot.save_figure(figure, tmp_path / "one")
        second = plot.save_figure(figure, tmp_path / "two", formats=("svg", "pdf"))
        assert [path.suffix for path in first] == [".png", ".svg", ".pdf"]
        assert first[1].read_bytes() == second[0].read_bytes()
        assert first[2].read_bytes() == second[1].read_bytes()
        ElementTree.parse(first[1])
        assert first[0].read_bytes().startswith(b"\x89PNG")


def test_figure_names_are_safe_file_names(subject: Subject) -> None:
    names = [figure.name for figure in all_figures(subject)]
    assert len(names) == len(set(names)) == 1 + 1 + 3  # overview, sweeps, curves
    assert not any(set("<>/\\ ") & set(name) for name in names)
    assert any(SCRIPT in figure.title for figure in all_figures(subject))


def test_the_sweep_chart_marks_the_best_and_the_recommended_beta_at_their_losses(subject: Subject) -> None:
    for result in subject.analysis.experiments:
        chart = sweeps.sweep_chart(result, [point.beta for point in result.points])
        curve, _, best, recommended, *_ = chart.series
        losses = {point.beta: point.loss for point in result.points}
        rule = next(rule for rule in result.rules if rule.name == "recommended")
        assert curve.y == tuple(losses.values())
        assert (best.x, best.y) == ((memory_position(result.best.beta),), (losses[result.best.beta],))
        assert recommended.x == (memory_position(rule.beta),)
        assert recommended.y[0] / best.y[0] - 1 == pytest.approx(rule.excess)
        assert (chart.spans, chart.lines) == ((), ())


@pytest.mark.parametrize("ending", ["failed", "diverged", None])
def test_no_line_crosses_a_beta_without_a_result(tmp_path: Path, ending: str | None) -> None:
    betas = (0.684, 0.822, 0.9, 0.944, 0.968)
    for beta in betas:
        for seed in (1, 2):
            write_run(tmp_path, "mine", beta, seed, ending=ending if beta == 0.9 else "finished")
    (result,) = subject_of(tmp_path).analysis.experiments
    lines = [one for one in sweeps.sweep_chart(result, betas).series if one.dash == "solid"]
    assert [line.x for line in lines] == [tuple(map(memory_position, part)) for part in (betas[:2], betas[3:])]


def test_a_small_panel_shows_the_valley_and_cuts_high_losses(subject: Subject) -> None:
    for result in (replace(one, baselines=()) for one in subject.analysis.experiments):
        betas = [point.beta for point in result.points]
        whole, small = (sweeps.sweep_chart(result, betas, cut=cut).y for cut in (sweeps.CUT, 1))
        assert small.high < whole.high
        assert small.low < min(point.loss for point in result.points) < small.high


def test_lines_differ_by_more_than_colour(subject: Subject) -> None:
    for figure in all_figures(subject):
        for chart in figure.charts:
            lines = {series.group: (series.color, series.dash, series.marker) for series in reversed(chart.series)}
            styles = list(lines.values())
            assert len(set(styles)) == len(styles)
            assert all(style[0] in colours() and style[0] in colours(dark=True) for style in styles)
            for before, after in pairwise(styles):
                assert before[1:] != after[1:]


def test_the_papers_figures_have_every_beta_with_its_label_and_a_line_at_the_smallest_mean() -> None:
    study = losses_study()
    analysis = analyse_protocol(study, draws=10, repeats=2)
    development, heldout = paper_figures(study, analysis)
    assert (len(development.charts), len(heldout.charts)) == (8, 3)
    labels = [
        "0",
        "0.44",
        "0.68",
        "0.82",
        "0.9",
        "0.944",
        "0.968",
        "0.982",
        "0.99",
        "0.9944",
        "0.9968",
        "0.9982",
        "0.999",
    ]
    for chart, result in zip([*development.charts, *heldout.charts], analysis.experiments, strict=True):
        curve, (line,) = chart.series[0], chart.lines
        assert [text for _, text in chart.x.ticks] == labels
        assert [place for place, _ in chart.x.ticks] == list(curve.x)
        assert (line.axis, line.at) == ("x", memory_position(result.oracle_beta))
        assert min(curve.y) == dict(zip(curve.x, curve.y, strict=True))[line.at]
        assert sum(low is not None for low in curve.low) == (0 if result.name.startswith("10 ") else 5)
        (choice,) = (series for series in chart.series if series.name == "the rule's choice")
        assert choice.x == (memory_position(result.selected_beta),)
        (span,) = chart.spans
        assert round(1000 * 10**span.high) == round(result.stable_to)
    drawn = plot._drawn(development).axes[0]
    assert [text.get_text() for text in drawn.get_xticklabels()] == labels


@pytest.mark.parametrize(
    ("low", "high"), [((1.0, 1.2), (2.0, None)), ((None, 1.2), (2.0, 2.4)), ((None, None), (None, None))]
)
def test_a_bar_without_a_bound_ends_at_its_point(low: tuple[float | None, ...], high: tuple[float | None, ...]) -> None:
    points = [(1.0, 1.5, "one"), (2.0, 1.8, "two")]
    chart = Chart(
        "",
        number_axis("x", 0, 3),
        number_axis("y", 0, 3),
        (trace("a", points, "c0", marker="circle", low=low, high=high),),
    )
    axis = Drawing().subplots()
    plot._draw(chart, axis, ticks=10)
    (bars,) = (one for one in axis.collections if isinstance(one, LineCollection))
    expected = [
        (point[1] if one is None else one, point[1] if two is None else two)
        for point, one, two in zip(points, low, high, strict=True)
    ]
    assert [tuple(segment[:, 1]) for segment in bars.get_segments()] == expected
