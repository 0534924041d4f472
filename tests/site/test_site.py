"""The documentation as published: strict and whole, its calculator equal to the package, in a browser offline."""

import random
import re
from typing import Any

import pytest
from opened_page import ARTIFACTS

import oneclock
from oneclock import rule
from oneclock.evidence.model import known_range
from oneclock.steps import count


@pytest.fixture
def calculator(site, open_page):
    return open_page(site / "calculator" / "index.html")


def horizons():
    chosen = random.Random(0)
    drawn = [10 ** chosen.uniform(0, 12) for _ in range(3000)]
    edges = [1, 999, 1000, 1001, 5999, 6000, 6001, 40_000, 1e9]
    return [*edges, *drawn, *(round(value) for value in drawn if value > 1)]


def python_beta(steps, chosen):
    try:
        return rule.beta_for(steps, rule=chosen)
    except ValueError:
        return None


def test_the_reference_has_every_public_name(site):
    page = (site / "api" / "index.html").read_text(encoding="utf-8")
    for name in oneclock.__all__:
        assert re.search(rf'<h2 id="[^"]*\b{name}"', page), name


def test_the_reference_starts_with_the_four_calls_that_most_users_need(site):
    page = (site / "api" / "index.html").read_text(encoding="utf-8")
    names = re.findall(r'<h2 id="oneclock[^"]*\b(\w+)"', page)
    assert "module-attribute" not in page.partition('class="doc doc-object doc-class"')[0], "functions, not modules"
    assert names[:4] == ["recommend", "BalancedAdamW", "advise", "run_sweep"]


