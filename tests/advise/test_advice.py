"""Advice: the numbers are the rule's and the curve's own, and never surer than the data."""

import html
import io
import json
import math
import random
import sys
from pathlib import Path

import pytest

from oneclock.advise import advise
from oneclock.advise import words as words_of
from oneclock.cli import main
from oneclock.horizon import SHAPES, Curve, early_stop, effective_horizon, useful_horizon
from oneclock.logs import Log, LoggedRun
from oneclock.logs.arguments import Arguments
from oneclock.recommend import format_beta, recommend, short_beta
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.table import read_source


def run(losses, every=500, name="a", **arguments):
    return LoggedRun(name, Curve([every * (i + 1) for i in range(len(losses))], losses), Arguments(**arguments))


def valley(bottom=20, count=40, noise=0.0, seed=0):
    draw = random.Random(seed)
    return [1 + abs(i + 1 - bottom) / 100 + draw.gauss(0, noise) for i in range(count)]


def test_the_numbers_are_the_curves_and_the_rules():
    one = run(valley(), max_steps=20_000, beta1=0.9, beta2=0.999)
    advice = advise([one])
    found = useful_horizon(one.curve, 20_000)
    assert advice.turned
    assert (advice.useful, advice.low, advice.high) == (found.steps, found.low, found.high)
    assert advice.low <= 10_000 <= advice.high
    assert advice.beta == recommend(advice.useful).beta
    assert (advice.beta_low, advice.beta_high) == (recommend(advice.low).beta, recommend(advice.high).beta)
    assert advice.used is not None
    assert advice.used.refreshes2 == pytest.approx(advice.useful / 1000)
    assert (advice.used.memory1, advice.used.memory2) == (10, 1000)
    assert not advice.doubts
    assert f"horizon={advice.useful:_}" in advice.next


def test_the_papers_early_stop_stands_beside_it_by_its_definition():
    one = run(valley(), max_steps=20_000)
    paper = advise([one]).paper
    stop = early_stop(one.curve, 20_000)
    assert (paper.stop, paper.best, paper.ran_out) == (stop.stop, stop.best, True) == (12_000, 10_000, True)
    assert paper.t_es == effective_horizon({0.9: [one.curve]}, 20_000) == 10_000
    assert paper.better_later == 0
    assert "later evaluation was better" not in str(advise([one]))


def test_a_false_early_stop_is_named_and_not_followed():
    """One noisy evaluation ends the paper's early stop; the loss is lowest at the end."""
    losses = [1.0, 0.9, 0.95, 0.85, 0.8, 0.76, 0.74, 0.7, 0.68, 0.66]
    advice = advise(run(losses, every=1000, max_steps=10_000))
    assert (advice.useful, advice.turned) == (10_000, False)
    assert (advice.paper.stop, advice.paper.better_later) == (3000, 1)
    assert "a later evaluation was better" in " ".join(str(advice).split())


def test_more_noise_is_less_sure():
    widths = []
    for noise in (0.0, 0.03, 0.3):
        found = advise([run(valley(noise=noise), max_steps=20_000)])
        widths.append(found.high - found.low)
    assert widths[0] < widths[1] < 8000 < widths[2]


def test_a_curve_still_improving_is_useful_to_the_end():
    falling = run([1 / (i + 1) for i in range(40)], max_steps=20_000)
    advice = advise(falling)
    assert (advice.turned, advice.useful, advice.high) == (False, 20_000, 20_000)
    assert advice.stays > 0.8
    longer = advise(falling, next_steps=40_000)
    assert longer.beta == recommend(40_000).beta
    assert any("40,000 is not in this log" in doubt for doubt in longer.doubts)


def test_a_run_under_way_gets_a_forecast_of_its_plan():
    advice = advise(run([1 / (i + 1) for i in range(8)], max_steps=20_000))
    assert (advice.finished, advice.turned, advice.useful) == (False, False, 20_000)
    assert 0.3 < advice.stays < 1
    assert 0 < advice.turn < 20_000
    assert str(advice).startswith("After 4,000 of 20,000 steps")
    assert advise(run(valley(), max_steps=40_000)).turned  # a turn that is confirmed half way


