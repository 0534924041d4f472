"""What commands print with --json follows the schemas that are published for it."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from oneclock.cli import schema

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


@pytest.mark.parametrize("name", schema.NAMES)
def test_every_schema_is_one_and_can_be_printed(name):
    jsonschema.Draft202012Validator.check_schema(json.loads(schema.text(name)))
    assert printed("schema", name)["$id"] == f"oneclock-{name}-{schema.VERSION}"


@pytest.mark.parametrize("words", [["1"], ["300"], ["2.4M"], ["4000", "--rule", "paper"]])
def test_beta(words):
    jsonschema.validate(printed("beta", *words, "--json"), json.loads(schema.text("beta")))


@pytest.mark.parametrize(
    "losses",
    [[3 / n + 1 for n in range(1, 31)], [abs(n - 10) / 10 + 1 for n in range(1, 31)], [3.0, 2.0, 1.5]],
    ids=["falls", "turns", "three"],
)
def test_advise(tmp_path, losses):
    words = ["advise", log(tmp_path, losses), "--budget", "6000", "--json"]
    jsonschema.validate(printed(*words), json.loads(schema.text("advise")))


def test_status():
    jsonschema.validate(
        printed("status", str(ROOT / "studies" / "series"), "--json"), json.loads(schema.text("status"))
    )


def test_bad_input_is_exit_code_two():
    done = subprocess.run(
        [sys.executable, "-m", "oneclock", "schema", "x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
