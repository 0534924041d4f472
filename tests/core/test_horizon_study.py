"""The useful horizon on real runs that overfit: what the page says of the held-out halves and of the third test."""

import importlib.util
import sys
from pathlib import Path

import pytest

from oneclock.horizon import early_stop
from oneclock.lab.studies.turns import counts

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("horizon_test", ROOT / "scripts" / "horizon_test.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def clear(script):
    runs = script.known_runs(str(ROOT / "studies" / "overfit"), "heldout")
    return [run for run in runs if run.turns is not None]


def test_it_is_nearer_than_every_baseline_at_every_share(script, clear):
    found = script.by_share(clear)
    ours = [score.error for score in found.pop("useful horizon")]
    assert len(found) == 3
    for scores in found.values():
        assert all(mine < theirs.error for mine, theirs in zip(ours, scores, strict=True))
    assert ours[-1] < 1.1


def test_its_interval_covers_and_its_turns_are_real(script, clear):
    whole = script.by_share(clear)["useful horizon"]
    assert all(0.85 <= score.coverage <= 0.95 for score in whole[1:])
    assert 0.85 <= whole[0].coverage <= 0.98  # at 20 % of the plan most intervals reach to its end
    assert all(score.false <= 0.03 for score in whole)
    assert whole[-1].found >= 0.9
    turning = script.by_share([run for run in clear if run.turns])["useful horizon"]
    assert all(score.coverage >= 0.7 for score in turning)


@pytest.mark.parametrize("evaluations", [3, 5, 10, 30, 64])
def test_it_covers_whatever_the_number_of_evaluations(script, clear, evaluations):
    score = script.ours(clear, lambda run: script.thinned(run.curve, evaluations))
    assert 0.85 <= score.coverage <= 0.98


@pytest.fixture(scope="module")
def fresh(script):
    return script.known_runs(str(ROOT / "studies" / "horizon"), "heldout")


@pytest.mark.parametrize("study", ["horizon", "third"])
def test_the_page_states_how_many_fresh_runs_turn(study):
    page = (ROOT / "docs/research/horizon.md").read_text()
    study = ROOT / "studies" / study
    rows = {"all": "heldout"} | {name: name for name in ("constant", "cosine", "linear", "wsd")}
    for name, level in rows.items():
        found = counts(study, "split" if name == "all" else "schedule")
        cells = [found[level, kind] for kind in ("turn", "turn outside", "unclear", "none")]
        assert f"| {name} | {' | '.join(map(str, cells))} |" in page


def test_the_page_states_what_came_out_of_the_fresh_half(script, fresh):
    """At the end of the plan: the first yardstick, where the interval failed, and the second one."""
    page = (ROOT / "docs/research/horizon.md").read_text()
    table = page[page.index("| all 481") :].partition("\n\n")[0]
    rows = {line.split(" | ")[0]: line.split(" | ")[-1] for line in table.splitlines()}
    clear = [run for run in fresh if run.turns is not None]
    first = script.ours(clear, lambda run: run.curve)
    second = script.ours(script.by_second_yardstick(clear), lambda run: run.curve)
    for row, value in (
        ("| useful horizon, typical factor of error", f"{first.error:.2f} |"),
        ("| coverage of our interval", f"{first.coverage:.0%} |".replace("%", " %")),
        ("| coverage, second yardstick", f"{second.coverage:.0%} |".replace("%", " %")),
        ("| turns found", f"{first.found:.0%} |".replace("%", " %")),
        ("| false turns", f"{first.false:.0%} |".replace("%", " %")),
    ):
        assert rows[row] == value
    for method in (lambda run: run.plan, lambda run: early_stop(run.curve, run.plan).stop):
        assert first.error < script._factor([(method(run), run.horizon) for run in clear])


@pytest.fixture(scope="module")
def third(script):
    runs = script.known_runs(str(ROOT / "studies" / "third"), "heldout")
    return [run for run in runs if run.turns is not None]


def _row(page, start, title):
    """The cells of a row of the first table after `start`."""
    table = page[page.index(start) :]
    line = table[table.index(f"| {title} |") :].partition("\n")[0]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def _percents(values):
    return [f"{value:.0%}".replace("%", " %") for value in values]


def test_the_page_states_what_came_out_of_the_third_test(script, third):
    page, second = (ROOT / "docs/research/horizon.md").read_text(), script.by_second_yardstick(third)
    start = f"| all {len(third)} clear runs |"
    found = script.by_share(second)
    ours = found["useful horizon"]
    for title, scores in found.items():
        row = "useful horizon, typical factor of error" if scores is ours else title
        assert _row(page, start, row) == [f"{score.error:.2f}" for score in scores]
    turning = script.by_share([run for run in second if run.turns])["useful horizon"]
    first = script.by_share(third)["useful horizon"]
    for title, values in (
        ("coverage of our interval", [score.coverage for score in ours]),
        ("coverage of the runs that turn", [score.coverage for score in turning]),
        ("coverage, first yardstick", [score.coverage for score in first]),
        ("turns found", [score.found for score in ours]),
        ("false turns", [score.false for score in ours]),
    ):
        assert _row(page, start, title) == _percents(values)
    assert _row(page, start, "Brier score of the forecast") == [f"{score.brier:.2f}" for score in ours]


def test_the_page_states_the_coverage_of_the_third_test_by_the_number_of_evaluations(script, third):
    page = (ROOT / "docs/research/horizon.md").read_text()
    start = "| third test, whole runs, thinned to evaluations |"
    for title, runs in (("coverage now", script.by_second_yardstick(third)), ("now, first yardstick", third)):
        assert _row(page, start, title) == _percents(script.by_count(runs).values())
