"""`oneclock analyse`: what it prints, as JSON and for people."""

import json

import pandas as pd
import pytest

from oneclock.cli import main


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