def test_a_longer_plan_does_not_lengthen_a_horizon_that_ended():
    one = run(valley(), max_steps=20_000)
    assert advise(one, next_steps=50_000).horizon == advise(one).useful
    assert advise(one, next_steps=8_000).beta == recommend(8_000).beta


def test_too_few_evaluations_say_so():
    advice = advise([run([3.0, 2.0, 2.5, 2.4], every=5000, max_steps=20_000)])
    assert (advice.useful, advice.turned) == (20_000, False)
    assert advice.low <= 10_000
    assert any("only 4 evaluations" in doubt for doubt in advice.doubts)


@pytest.mark.parametrize("every", [1, 1_000_000])
def test_outside_the_evidence_it_is_as_sure_as_the_answer_for_that_horizon(every):
    one = run(valley(), every=every, max_steps=40 * every)
    for rule in (None, "paper", "refresh:300"):
        if every > 1 or rule is None:
            advice = advise(one, rule=rule)
            assert advice.doubts == recommend(advice.horizon, rule).notes != ()


def test_a_short_horizon_has_a_beta_and_the_papers_rule_stands_beside_it():
    advice = advise([run(valley(), every=10, max_steps=400)])
    assert (advice.beta, advice.paper_beta) == (recommend(advice.useful).beta, None)
    assert "none up to 1,000 steps" in " ".join(str(advice).split())
    middle = advise([run(valley(), every=100, max_steps=4000)])
    assert middle.paper_beta == recommend(middle.useful, "paper").beta != middle.beta
    assert "(--rule paper)" in str(middle)


def test_the_rule_is_the_persons():
    one = run(valley(), every=100, max_steps=4000, lr=3e-4)
    paper = advise(one, rule="paper")
    assert (paper.beta, paper.rule) == (recommend(paper.useful, "paper").beta, "paper")
    assert f'lr=0.0003, horizon={paper.useful:_}, rule="paper")' in paper.next
    few = advise(one, rule="refresh:300")
    assert few.beta == 1 - 300 / few.useful
    assert few.next == f"BalancedAdamW(model.parameters(), lr=0.0003, beta={format_beta(few.beta)})"
    short = advise(run(valley(), every=10, max_steps=400), rule="paper")
    assert short.beta is None
    assert "leave --rule out" in short.doubts[0]


@pytest.mark.parametrize("unit", ["epochs", "tokens", "samples", "evaluations"])
def test_what_are_not_steps_have_a_horizon_and_no_beta(unit):
    one = run(valley(), every=1, epochs=40)
    log = Log("log.csv", "CSV", "val_loss", ("val_loss",), unit, (unit,), unit, (one,), ())
    advice = advise(log)
    assert (advice.turned, advice.beta, advice.paper_beta, advice.used) == (True, None, None, None)
    assert advice.useful == pytest.approx(20, abs=1)
    assert "add --" in advice.next
    with pytest.raises(ValueError, match="count different things"):
        advise([log, one])


def test_the_answer_stands_in_the_first_two_lines_at_80_columns():
    log = Log("a.csv", "CSV", "val_loss", ("val_loss", "x"), "step", ("step",), "steps", (run(valley()),), ("odd",))
    for advice in (advise(log, budget=20_000), advise(log, budget=90_000), advise(log, budget=20_000, rule="paper")):
        lines = str(advice).splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0].startswith("Useful for ")
        assert lines[1].startswith("Beta 0.")
        assert lines[-1] == advice.next
        assert repr(advice) == str(advice)


@pytest.mark.parametrize("every", [1, 100, 10_000])
def test_a_forecast_too_has_its_answer_in_two_lines(every):
    """A turn is likely but not confirmed, or one of two runs turned: the longest sentences."""
    plan = 60 * every
    likely = advise(run([*valley(20, 20), 1.02, 1.04, 1.05], every=every, max_steps=plan))
    mixed = advise(
        [run(valley(), every=every), run([1 / (at + 1) for at in range(40)], every=every)], budget=40 * every
    )
    for advice in (likely, mixed):
        lines = str(advice).splitlines()
        assert lines[2] == ""
        assert max(map(len, lines)) <= 80


