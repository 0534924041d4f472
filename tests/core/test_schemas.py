"""What commands print with --json follows the schemas that are published for it."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from oneclock.cli import schema
from oneclock.runs.best import Best
from oneclock.stats.analyse import Analysis
from oneclock.stats.experiments import BaselinePoint, BetaPoint, ExperimentResult, RuleCost

ROOT = Path(__file__).parents[2]


def printed(*words):
    done = subprocess.run([sys.executable, "-m", "oneclock", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def log(folder, losses):
    path = folder / "log.csv"
    rows = [f"{100 * number},{loss}\n" for number, loss in enumerate(losses, start=1)]
    path.write_text("step,val_loss\n" + "".join(rows))
    return str(path)


def assert_valid(document, name):
    jsonschema.validate(document, json.loads(schema.text(name)))


@pytest.mark.parametrize("name", schema.NAMES)
def test_every_schema_is_one_and_can_be_printed(name):
    jsonschema.Draft202012Validator.check_schema(json.loads(schema.text(name)))
    assert printed("schema", name)["$id"] == f"oneclock-{name}-{schema.VERSION}"


@pytest.mark.parametrize("words", [["1"], ["300"], ["2.4M"], ["4000", "--rule", "paper"]])
def test_beta(words):
    assert_valid(printed("beta", *words, "--json"), "beta")


@pytest.mark.parametrize(
    "losses",
    [[3 / n + 1 for n in range(1, 31)], [abs(n - 10) / 10 + 1 for n in range(1, 31)], [3.0, 2.0, 1.5]],
    ids=["falls", "turns", "three"],
)
def test_advise(tmp_path, losses):
    words = ["advise", log(tmp_path, losses), "--budget", "6000", "--json"]
    assert_valid(printed(*words), "advise")


def test_advise_without_a_beta(tmp_path):
    table = tmp_path / "log.csv"
    table.write_text("epoch,val_loss\n" + "".join(f"{epoch},{3 / epoch}\n" for epoch in range(1, 11)))
    document = printed("advise", str(table), "--json")
    assert document["beta"] is None
    assert_valid(document, "advise")


def test_evidence():
    jsonschema.validate(printed("evidence", "--json"), json.loads(schema.text("evidence")))


def test_status():
    assert_valid(printed("status", str(ROOT / "studies" / "series"), "--json"), "status")


TABLES = {
    "one seed": "experiment,budget,beta,min_val_loss\na,100,0.5,2\na,100,0.9,1\n",
    "a diverged run": "experiment,budget,beta,seed,min_val_loss\n"
    + "".join(
        f"a,1000,{beta},{seed},{loss}\n" for seed in (0, 1) for beta, loss in ((0.5, 2.1), (0.9, 2), (0.99, "nan"))
    ),
    "learning rates": "experiment,budget,beta,lr,seed,min_val_loss\n"
    + "".join(
        f"a,1000,{beta},{lr},{seed},{2 + abs(beta - 0.8) + lr + seed / 1000}\n"
        for seed in (0, 1)
        for beta in (0.6, 0.8, 0.9)
        for lr in (0.01, 0.02)
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_analyse_a_table(tmp_path, name):
    (tmp_path / "sweep.csv").write_text(TABLES[name])
    found = printed("analyse", str(tmp_path / "sweep.csv"), "--json")
    jsonschema.validate(found, json.loads(schema.text("analyse")))


@pytest.mark.parametrize("words", [["--paper"], [str(ROOT / "studies" / "joint")]], ids=["paper", "study"])
def test_analyse(words):
    assert_valid(printed("analyse", *words, "--json"), "analyse")


def test_the_schema_of_analyse_names_every_key():
    """A key that the analysis gains or loses must be in the schema too, down to one beta of one experiment."""
    described = json.loads(schema.text("analyse"))
    experiment = described["properties"]["experiments"]["items"]
    parts = {Analysis: described, ExperimentResult: experiment, Best: experiment["properties"]["best"]}
    for kind, key in ((BetaPoint, "points"), (BaselinePoint, "baselines"), (RuleCost, "rules")):
        parts[kind] = experiment["properties"][key]["items"]
    for kind, part in parts.items():
        assert [field.name for field in dataclasses.fields(kind)] == [*part["properties"]] == part["required"]


def test_bad_input_is_exit_code_two():
    done = subprocess.run(
        [sys.executable, "-m", "oneclock", "schema", "x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
