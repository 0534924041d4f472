"""What names a run: specs of today give the very identities of the committed records."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from oneclock.lab.experiments import LAPTOP, SERIES, find, recorded, settings_of
from oneclock.lab.experiments.laptop import FASHION
from oneclock.lab.experiments.recorded import ADDED
from oneclock.lab.training import identify
from oneclock.runs.folder import runs_of

STUDIES = Path(__file__).parents[3] / "studies"


def one_run_of_each():
    for study in ("fashion", "laptop", "series"):
        first = {run.key.experiment: run.key for run in reversed(list(runs_of(STUDIES / study)))}
        for name, identity in sorted(first.items()):
            yield pytest.param(identity, id=f"{study}-{name}")


@pytest.mark.parametrize("identity", one_run_of_each())
def test_a_committed_run_is_the_run_of_todays_experiment(identity):
    today = identify(find(identity.experiment), identity.beta, identity.seed)
    assert today.content == identity.content
    assert today.hash == identity.hash
    assert {"examples", "leave_out"}.isdisjoint(identity.spec["data"])  # written before those fields were there


def test_every_twin_has_committed_runs():
    wanted = {*LAPTOP, *(one.name for one in (*SERIES, *FASHION))}
    assert {parameters.values[0].experiment for parameters in one_run_of_each()} == wanted


def test_an_added_field_is_there_only_away_from_its_default():
    closed = find("gpt2-bible")
    late = replace(closed, schedule=replace(closed.schedule, phase="late"))
    assert "phase" not in recorded(closed)["schedule"]
    assert recorded(late)["schedule"]["phase"] == "late"
    assert identify(closed, 0.9, 1).hash != identify(late, 0.9, 1).hash


def test_every_added_field_exists_and_has_that_default():
    known = {}
    for name in ("llama60m-c4", "t5small-bookcorpus", "swint-caltech256"):
        known |= settings_of(find(name))
    assert set(ADDED) <= set(known)
    for twin in LAPTOP.values():
        settings = json.loads(json.dumps(settings_of(twin)))
        assert all(settings[key] == value for key, value in ADDED.items() if key in settings)


@pytest.mark.parametrize("name", ["swint-caltech256", "t5small-bookcorpus", "llama60m-c4"])
def test_nothing_else_is_left_out(name):
    spec = find(name)
    whole, kept = json.loads(json.dumps(asdict(spec))), recorded(spec)
    assert kept.keys() == whole.keys()
    for key, value in settings_of(spec).items():
        at_default = key in ADDED and json.loads(json.dumps(value)) == ADDED[key]
        part = kept
        for step in key.split("."):
            part = part.get(step, "absent") if isinstance(part, dict) else part
        assert (part == "absent") == at_default, key
