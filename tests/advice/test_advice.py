"""Advice: the numbers are the rule's and the curve's own, and never surer than the data."""

import html
import io
import json
import math
import random
import sys

import pytest

from oneclock import rule
from oneclock.advice import advise
from oneclock.advice import words as words_of
from oneclock.answers import choose, recommend
from oneclock.cli import main
from oneclock.horizon import Curve, early_stop, effective_horizon
from oneclock.logs import Log, LoggedRun
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
    assert advice.beta == rule.beta_for(12_000) == advice.paper_beta
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
    assert longer.beta == rule.beta_for(40_000)
    assert any("40,000 is not in this log" in doubt for doubt in longer.doubts)


def test_a_longer_plan_does_not_lengthen_a_horizon_that_ended():
    assert advise([run(valley(), max_steps=20_000)], next_steps=50_000).horizon == 12_000
    assert advise([run(valley(), max_steps=20_000)], next_steps=8_000).beta == rule.beta_for(8_000)


def test_too_few_evaluations_and_a_patience_too_short():
    advice = advise([run([3.0, 2.0, 2.5, 2.4], every=5000, max_steps=20_000)])
    assert (advice.low, advice.high) == (None, None)
    assert any("only 4 evaluations" in doubt for doubt in advice.doubts)
    assert any("shorter than the 5,000 between evaluations" in doubt for doubt in advice.doubts)


@pytest.mark.parametrize("every", [50, 5000])
def test_outside_the_evidence_it_is_as_sure_as_the_answer_for_that_horizon(every):
    one = run(valley(), every=every, max_steps=40 * every)
    assert advise(one).doubts == (recommend(24 * every).sure,)
    assert advise(one, rule="paper").doubts == choose(24 * every).notes != ()
    assert advise(one, refreshes=300).doubts == choose(24 * every, 300).notes
    assert ("extrapolates" in advise(one).doubts[0]) == (every == 5000)


def test_a_short_horizon_has_a_beta_and_the_papers_rule_stands_beside_it():
    advice = advise([run(valley(), every=10, max_steps=400)])
    assert (advice.stop, advice.beta, advice.paper_beta) == (240, rule.beta_for(240), None)
    assert "none: the paper's rule needs more than 1,000 steps" in str(advice)
    assert "horizon=240" in advice.next
    middle = advise([run(valley(), every=100, max_steps=4000)])
    assert middle.paper_beta == rule.refresh_beta(2400) != middle.beta
    assert f"{middle.paper_beta:.4g} by the paper's own rule (--rule paper)" in str(middle)


def test_rule_and_refreshes_are_the_persons():
    one = run(valley(), every=100, max_steps=4000, lr=3e-4)
    assert advise(one, rule="paper").beta == rule.refresh_beta(2400)
    assert advise(one, rule="paper").rule == "the paper's rule"
    assert 'lr=0.0003, horizon=2_400, rule="paper"), which is beta 0.5833' in advise(one, rule="paper").next
    few = advise(one, refreshes=300)
    assert few.beta == 1 - 300 / 2400
    assert few.next == "Use BalancedAdamW(model.parameters(), lr=0.0003, beta=0.875)."
    short = advise(run(valley(), every=10, max_steps=400), rule="paper")
    assert short.beta is None
    assert "leave --rule and --refreshes out" in short.doubts[0]
    with pytest.raises(ValueError, match="not both"):
        advise(one, rule="paper", refreshes=300)


@pytest.mark.parametrize("unit", ["epochs", "tokens", "samples", "evaluations"])
def test_what_are_not_steps_have_a_horizon_and_no_beta(unit):
    one = run(valley(), every=1, epochs=40)
    log = Log("log.csv", "CSV", "val_loss", ("val_loss",), unit, (unit,), unit, (one,), ())
    advice = advise(log)
    assert (advice.stop, advice.beta, advice.paper_beta, advice.used) == (24, None, None, None)
    assert "add --" in advice.next
    with pytest.raises(ValueError, match="count different things"):
        advise([log, one])


