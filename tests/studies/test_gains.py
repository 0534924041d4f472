"""What the recommendation is worth, as `oneclock beta` and the README say it, is what the records say."""

import json
from importlib import resources
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneclock.cli import app
from oneclock.gains import gains, gains_near
from oneclock.study.best import at_best_rates

ROOT = Path(__file__).parents[2]


def test_the_file_is_what_the_records_say(made, sweeps, found):
    assert made.text(sweeps, found) == resources.files("oneclock").joinpath("gains.csv").read_text()


def test_what_the_table_compares_has_run_with_three_seeds_or_more(sweeps, found):
    for sweep, result in zip(map(at_best_rates, sweeps), found.experiments, strict=True):
        assert sweep.name == result.name
        ours = next(cost.swept for cost in result.rules if cost.name == "recommended")
        assert len({trial.seed for trial in sweep.tied if trial.beta == ours}) >= 3, sweep.name
        assert min(arm.seeds for arm in result.arms) >= 3, sweep.name


@pytest.mark.parametrize("page", ["README.md", "docs/which-beta.md"])
def test_the_table_of_a_page_is_the_file(made, page):
    assert made.table() in (ROOT / page).read_text()


def test_the_table_of_the_study_is_what_the_records_say(made, found):
    assert made.joint_table(found) in (ROOT / "docs" / "joint.md").read_text()


def test_the_table_of_the_short_study_is_what_its_fresh_seeds_say(made):
    assert made.short_table() in (ROOT / "docs" / "short.md").read_text()


def test_the_table_of_the_brief_study_is_what_its_fresh_seeds_say(made):
    assert made.brief_table() in (ROOT / "docs" / "short.md").read_text()


def test_the_table_of_usual_pairs_is_what_the_laptop_study_says(made):
    assert made.pairs_table() in (ROOT / "docs" / "findings.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/which-beta.md", "docs/short.md"])
def test_what_the_usual_pair_costs_at_300_steps_is_told_alike(page):
    (pair,) = [gain for gain in gains() if gain.trials > 1]
    assert pair.steps == 300
    text = " ".join((ROOT / page).read_text().split())
    assert f"{100 * pair.usual:.1f} %" in text
    assert f"({100 * pair.usual_interval[0]:.1f} to {100 * pair.usual_interval[1]:.1f})" in text


def test_the_command_shows_what_was_measured_at_about_that_length():
    done = CliRunner().invoke(app, ["beta", "300"])
    for gain in gains_near(300):
        assert gain.task in done.output
        assert f"{100 * gain.usual:.1f} %" in done.output
    found = json.loads(CliRunner().invoke(app, ["beta", "300", "--json"]).output)["measured"]
    assert [row["task"] for row in found] == [gain.task for gain in gains_near(300)]


def test_nothing_is_shown_far_from_what_was_measured_or_for_another_rule():
    assert gains_near(5) == ()
    assert "measured" not in CliRunner().invoke(app, ["beta", "5"]).output
    assert "measured" not in CliRunner().invoke(app, ["beta", "300", "--rule", "fixed:0.9"]).output


def test_gaps_are_shares_and_intervals_hold_them():
    for gain in gains():
        assert gain.gap >= 0
        for value, interval in ((gain.gap, gain.gap_interval), (gain.usual, gain.usual_interval)):
            assert -0.5 < value < 0.5
            assert interval is None or interval[0] <= interval[1]