def test_it_says_how_little_beta_moves_across_the_interval():
    advice = advise(run(valley(noise=0.1), max_steps=20_000))
    assert advice.high / advice.low > 1.1
    low, high = (short_beta(beta) for beta in (advice.beta_low, advice.beta_high))
    assert f"{low} to {high} across the interval" in str(advice)


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
    assert advice.turned
    assert advice.useful == pytest.approx(10_000, rel=0.03)
    assert advice.low < 8_000 < 12_000 < advice.high
    assert any("3 of 3 turned" in doubt for doubt in advice.doubts)
    worse = [run([loss + 5 for loss in valley(4)], beta1=0.5, beta2=0.5)]
    other = [run(valley(30), beta1=0.95, beta2=0.95)]
    several = advise([*seeds, *worse, *other], budget=20_000)
    assert several.useful == pytest.approx(11_250, rel=0.03)  # a mean over the four runs that count
    assert several.used is None
    assert any("two betas with the lowest loss" in doubt for doubt in several.doubts)
    mixed = advise([seeds[0], run([1 / (i + 1) for i in range(40)])], budget=20_000)
    assert (mixed.turned, mixed.high) == (False, 20_000)
    assert "not all runs turned" in str(mixed)


def test_runs_that_turn_at_one_step_are_not_between_two():
    (doubt,) = (
        doubt for doubt in advise([run(valley()), run([2.0 - i / 100 for i in range(40)])]).doubts if "1 of 2" in doubt
    )
    assert ", at " in doubt


def test_a_log_beyond_its_plan_says_nothing_of_steps_that_were_seen():
    doubts = advise([run([2.0 - i / 100 for i in range(40)], max_steps=10_000)]).doubts
    assert any("beyond its plan" in doubt for doubt in doubts)
    assert not any("next run stays useful" in doubt for doubt in doubts)


def test_what_is_pasted_has_whole_steps():
    seeds = [run(valley(bottom), name=str(bottom)) for bottom in (19, 20, 20)]
    advice = advise(seeds, budget=20_000)
    assert f"horizon={round(advice.horizon):_})" in advice.next


def test_divergence_and_other_optimizers_are_doubts():
    advice = advise([run([*valley(), math.nan], max_steps=20_500, optimizer="adafactor")])
    assert any("diverged" in doubt for doubt in advice.doubts)
    assert any("'adafactor'" in doubt for doubt in advice.doubts)


def test_a_resumed_run_with_overlapping_steps_is_read_once(tmp_path):
    """Steps 8,500 to 10,000 were logged, the run was killed, and resumed from 8,000 with other losses."""
    lines = [(500 * (i + 1), loss) for i, loss in enumerate(valley(count=20))]
    again = [(500 * (i + 1), loss) for i, loss in enumerate(valley(noise=0.001, seed=1)) if i >= 16]
    path = tmp_path / "log.csv"
    path.write_text("step,val_loss\n" + "".join(f"{step},{loss}\n" for step, loss in [*lines, *again]))
    advice = advise(path, budget=20_000)
    assert advice.turned
    assert advice.low <= 10_000 <= advice.high
    assert any("step" in warning for warning in advice.logs[0].warnings)  # the repeated steps are said


def test_an_accuracy_in_a_log_turns_where_it_is_highest(tmp_path):
    path = tmp_path / "log.csv"
    rows = (f"{500 * (i + 1)},{2 - loss}\n" for i, loss in enumerate(valley(noise=0.003)))
    path.write_text("step,val_accuracy\n" + "".join(rows))
    advice = advise(path, budget=20_000, metric="val_accuracy")
    assert advice.turned
    assert advice.low <= 10_000 <= advice.high


