"""`oneclock analyse`: what it prints, as JSON and for people."""

import json
import re

import pandas as pd
import pytest

from oneclock.cli import main
from oneclock.rule import Power, Refresh
from oneclock.stats import analyse
from oneclock.stats.verdict import percent


def run(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code, capsys.readouterr()


def test_json_has_the_promised_keys_and_equal_data_give_equal_bytes(tmp_path, sweep_columns, capsys):
    frame = pd.DataFrame(sweep_columns)
    frame.to_csv(tmp_path / "one.csv", index=False)
    frame.sample(frac=1, random_state=1).to_parquet(tmp_path / "two.parquet")
    code, out = run(["analyse", str(tmp_path / "one.csv"), "--json"], capsys)
    assert not code
    assert run(["analyse", str(tmp_path / "two.parquet"), "--json"], capsys)[1].out == out.out
    data = json.loads(out.out)
    assert {"experiments", "rules", "comparisons", "series", "missing"} == set(data)
    for experiment in data["experiments"]:
        assert {"name", "steps", "best", "points", "baselines", "rules", "missing"} <= set(experiment)


def test_the_terminal_shows_every_part(tmp_path, sweep_columns, capsys):
    pd.DataFrame(sweep_columns).assign(experiment=lambda frame: "run[" + frame["experiment"] + "]").to_csv(
        tmp_path / "t.csv", index=False
    )
    code, out = run(["analyse", str(tmp_path / "t.csv"), "--full"], capsys)
    assert not code
    for part in (
        "Recommended beta:",
        "Rules side by side",
        "Rules compared two at a time",
        "Missing",
        "run[e0]",
    ):
        assert part in out.out


def test_a_rule_of_ones_own_stands_beside_the_others(capsys):
    code, out = run(["analyse", "--paper", "--rule", "power:0.1,1", "--rule", "fixed:0.93", "--json"], capsys)
    assert not code
    found = json.loads(out.out)
    rules = {row["name"]: row for row in found["rules"]}
    assert rules["Power alpha=1 c=0.1"]["excesses"] == pytest.approx(rules["paper"]["excesses"], abs=1e-12)
    low, own, high = (rules[f"Fixed beta={beta}"]["excesses"][0] for beta in ("0.9", "0.93", "0.94377"))
    assert min(low, high) < own < max(low, high)  # between its neighbours, and not the worse of them
    pairs = {(one["first"], one["second"]): one for one in found["comparisons"]}
    same = pairs["paper", "Power alpha=1 c=0.1"]
    assert same["difference"] == pytest.approx(0, abs=1e-12)


def test_a_source_and_the_paper_exclude_each_other(tmp_path, capsys):
    for arguments in (["analyse"], ["analyse", str(tmp_path), "--paper"]):
        code, out = run(arguments, capsys)
        assert (code, out.err) == (2, "oneclock: give a table or a study, or --paper, and not both\n")


def test_a_bad_table_is_one_line_and_code_2(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("experiment,beta,min_val_loss\na,2,1\n")
    code, out = run(["analyse", str(tmp_path / "t.csv")], capsys)
    assert (code, out.out) == (2, "")
    assert out.err == "oneclock: t.csv, row 1 has a beta outside [0, 1) (2)\n"


def brief(path, capsys, *options):
    """What the brief form prints of a table, on one line."""
    code, out = run(["analyse", str(path), *options], capsys)
    assert not code
    return " ".join(out.out.split())


def test_the_brief_says_what_each_given_rule_costs_in_one_experiment(tmp_path, make_sweeps, capsys):
    table = tmp_path / "one.csv"
    pd.DataFrame(make_sweeps(horizons=(20_000,), heldout=0)).to_csv(table, index=False)
    text = brief(table, capsys, "--rule", "refresh:300", "--rule", "power:0.02,1", "--rule", "fixed:0.9")
    assert "Refresh R0=300 for 20,000 steps: beta 0.985, interpolated between 0.982 and 0.99, " in text
    assert "Power alpha=1 c=0.02 for 20,000 steps: beta 0.99, " in text
    assert "Fixed beta=0.9 for 20,000 steps: beta 0.9, " in text
    assert "Fixed" not in brief(table, capsys)


def test_a_rule_is_judged_at_the_planned_steps_and_not_at_one_digit_of_them(tmp_path, make_sweeps, capsys):
    table = tmp_path / "one.csv"
    pd.DataFrame(make_sweeps(horizons=(14_000,), heldout=0)).to_csv(table, index=False)
    (result,) = analyse(table).experiments
    paper = next(rule for rule in result.rules if rule.name == "paper")
    assert (result.steps, paper.beta) == (14_000, 1 - 1000 / 14_000)
    assert "The paper's rule for 14,000 steps: beta 0.929" in brief(table, capsys)


def test_the_brief_compares_rules_over_several_experiments(tmp_path, sweep_columns, capsys):
    pd.DataFrame(sweep_columns).to_csv(tmp_path / "t.csv", index=False)
    text = brief(tmp_path / "t.csv", capsys, "--rule", "power:0.0443,0.625")
    analysis = analyse(tmp_path / "t.csv", rules=[Power(0.0443, 0.625)])
    pair = next(one for one in analysis.comparisons if one.second == "Power alpha=0.625 c=0.0443")
    side = "above" if pair.difference >= 0 else "below"
    assert f"{pair.first} ends {percent(abs(pair.difference))} {side} {pair.second} in loss" in text


def test_a_rule_without_a_beta_somewhere_counts_where_it_has_one(sweep_columns):
    analysis = analyse(sweep_columns, rules=[Refresh(15_000), Refresh(900_000)])
    rows = {row.name: row for row in analysis.rules}
    assert rows["Refresh R0=15000"].measured == 2
    assert (rows["Refresh R0=900000"].measured, rows["Refresh R0=900000"].mean) == (0, None)


def test_a_fixed_beta_far_from_all_that_were_swept_is_refused(tmp_path, make_sweeps, capsys):
    pd.DataFrame(make_sweeps(betas=(0.5, 0.9, 0.94377))).to_csv(tmp_path / "t.csv", index=False)
    code, out = run(["analyse", str(tmp_path / "t.csv"), "--rule", "fixed:0.7"], capsys)
    assert code == 2
    (line,) = out.err.splitlines()
    assert "no experiment was swept at beta 0.7" in line
    assert "0.9," in line


def test_the_help_names_every_form_of_a_rule(capsys):
    _, out = run(["analyse", "--help"], capsys)
    words = " ".join(re.sub("[^\\w:,.]", " ", out.out).split())
    assert all(
        form in words for form in ("recommended, paper, refresh:R0", "power:C,ALPHA", "sqrt:DIVISOR", "fixed:BETA")
    )


def test_nothing_is_said_of_a_rules_beta_by_one_that_lies_far_away(tmp_path, make_sweeps, capsys):
    table = tmp_path / "two.csv"
    pd.DataFrame(make_sweeps(horizons=(2_000,), heldout=0, betas=(0.82217, 0.9))).to_csv(table, index=False)
    text = brief(table, capsys)
    assert "The paper's rule for 2,000 steps: beta 0.5, not measured" in text
    assert "Recommended for 2,000 steps: beta 0.86, interpolated between 0.82 and 0.9, " in text
    pd.DataFrame(make_sweeps(horizons=(1_100,), heldout=0, betas=(0.82217,))).to_csv(table, index=False)
    assert "with nothing to compare it with." in brief(table, capsys)


def test_a_gap_measured_far_away_is_a_dash_among_several(tmp_path, make_sweeps, capsys):
    made = make_sweeps(horizons=(2_000_000, 2_000), heldout=0, betas=(0.82217, 0.9))
    pd.DataFrame(made).to_csv(tmp_path / "t.csv", index=False)
    code, out = run(["analyse", str(tmp_path / "t.csv")], capsys)
    assert not code
    lines = out.out.splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("experiment"))
    far, near = lines[head + 1 : head + 3]
    assert far.split()[-1] == "-"
    assert near.split()[-1] != "-"