def test_no_page_asks_for_anything_outside(site):
    asks = re.compile(r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    for page in site.rglob("*.html"):
        found = [tag for tag in asks.findall(page.read_text(encoding="utf-8")) if 'rel="canonical"' not in tag]
        assert found == [], page


def test_the_calculator_asks_for_its_own_files_only(calculator, site):
    assert calculator.said == []
    assert [url for url in calculator.asked if not url.startswith((site.as_uri(), "data:"))] == []


@pytest.mark.parametrize("chosen", ["recommended", "paper"])
def test_its_rules_are_the_package_s(calculator, chosen):
    steps = horizons()
    answers = calculator.page.evaluate(f"steps => steps.map((one) => oneclock.betaFor(one, oneclock.{chosen}))", steps)
    expected = [python_beta(one, chosen) for one in steps]
    assert [answer is None for answer in answers] == [beta is None for beta in expected]
    assert any(beta is not None for beta in expected)
    # The last bit may differ: a power is the browser's own.
    assert answers == [beta if beta is None else pytest.approx(beta, rel=1e-15, abs=1e-16) for beta in expected]


def test_its_range_is_the_package_s(calculator):
    steps = horizons()
    found = calculator.page.evaluate("steps => steps.map((one) => oneclock.rangeFor(one))", steps)
    for one, (low, high) in zip(steps, found, strict=True):
        expected = known_range(one)
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_its_steps_are_the_package_s(calculator):
    chosen = random.Random(1)
    tokens = [(10 ** chosen.uniform(3, 13), 2 ** chosen.randint(9, 23)) for _ in range(500)]
    answers = calculator.page.evaluate("plans => plans.map((plan) => oneclock.stepsFromTokens(...plan))", tokens)
    assert answers == [oneclock.steps_from_tokens(*plan) for plan in tokens]
    sizes = [
        (chosen.choice([0.5, 3, 7.25, 300]), 10 ** chosen.randint(4, 7) + chosen.randint(0, 99)) for _ in range(500)
    ]
    epochs = [(*size, chosen.randint(1, 2048), chosen.randint(1, 8), chosen.random() < 0.5) for size in sizes]
    answers = calculator.page.evaluate("plans => plans.map((plan) => oneclock.stepsFromEpochs(...plan))", epochs)
    assert answers == [oneclock.steps_from_epochs(*plan) for plan in epochs]


def python_count(text):
    try:
        return count(text)
    except ValueError:
        return None


def test_numbers_are_typed_as_the_command_takes_them(calculator):
    texts = ["20000", "20,000", "20_000", "2e4", "20k", " 2.6B ", "1.5 m", ".5k", "5.", "+3", "-1", "1T", "7g"]
    texts += ["", "k", "2,0", "1,0000", "1 000", "20kk", "e5", ".", "many", "0x10", "inf", "1e400", "--1"]
    answers = calculator.page.evaluate("texts => texts.map((text) => oneclock.typed(text))", texts)
    assert [None if answer != answer else answer for answer in answers] == [python_count(text) for text in texts]


def test_what_one_types_is_answered(calculator):
    assert (calculator.text("#beta"), calculator.text("#memory")) == ("0.952837", "21.2 steps")
    calculator.page.fill("#steps", "2e5")
    assert calculator.text("#beta") == "0.984589"
    for steps in (10, 1_200, 10_000_000):
        calculator.page.fill("#steps", str(steps))
        assert oneclock.recommend(steps).extrapolated == ("extrapolated" in calculator.text("#trust"))
    calculator.page.fill("#steps", "many")
    assert calculator.text("#problem") == "Optimizer steps: a number above 0 is needed"
    assert not calculator.page.locator("#beta").is_visible()
    calculator.page.check("[value=tokens]")
    assert calculator.text("#horizon") == f"{oneclock.steps_from_tokens(2.6e9, 131_072):,}"
    calculator.page.check("[value=epochs]")
    calculator.page.check("#drop-last")
    assert calculator.text("#horizon") == "29,550"


@pytest.mark.parametrize(
    ("place", "steps"), enumerate(["5,000", "600,000", "143,000", "500,000", "1,221", "375,300"], start=1)
)
def test_a_known_training_has_its_published_steps_and_says_where_they_are_from(calculator, place, steps):
    calculator.page.select_option("#preset", index=place)
    assert calculator.text("#horizon") == steps
    assert calculator.page.locator("#source a").get_attribute("href").startswith("https://")
    assert calculator.page.locator("#preset option").count() == 7


def test_presets_and_the_slider_fill_the_form(calculator):
    calculator.page.select_option("#preset", index=3)
    assert calculator.text("#horizon") == "143,000"
    calculator.page.locator("#slide").fill("4")
    assert (calculator.page.input_value("#steps"), calculator.text("#horizon")) == ("10,000", "10,000")
    assert calculator.page.input_value("#preset") == ""
    assert not calculator.page.locator("#source").is_visible()


def test_the_lines_to_paste_hold_the_answer_and_run(calculator):
    import torch

    lines = calculator.page.locator("#paste code").all_text_contents()
    assert len(lines) == 7
    assert all("0.95" in line or "horizon=20000" in line for line in lines)
    model = torch.nn.Linear(2, 1)
    for line in lines[:2]:
        names: dict[str, Any] = {"torch": torch, "oneclock": oneclock, "model": model, "lr": 0.1}
        exec(line, names)
        assert names["optimizer"].param_groups[0]["betas"] == pytest.approx((0.95284, 0.95284), abs=1e-5)


@pytest.mark.parametrize("steps", ["1e9", "1e13"])
def test_a_long_memory_is_never_written_as_one(calculator, steps):
    calculator.page.fill("#steps", steps)
    assert 1 - float(calculator.text("#beta")) == pytest.approx(1 - rule.beta_for(float(steps)), rel=1e-3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width", "height"), [("desk", 1280, 900), ("phone", 390, 844)])
def test_it_fits_the_screen(open_page, site, device, width, height, scheme):
    page = site / "calculator" / "index.html"
    opened = open_page(page, viewport={"width": width, "height": height}, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    opened.page.screenshot(path=ARTIFACTS / "site" / f"calculator-{device}-{scheme}.png", full_page=True)