@pytest.fixture
def log(tmp_path):
    identity = RunKey("known", beta=(0.9, 0.95), seed=1, budget=20_000)
    folder = RunFolder.start(tmp_path / "run", identity)
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
    for part in ("of 20,000 steps", "at 10,000", "early stop: 12,000", "Beta 0.935", "beta2 0.95"):
        assert part in words
    code, text, _ = printed(capsys, log, "--json", "--next-steps", 9000)
    value = json.loads(text)
    assert code in (0, None)
    assert (value["beta"], value["paper_beta"]) == (recommend(9000).beta, recommend(9000, "paper").beta)
    assert value["logs"][0]["format"] == "oneclock record"
    assert value["paper"]["stop"] == 12_000
    assert value["turned"] is True


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
        ("", [], "standard input is not a log that can be read; it seems to be an empty file"),
        ("step,val_loss\n1,nan\n2,inf\n", [], "'val_loss' has no finite value, all of them are NaN or infinite\n"),
        ("step,val_loss,b_loss\n1,nan,3\n2,inf,3\n", [], "are NaN or infinite; name another of: 'b_loss'\n"),
        ("step,val_loss\n-1,2\n-2,3\n", [], "its 2 values are at negative or impossible steps"),
        ("step,val_loss\n-1,2\n-2,3\n", ["--metric", "val_loss"], "its 2 values are at negative or impossible steps"),
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
    assert json.loads(texts.pop())["plan"] == 20_000
    code, _, error = printed(capsys, log, "--budget", "20q")
    assert (code, error.count("\n")) == (2, 1)
    assert "type it as 20000" in error
    assert "Value error" not in error
    code, _, error = printed(capsys, log, "--budget", "20.000")
    assert code == 2
    assert "may mean 20000 or 20" in error


def test_standard_input(log, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((log / "curve.jsonl").read_bytes())))
    code, words, _ = printed(capsys, "-", "--budget", "20k")
    assert code in (0, None)
    assert "log       standard input: JSON lines, val_loss over step" in words
    assert "of 20,000 steps" in words


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


def log_with_rates(folder, shape, count=40, plan=40):
    """A falling validation loss with the learning rate beside it, up to `count` of `plan` evaluations."""
    rows = [f"{100 * at},{1 / at + 1:.4f},{3e-4 * shape(at / plan):.3e}\n" for at in range(1, count + 1)]
    path = folder / "log.csv"
    path.write_text("step,val_loss,lr\n" + "".join(rows))
    return path


@pytest.mark.parametrize("name", ["constant", "cosine", "linear"])
def test_the_schedule_comes_from_the_learning_rates_of_the_log(tmp_path, name):
    advice = advise(log_with_rates(tmp_path, SHAPES[name], count=30), budget=4000)
    assert advice.schedule == name
    assert f"learning rate {name}" in " ".join(str(advice).split())
    assert advice.stays == useful_horizon(advice.logs[0].curves[0], 4000, name).stays


def test_a_schedule_that_is_given_counts_more_than_the_log(tmp_path):
    path = log_with_rates(tmp_path, SHAPES["constant"], count=20)
    assert advise(path, budget=4000, schedule="wsd").schedule == "wsd"
    assert advise(path, budget=4000).stays < advise(path, budget=4000, schedule="cosine").stays
    with pytest.raises(ValueError, match="the schedule must be one of"):
        advise(path, schedule="restarts")


def test_without_a_learning_rate_in_the_log_no_schedule_is_assumed():
    assert advise(run([1 / (i + 1) for i in range(8)], max_steps=20_000, lr=3e-4)).schedule is None


def test_a_run_that_was_resumed_counts_its_last_values(tmp_path):
    """The second start repeats the steps from 1,100 on; the first one was useful until then, this one to step 1,400."""
    falling = [(100 * at, 1 / at + 1 + (at > 10) * at / 20) for at in range(1, 15)]
    turning = [(100 * at, 1 / at + 1 + max(at - 14, 0) / 20) for at in range(11, 41)]
    path = tmp_path / "log.csv"
    path.write_text("step,val_loss\n" + "".join(f"{step},{loss:.4f}\n" for step, loss in falling + turning))
    advice = advise(path, budget=4000)
    assert advice.turned
    assert 1000 < advice.low <= 1400 <= advice.high < 1600
    assert "as after a resume" in " ".join(advice.logs[0].warnings)


def test_the_study_of_vision_models_that_ends_at_its_lowest_loss_is_useful_to_the_end():
    """studies/fashion, vit-fashion-10000 with beta 0.94377 and seed 1: the paper's early stop ended it too early."""
    study = Path(__file__).parents[2] / "studies" / "fashion"
    (sweep,) = [sweep for sweep in read_source(str(study)).sweeps if sweep.name == "vit-fashion-10000"]
    (one,) = [one for one in sweep.tied if one.beta == 0.94377 and one.seed == 1]
    advice = advise(one.val, budget=sweep.budget)
    assert (advice.turned, advice.useful, advice.high) == (False, sweep.budget, sweep.budget)