def test_it_shows_itself_in_a_notebook_and_printed():
    log = Log("a<b>.csv", "CSV", "val_\x1b[2Jloss", ("val_loss",), "step", ("step",), "steps", (run(valley()),), ())
    advice = advise(log, budget=20_000)
    assert "a&lt;b&gt;.csv" in advice._repr_html_()
    assert html.escape(advice.next) in advice._repr_html_()
    for words in (str(advice), advice._repr_html_(), words_of.in_brief(advice)):
        assert "\x1b" not in words
        assert html.escape(advice.next) in words or advice.next in words


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


def test_what_is_pasted_has_whole_steps():
    seeds = [run(valley(bottom), name=str(bottom)) for bottom in (19, 20, 20)]
    advice = advise(seeds, budget=20_000)
    assert advice.horizon == 11_833.333
    assert f"horizon=11_833), which is beta {rule.beta_for(11_833):.5g}" in advice.next


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
    for part in ("12,000 steps", "best at 10,000", "0.91667", "by the recommendation", "1,200 refreshes"):
        assert part in words
    code, text, _ = printed(capsys, log, "--json", "--next-steps", 9000)
    value = json.loads(text)
    assert code in (0, None)
    assert (value["beta"], value["paper_beta"]) == (rule.beta_for(9000), rule.refresh_beta(9000))
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


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("", [], "standard input is no log that can be read; it seems to be an empty file"),
        ("step,val_loss\n1,nan\n2,inf\n", [], "'val_loss' has no finite value, all of them are NaN or infinite\n"),
        ("step,val_loss,b_loss\n1,nan,3\n2,inf,3\n", [], "are NaN or infinite; name another of: 'b_loss'\n"),
        ("step,val_loss\n-1,2\n-2,3\n", [], "what it logged (2 values) lies at negative or impossible steps"),
        ("step,val_loss\n-1,2\n-2,3\n", ["--metric", "val_loss"], "(2 values) lies at negative or impossible"),
    ],
)
def test_a_complaint_says_why(capsys, monkeypatch, text, more, words):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, error = printed(capsys, "-", *more)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("oneclock: standard input")
    assert words in error


@pytest.mark.parametrize(
    ("column", "option", "counts"),
    [
        ("step", "--steps-per-epoch", "steps"),
        ("tokens", "--steps-per-epoch", "tokens"),
        ("epoch", "--tokens-per-step", "epochs"),
        ("epoch", "--steps-per-epoch", None),
        ("tokens", "--tokens-per-step", None),
    ],
)
def test_an_option_that_says_nothing_of_the_log_is_told(tmp_path, capsys, column, option, counts):
    (tmp_path / "log.csv").write_text(f"{column},val_loss\n" + "".join(f"{i},{abs(i - 9)}\n" for i in range(1, 20)))
    _, words, _ = printed(capsys, tmp_path / "log.csv", option, "5")
    told = f"{option.strip('-').replace('-', ' ')} were given and not needed: this log counts {counts}"
    assert (told in words) if counts else ("not needed" not in words)


def test_numbers_as_people_type_them(log, capsys):
    texts = {
        printed(capsys, log, "--budget", text, "--json")[1] for text in ("20000", "20k", "20,000", "2e4", "20_000")
    }
    assert len(texts) == 1
    assert json.loads(texts.pop())["budget"] == 20_000
    code, _, error = printed(capsys, log, "--budget", "20q")
    assert (code, error.count("\n")) == (2, 1)
    assert "type it as 20000" in error


def test_standard_input(log, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((log / "curve.jsonl").read_bytes())))
    code, words, _ = printed(capsys, "-", "--budget", "20k")
    assert code in (0, None)
    assert words.startswith("log       standard input: JSON lines, val_loss over step")
    assert "12,000 steps" in words


def test_what_is_advised_can_be_typed(tmp_path, capsys):
    """Every option that an answer names is one of the command, or of the sweep that it names."""
    (tmp_path / "epochs.csv").write_text("epoch,val_loss\n" + "".join(f"{i},{abs(i - 9)}\n" for i in range(20)))
    for command in ("advise", "sweep"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
    options = capsys.readouterr().out
    for arguments in ([], ["--steps-per-epoch", "10"], ["--steps-per-epoch", "10", "--rule", "paper"]):
        _, words, _ = printed(capsys, tmp_path / "epochs.csv", *arguments)
        named = {word.strip(".,();:") for word in words.split() if word.startswith(("--", "(--"))}
        assert named or "horizon=" in words
        assert all(option.strip("()") in options for option in named)
