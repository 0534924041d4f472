"""What names a run: specs of today equal those of the committed records, field for field."""

import json
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path

import pytest

from oneclock.experiments import FASHION, LAPTOP, SERIES, find, matters, settings_of
from oneclock.experiments.matters import ADDED, WORDS

STUDIES = Path(__file__).parents[2] / "studies"


def recorded():
    """The spec of one run of each experiment in the committed studies."""
    for folder in sorted(STUDIES.glob("*/runs/*")):
        header = next(iter(sorted(folder.glob("*/run.json"))))
        yield pytest.param(json.loads(header.read_text()), id=f"{folder.parts[-3]}-{folder.name}")


@pytest.mark.parametrize("header", recorded())
def test_a_committed_record_is_of_the_experiment_as_it_is_today(header):
    today = find(header["experiment"])
    assert matters(header["spec"]) == matters(today)
    assert {"examples", "leave_out"}.isdisjoint(header["spec"]["data"])  # written before those fields were there


def test_every_twin_has_committed_runs():
    wanted = {*LAPTOP, *(one.name for one in (*SERIES, *FASHION))}
    assert {parameters.values[0]["experiment"] for parameters in recorded()} == wanted


@pytest.mark.parametrize("name", ["vitb16-cifar100", "t5small-bookcorpus", "llama60m-c4", "gpt2-bible"])
def test_words_change_nothing_and_every_other_setting_does(name):
    spec = find(name)
    words = {"name": "x", "title": "x", "split": "heldout", "seeds": (7,), "t_es": 5}
    assert set(words) == set(WORDS)
    assert matters(replace(spec, **words)) == matters(spec)
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name not in WORDS and isinstance(value, int) and not is_dataclass(value):
            assert matters(replace(spec, **{field.name: value + 1})) != matters(spec), field.name
    assert matters(replace(spec, schedule=replace(spec.schedule, min_lr=0.1))) != matters(spec)


def test_an_added_field_counts_only_away_from_its_default():
    closed = find("gpt2-bible")
    late = replace(closed, schedule=replace(closed.schedule, phase="late"))
    assert "phase" not in matters(closed)["schedule"]
    assert matters(late)["schedule"]["phase"] == "late"


def test_every_added_field_exists_and_has_that_default():
    known = {}
    for name in ("llama60m-c4", "t5small-bookcorpus", "swint-caltech256"):
        known |= settings_of(find(name))
    assert set(ADDED) <= set(known)
    for twin in LAPTOP.values():
        settings = json.loads(json.dumps(settings_of(twin)))
        assert all(settings[key] == value for key, value in ADDED.items() if key in settings)


def test_plain_data_and_spec_give_the_same():
    spec = find("swint-caltech256")
    assert matters(json.loads(json.dumps(asdict(spec)))) == matters(spec)
