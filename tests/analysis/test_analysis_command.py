"""`oneclock analyse`: what it prints, as JSON and for people."""

import json
import re

import pandas as pd
import pytest

from oneclock.analysis import analyse
from oneclock.cli import main
from oneclock.rule import Power


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
    assert {"experiments", "summary", "calibration", "robustness", "arena"} <= set(data)
    for experiment in data["experiments"]:
        assert {"name", "split", "budget", "t_es", "oracle_beta", "selected_beta", "gaps"} <= set(experiment)


def test_the_terminal_shows_every_part(tmp_path, sweep_columns, capsys):
    pd.DataFrame(sweep_columns).assign(experiment=lambda frame: "run[" + frame["experiment"] + "]").to_csv(
        tmp_path / "t.csv", index=False
    )
    code, out = run(["analyse", str(tmp_path / "t.csv"), "--full"], capsys)
    assert not code
    for part in (
        "What is recommended",
        "Betas selected",
        "Sweep over R0",
        "Rules side by side",
        "T_ES by both",
        "Calibration",
        "run[e0]",
    ):
        assert part in out.out


def test_a_rule_of_ones_own_stands_beside_the_others(capsys):
    code, out = run(["analyse", "--paper", "--rule", "power:0.1,1", "--rule", "fixed:0.94377", "--json"], capsys)
    assert not code
    found = json.loads(out.out)
    arena = {row["name"]: row for row in found["arena"]}
    assert arena["Power alpha=1 c=0.1, given"]["gaps"] == arena["Refresh R0=1000"]["gaps"]
    assert arena["Fixed beta=0.94377, given"]["gaps"] == arena["Fixed beta=0.94377"]["gaps"]
    given = {(one["first"], one["second"], one["figure"]): one for one in found["summary"]["given"]}
    assert len(given) == 3 * 3
    assert given["Power alpha=1 c=0.1", "Refresh R0=1000", "mean"]["difference"] == 0
    fixed, refresh = (arena[name]["all"]["max"]["value"] for name in ("Fixed beta=0.94377", "Refresh R0=1000"))
    against = given["Fixed beta=0.94377", "Refresh R0=1000", "max"]
    assert against["difference"] == pytest.approx(fixed - refresh)
    assert not against["told_apart"]
    (line,) = (line for line in found["summary"]["verdict"] if line.startswith("Fixed beta=0.94377 against Refresh"))
    assert line.endswith("percentage points, not told apart.")


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
    text = brief(table, capsys, "--rule", "power:0.02,1", "--rule", "fixed:0.9", "--refreshes", "300")
    assert "Refresh R0=300 for 20,000 steps: 0.985, measured at 0.98222, " in text
    assert "Power alpha=1 c=0.02 for 20,000 steps: 0.99, " in text
    assert "Fixed beta=0.9 for 20,000 steps: 0.9, " in text
    assert "Fixed" not in brief(table, capsys)


def test_the_brief_says_the_mean_and_the_largest_gap_of_a_rule_over_several(tmp_path, sweep_columns, capsys):
    pd.DataFrame(sweep_columns).to_csv(tmp_path / "t.csv", index=False)
    text = brief(tmp_path / "t.csv", capsys, "--rule", "power:0.0443,0.625")
    (told,) = re.findall(r"Power alpha=0.625 c=0.0443: mean gap (.*?), largest (.*?), .*? over 3 experiments", text)
    analysis = analyse(tmp_path / "t.csv", rules=[Power(0.0443, 0.625)])
    (row,) = analysis.summary.rules
    assert [figure.split()[0] for figure in told] == [
        f"{100 * row.all.mean.value:.3f}",
        f"{100 * row.all.max.value:.3f}",
    ]


def test_a_rule_without_a_beta_somewhere_is_said_to_have_none(tmp_path, sweep_columns, capsys):
    pd.DataFrame(sweep_columns).to_csv(tmp_path / "t.csv", index=False)
    text = brief(tmp_path / "t.csv", capsys, "--rule", "refresh:15000", "--rule", "refresh:900000")
    assert "Refresh R0=15000 has no beta, or none that was swept, in 1 experiment." in text
    assert "Refresh R0=900000 has no beta, or none that was swept, in 3 experiments." in text


def test_a_fixed_beta_that_was_not_swept_is_refused(tmp_path, sweep_columns, capsys):
    pd.DataFrame(sweep_columns).to_csv(tmp_path / "t.csv", index=False)
    code, out = run(["analyse", str(tmp_path / "t.csv"), "--rule", "fixed:0.91"], capsys)
    assert code == 2
    (line,) = out.err.splitlines()
    assert "no experiment was swept at beta 0.91" in line
    assert "0.9," in line


def test_the_help_names_every_form_of_a_rule(capsys):
    _, out = run(["analyse", "--help"], capsys)
    words = " ".join(re.sub("[^\\w:,.]", " ", out.out).split())
    assert all(form in words for form in ("recommended, paper, refresh:R0", "power:C,ALPHA", "bent:KNEE", "fixed:BETA"))


def test_nothing_is_said_of_a_rules_beta_by_one_that_lies_far_away(tmp_path, make_sweeps, capsys):
    table = tmp_path / "two.csv"
    pd.DataFrame(make_sweeps(horizons=(2_000,), heldout=0, betas=(0.82217, 0.9))).to_csv(table, index=False)
    text = brief(table, capsys)
    assert "The paper's rule for 2,000 steps: 0.5, not measured (the nearest beta swept is 0.82217)." in text
    assert "0.7924, measured at 0.82217, " in text
    pd.DataFrame(make_sweeps(horizons=(2_000,), heldout=0, betas=(0.82217,))).to_csv(table, index=False)
    assert "0.7924, measured at 0.82217, with nothing to compare it with." in brief(table, capsys)


def test_a_gap_measured_far_away_is_a_dash_among_several(tmp_path, make_sweeps, capsys):
    made = make_sweeps(horizons=(2_000, 12_000), heldout=0, betas=(0.82217, 0.9))
    pd.DataFrame(made).to_csv(tmp_path / "t.csv", index=False)
    code, out = run(["analyse", str(tmp_path / "t.csv")], capsys)
    assert not code
    _, short, long = out.out.splitlines()[:3]
    assert short.split()[-1] == "-"
    assert long.split()[-1] != "-"
    assert "-: no beta near theirs was" in " ".join(out.out.split())
