"""The page in a real Chromium, opened from disk with the network off."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from opened_page import ARTIFACTS, Opened
from report_studies import SCRIPT, write_study

from oneclock.report import folder
from oneclock.report.folder import Subject, subject_of
from oneclock.stats.verdict import percent

Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def report(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the small study, its title hostile too."""
    hostile = replace(subject, title=SCRIPT, notes=(f'"><img src=x onerror=alert(1)> {SCRIPT}',))
    return folder.write_subject(hostile, tmp_path_factory.mktemp("page"), f"oneclock report '{SCRIPT}'", formats=())


def test_opens_from_disk_offline_without_a_word(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    opened.page.wait_for_selector(".overview svg[role=img]")
    assert opened.said == []
    assert opened.asked == [report.as_uri()]
    opened.page.locator("#more > summary").click()
    opened.page.wait_for_selector("#figures svg[role=img]")
    assert opened.page.locator("#figures svg[role=img]").count() == 3  # sweeps


def test_hostile_names_are_text(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    opened.page.wait_for_selector(".overview svg[role=img]")
    assert opened.text("h1") == SCRIPT
    assert opened.page.title().startswith(SCRIPT)
    assert SCRIPT in opened.page.locator(".overview svg .title").all_text_contents()
    assert SCRIPT in opened.text("#table-overview")
    assert SCRIPT in opened.text("#made pre")
    assert (opened.page.locator("script").count(), opened.page.locator("img").count()) == (2, 0)
    assert opened.said == []


def test_hover_reads_values_and_switches_hide_runs(open_page: Open, report: Path, subject: Subject) -> None:
    opened = open_page(report)
    opened.page.locator("#curves summary").click()
    curves = opened.page.locator("#curves article").first
    lines = curves.locator("svg[role=img] g polyline")
    curves.locator("svg[role=img]").wait_for()
    before = lines.count()
    curves.locator("button", has_text="β 0.944").click()
    assert lines.count() == before - 3  # three seeds of one beta
    curves.locator("button", has_text="hide all").click()
    assert lines.count() == 0
    curves.locator("button", has_text="show all").click()
    assert lines.count() == len(subject.study.sweeps[0].tied) + len(subject.study.sweeps[0].untied)
    curves.locator("button", has_text="the best few").click()
    assert lines.count() == before == 5 * 3 + len(subject.study.sweeps[0].untied)  # five betas of three seeds
    pressed = curves.locator("button[data-group]").evaluate_all(
        "buttons => buttons.map((button) => button.getAttribute('aria-pressed'))"
    )
    assert pressed == sorted(pressed, reverse=True)  # what is seen comes first
    opened.page.locator(".overview svg[role=img]").first.focus()
    opened.page.keyboard.press("ArrowRight")
    first = subject.analysis.experiments[0].points[0]
    assert f"β {first.beta:g}: loss {first.loss:.5g}, {percent(first.excess)} above the best" in opened.text("#tip")
    opened.page.locator(".overview svg[role=img] path[d^='M0-9']").first.hover(force=True)
    assert "recommended beta " in opened.text("#tip")


def test_tables_sort(open_page: Open, report: Path, subject: Subject) -> None:
    opened = open_page(report)
    opened.page.locator("#more > summary").click()
    table = opened.page.locator("#table-rules")
    column = [text.strip() for text in table.locator("thead tr").last.locator("th").all_inner_texts()].index("Max")
    heading = table.locator("thead tr").last.locator("th").nth(column)

    def values() -> list[str]:
        return [str(text) for text in table.locator(f"tbody tr td:nth-child({column + 1})").all_inner_texts()]

    original = values()
    assert len(original) == len(subject.analysis.rules)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(original, key=float) != original
    heading.locator("button").click()
    assert values() == sorted(original, key=float, reverse=True)
    heading.locator("button").click()
    assert values() == original
    names = table.locator("tbody td:first-child")
    table.locator("thead tr").last.locator("button").first.click()
    assert names.all_inner_texts()[:2] == ["Fixed beta=0", "Fixed beta=0.9"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width", "height"), [("desktop", 1280, 900), ("phone", 390, 844)])
def test_fits_the_screen(open_page: Open, report: Path, device: str, width: int, height: int, scheme: str) -> None:
    opened = open_page(report, viewport={"width": width, "height": height}, color_scheme=scheme)
    opened.page.wait_for_selector(".overview svg[role=img]")
    opened.page.locator("#curves summary").click()
    opened.page.wait_for_selector("#curves svg[role=img]")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    cut = opened.page.evaluate(
        """[...document.querySelectorAll('.panel svg text')].filter((node) => {
          const [box, frame] = [node.getBoundingClientRect(), node.closest('svg').getBoundingClientRect()];
          return box.width > 0 && (box.left < frame.left - 1 || box.right > frame.right + 8);  // hidden: no box
        }).map((node) => node.textContent)"""
    )
    assert cut == []
    opened.page.screenshot(path=ARTIFACTS / "report" / f"{device}-{scheme}.png", full_page=True)


def test_big_study_is_small_and_quick(open_page: Open, tmp_path: Path) -> None:
    """11 experiments x 23 runs x 100 evaluations: under 6 MB; the time it takes to open is printed, not asserted."""
    study = write_study(tmp_path / "study", [f"experiment {number}" for number in range(1, 12)], evaluations=100)
    path = folder.write_subject(subject_of(study), tmp_path / "report", "oneclock report study", formats=())
    assert len(list(study.glob("runs/*/*/result.json"))) == 11 * 23
    size = path.stat().st_size
    assert size < 6_000_000
    opened = open_page(path)
    opened.page.wait_for_selector(".overview svg[role=img]")
    timing = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    print(f"page {size / 1e6:.2f} MB, opened in {opened.page.evaluate(timing) / 1000:.2f} s")
    assert opened.said == []
    opened.page.locator("#curves summary").click()
    assert opened.page.locator("#curves svg[role=img]").count() == 11
