"""Several experiments: one table and one picture first, on the page and on the terminal; the details are folded."""

from collections.abc import Callable
from pathlib import Path

import pytest
from opened_page import Opened
from report_studies import write_run, write_study

from oneclock.report import folder
from oneclock.report.brief import in_words
from oneclock.report.folder import Subject, subject_of
from oneclock.report.several import overview_figure, overview_table

BETAS = (0.5, 0.684, 0.822, 0.9, 0.944, 0.968)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Three experiments of 500 steps, with the default betas (0.9, 0.999) in one of them."""
    study = write_study(tmp_path_factory.mktemp("several") / "study", ("one", "two", "three"), BETAS, budget=500)
    for seed in (1, 2, 3):
        write_run(study, "one", (0.9, 0.999), seed, budget=500)
    return subject_of(study)


@pytest.fixture(scope="module")
def page(several: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder.write_subject(several, tmp_path_factory.mktemp("page"), "oneclock report study", formats=())


def test_the_table_has_the_verdict_and_the_costs_of_the_analysis(several: Subject) -> None:
    table = overview_table(several.analysis)
    titles = [column.title for column in table.columns]
    assert titles[-3:] == ["(0.9, 0.999)", "(0.9, 0.95)", "recommended"]
    for row, result in zip(table.rows, several.analysis.experiments, strict=True):
        shown = dict(zip(titles, row, strict=True))
        assert (shown["Experiment"], shown["Steps"]) == (result.name, 500)
        assert float(str(shown["Best beta"])) == pytest.approx(result.best.beta, abs=0.005)
        assert shown["recommended"] == pytest.approx(result.rules[0].excess, abs=1e-4)
        assert shown["(0.9, 0.95)"] is None
        pair = next((one.difference.value for one in result.best.baselines), None)
        assert shown["(0.9, 0.999)"] == (None if pair is None else pytest.approx(pair, abs=1e-4))


def test_the_terminal_shows_the_answer_then_the_table_in_80_columns(several: Subject) -> None:
    lines = in_words(several.analysis, 80).splitlines()
    table = [line.split()[0] for line in lines[lines.index("") + 1 :] if line]
    assert table[:4] == ["experiment", "one", "two", "three"]
    assert f"over {several.analysis.recommended.measured} of 3" in " ".join(lines[:2])
    assert max(map(len, lines)) <= 80


def test_without_a_series_the_picture_has_a_panel_per_experiment(several: Subject) -> None:
    figure = overview_figure(several.analysis)
    assert [chart.title for chart in figure.charts] == ["one", "two", "three"]
    assert [sum(one.group == "(0.9, 0.999)" for one in chart.series) for chart in figure.charts] == [1, 0, 0]


def test_with_a_series_the_picture_is_the_series(tmp_path: Path) -> None:
    for budget, best in ((250, 0.7), (1000, 0.83), (4000, 0.91)):
        for beta in BETAS:
            for seed in (1, 2):
                write_run(tmp_path / "study", f"net-{budget}", beta, seed, budget=budget, best=best, wiggle=0.001)
    assert overview_figure(subject_of(tmp_path / "study").analysis).name == "series"


@pytest.mark.parametrize("width", [1400, 390])
def test_the_first_screen_is_a_table_and_a_picture_and_the_rest_is_folded(
    open_page: Callable[..., Opened], page: Path, width: int
) -> None:
    opened = open_page(page, viewport={"width": width, "height": 900})
    opened.page.wait_for_selector(".overview svg[role=img]")
    for selector in ("#table-overview", ".overview svg[role=img]"):
        box = opened.page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900
    assert opened.page.locator("#table-overview tbody tr").count() == 3
    assert opened.page.locator("details[open]:not(#made details)").count() == 0
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    table = opened.page.locator(".overview .scroll")
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), "the table needs no scrolling"
    assert opened.said == []


@pytest.mark.parametrize(("study", "panels"), [("laptop", 11), ("joint", 1)])
def test_all_panels_of_a_study_are_on_the_first_screen_and_its_table_fits(
    open_page: Callable[..., Opened], tmp_path: Path, study: str, panels: int
) -> None:
    subject = subject_of(Path(__file__).parents[2] / "studies" / study)
    page = folder.write_subject(subject, tmp_path, "oneclock report", formats=())
    for width, height in ((1400, 900), (390, 844)):
        opened = open_page(page, viewport={"width": width, "height": height})
        opened.page.wait_for_selector(".overview svg[role=img]")
        boxes = [panel.bounding_box() for panel in opened.page.locator(".overview svg[role=img]").all()]
        assert len(boxes) == panels
        assert width < 1400 or max(box["y"] + box["height"] for box in boxes) <= height
        assert opened.page.locator(".overview .scroll").evaluate("table => table.scrollWidth <= table.clientWidth")


def test_a_ci_without_a_bound_has_no_band_and_a_bar_on_one_side(
    open_page: Callable[..., Opened], tmp_path: Path
) -> None:
    subject = subject_of(Path(__file__).parents[2] / "studies" / "series")
    points = [point for task in subject.analysis.series for point in task.points if point.beta_interval is not None]
    bounds = [sum(0 < end < 1 for end in (p.beta_interval.lower, p.beta_interval.upper)) for p in points]
    opened = open_page(folder.write_subject(subject, tmp_path, "oneclock report", formats=()))
    opened.page.wait_for_selector(".overview svg[role=img]")
    assert opened.page.locator(".overview svg[role=img] g line").count() == sum(count > 0 for count in bounds)
    bands = opened.page.locator(".overview svg[role=img] polygon").evaluate_all(
        "bands => bands.map((band) => band.points.length / 2)"
    )
    assert (sum(bands), bounds.count(1)) == (bounds.count(2), 3)
