"""The page of one model, as it opens: the answer and its picture on the first screen, and what the picture tells."""

from collections.abc import Callable
from pathlib import Path

import pytest
from opened_page import ARTIFACTS, Opened
from report_studies import write_run, write_study

from oneclock.report import folder
from oneclock.report.folder import subject_of

Open = Callable[..., Opened]
BETAS = (0.684, 0.822, 0.9, 0.944, 0.968, 0.982, 0.99)


@pytest.fixture(scope="session")
def one_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of one experiment: seven betas, three of them with three seeds, and the two usual pairs."""
    place = tmp_path_factory.mktemp("one-model")
    study = write_study(place / "mystudy", ["mine"], BETAS, repeats=3)
    for seed in (1, 2, 3):
        for pair in ((0.9, 0.999), (0.9, 0.95)):
            write_run(study, "mine", pair, seed)
    return folder.write_subject(subject_of(study), place / "report", "oneclock report mystudy", formats=())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_first_screen_holds_the_answer_and_the_picture(
    open_page: Open, one_model: Path, width: int, height: int, scheme: str
) -> None:
    opened = open_page(one_model, viewport={"width": width, "height": height}, color_scheme=scheme)
    opened.page.wait_for_selector(".first svg[role=img]")
    assert "Best beta" in opened.text(".first .best")
    for selector in (".first .best", ".first svg[role=img]"):
        box = opened.page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert opened.said == []
    (ARTIFACTS / "report").mkdir(parents=True, exist_ok=True)
    opened.page.screenshot(path=ARTIFACTS / "report" / f"first-{width}-{scheme}.png")


def test_one_seed_and_several_are_told_apart(open_page: Open, one_model: Path) -> None:
    opened = open_page(one_model)
    opened.page.wait_for_selector(".first svg[role=img]")
    assert opened.page.locator('.first svg[role=img] path[d^="M-3.4 0A"]').count() == len(BETAS) - 3
    assert opened.page.locator(".first .legend button", has_text="one seed").count() == 1


def test_the_valley_has_an_axis_in_steps_of_memory(open_page: Open, one_model: Path) -> None:
    opened = open_page(one_model)
    opened.page.wait_for_selector(".first svg[role=img]")
    shown = opened.page.locator(".first svg[role=img] .beyond").all_text_contents()
    assert {"10", "100"} <= set(shown)


def test_a_phone_shows_that_tables_scroll(open_page: Open, one_model: Path) -> None:
    opened = open_page(one_model, viewport={"width": 390, "height": 844})
    opened.page.locator("#more > summary").click()
    wide = opened.page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth)"
        ".map((box) => getComputedStyle(box).backgroundImage.split('linear-gradient').length - 1)"
    )
    assert wide
    assert set(wide) == {4}  # two shadows at the edges, and two covers that scroll away from them
