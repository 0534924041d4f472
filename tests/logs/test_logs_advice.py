"""Advice: the numbers are the rule's and the curve's own, and never surer than the data."""

import json
import math
import random
from dataclasses import asdict

import pytest

from oneclock import rule
from oneclock.advice.answer import advise
from oneclock.cli import main
from oneclock.horizon import Curve, early_stop, effective_horizon
from oneclock.logs import LoggedRun
from oneclock.logs.arguments import Arguments
from oneclock.study import records


def run(losses, every=500, name="a", **arguments):
    return LoggedRun(name, Curve([every * (i + 1) for i in range(len(losses))], losses), Arguments(**arguments))


def valley(bottom=20, count=40, noise=0.0, seed=0):
    draw = random.Random(seed)
    return [1 + abs(i + 1 - bottom) / 100 + draw.gauss(0, noise) for i in range(count)]


def test_the_numbers_are_the_curves_and_the_rules():
    one = run(valley(), max_steps=20_000, beta1=0.9, beta2=0.999)
    advice = advise([one])
    assert (advice.stop, advice.best) == (12_000, 10_000)
    assert early_stop(one.curve, 20_000).stop == advice.stop
    assert advice.t_es == effective_horizon({0.9: [one.curve]}, 20_000) == 10_000
    assert advice.choice == rule.choose(12_000)
    assert advice.used is not None
    assert (advice.used.refreshes1, advice.used.refreshes2) == (1200, 12)
    assert (advice.used.memory1, advice.used.memory2) == (10, 1000)
    assert advice.low is not None
    assert advice.low <= advice.stop <= advice.high
    assert not advice.doubts
    assert "horizon=12_000" in advice.next


def test_more_noise_is_less_sure():
    widths = []
    for noise in (0.0, 0.03, 0.3):
        found = advise([run(valley(noise=noise), max_steps=20_000)])
        widths.append((found.high or math.inf) - (found.low or 0))
    assert widths[0] <= widths[1] <= widths[2]
    assert widths[0] == 500  # one distance between evaluations
    assert widths[2] > 2000


def test_the_interval_holds_the_stop_of_the_curve_without_noise():
    """Of curves that differ in their noise only, nearly all intervals hold the true stop."""
    held = 0
    for seed in range(40):
        found = advise([run(valley(noise=0.03, seed=seed), max_steps=20_000)])
        held += found.low is not None and found.low <= 12_000 <= (found.high or math.inf)
    assert held >= 34


def test_a_curve_still_improving_has_no_upper_end():
    advice = advise([run([1 / (i + 1) for i in range(40)], max_steps=20_000)])
    assert not advice.ran_out
    assert advice.high is None
    assert any("at least 20,000" in doubt for doubt in advice.doubts)
    assert advice.next.startswith("Train longer")
    longer = advise([run([1 / (i + 1) for i in range(40)], max_steps=20_000)], next_steps=40_000)
    assert longer.choice == rule.choose(40_000)
    assert any("40,000 is not in this log" in doubt for doubt in longer.doubts)


def test_a_longer_plan_does_not_lengthen_a_horizon_that_ended():
    assert advise([run(valley(), max_steps=20_000)], next_steps=50_000).horizon == 12_000
    assert advise([run(valley(), max_steps=20_000)], next_steps=8_000).choice == rule.choose(8_000)


def test_too_few_evaluations_and_a_patience_too_short():
    advice = advise([run([3.0, 2.0, 2.5, 2.4], every=5000, max_steps=20_000)])
    assert (advice.low, advice.high) == (None, None)
    assert any("only 4 evaluations" in doubt for doubt in advice.doubts)
    assert any("shorter than the 5,000 between evaluations" in doubt for doubt in advice.doubts)


def test_outside_the_evidence_it_says_so():
    advice = advise([run(valley(), every=5000, max_steps=200_000)])
    assert any("extrapolates" in doubt for doubt in advice.doubts)


def test_a_horizon_too_short_for_the_rule_is_no_clamp():
    advice = advise([run(valley(), every=10, max_steps=400)])
    assert advice.choice is None
    assert advice.stop == 240
    assert "more than 1,000 useful steps" in advice.next


def test_epochs_have_a_horizon_and_no_beta():
    advice = advise([run(valley(), every=1, epochs=40)], unit="epochs")
    assert (advice.stop, advice.choice, advice.used, advice.budget_from) == (24, None, None, "the log's arguments")
    assert "--steps-per-epoch" in advice.next


def test_seeds_and_betas():
    seeds = [run(valley(bottom), name=str(bottom), beta1=0.9, beta2=0.9) for bottom in (16, 20, 24)]
    advice = advise(seeds, budget=20_000)
    assert advice.stop == 12_000
    assert (advice.low, advice.high) == (9_500, 14_000)
    assert any("from 10,000 to 14,000" in doubt for doubt in advice.doubts)
    worse = [run([loss + 5 for loss in valley(4)], beta1=0.5, beta2=0.5)]
    other = [run(valley(30), beta1=0.95, beta2=0.95)]
    several = advise([*seeds, *worse, *other], budget=20_000)
    assert several.stop == (12_000 + 17_000) / 2
    assert several.used is None
    assert any("two with the lowest loss" in doubt for doubt in several.doubts)


def test_divergence_and_other_optimizers_are_doubts():
    advice = advise([run([*valley(), math.nan], max_steps=20_500, optimizer="adafactor")])
    assert any("not finite" in doubt for doubt in advice.doubts)
    assert any("'adafactor'" in doubt for doubt in advice.doubts)


@pytest.fixture
def log(tmp_path):
    identity = records.Identity("known", beta=(0.9, 0.95), seed=1, budget=20_000)
    folder = records.Run.start(tmp_path / "run", identity)
    for step, loss in enumerate(valley(), start=1):
        folder.log(500 * step, val_loss=loss)
    return folder.path


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["advise", *map(str, arguments)])
    return end.value.code, *capsys.readouterr()


def test_the_command_in_words_and_in_json(log, capsys):
    code, words, _ = printed(capsys, log)
    assert code in (0, None)
    for part in ("12,000 steps", "best at 10,000", "0.91667", "0.9, the same from 7,199 to 12,802", "1,200 refreshes"):
        assert part in words
    code, text, _ = printed(capsys, log, "--json", "--next-steps", 9000)
    value = json.loads(text)
    assert code in (0, None)
    assert value["choice"] == {**asdict(rule.choose(9000)), "notes": []}
    assert value["logs"][0]["format"] == "oneclock record"
    assert value["used"]["refreshes2"] == 600


def test_the_command_complains_in_one_line(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("step,val_loss\n1,2\n")
    for arguments in (
        [tmp_path / "missing"],
        [tmp_path / "log.csv", "--metric", "other"],
        [tmp_path / "log.csv", "--budget", "-5"],
        [tmp_path / "log.csv", "--next-steps", "0"],
        [tmp_path / "log.csv", "--steps-per-epoch", "0"],
    ):
        code, out, error = printed(capsys, *arguments)
        assert (code, out, error.count("\n")) == (2, "", 1)
