"""`oneclock lab experiments`: the table, one spec, JSON, and mistakes in one line."""

import json
from dataclasses import asdict

import pytest

from oneclock.cli import main
from oneclock.lab.experiments import EXPERIMENTS, NOTES, find, settings_of


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "experiments", *arguments])
    output = capsys.readouterr()
    return stopped.value.code or 0, output.out, output.err


def test_the_table_has_a_line_for_each(capsys):
    code, out, _ = run(capsys)
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == 1 + len(EXPERIMENTS)
    for line, spec in zip(lines[1:], EXPERIMENTS.values(), strict=True):
        assert line.startswith(spec.name)
        assert f"{spec.budget:,}" in line
        assert spec.split in line


def test_one_in_full_shows_every_setting_and_every_note(capsys):
    code, out, _ = run(capsys, "t5small-bookcorpus")
    assert code == 0
    for key in settings_of(find("t5small-bookcorpus")):
        assert key in out
    for note in NOTES["t5small-bookcorpus"]:
        assert f"{note.kind}: {note.words}" in " ".join(out.split())


@pytest.mark.parametrize(("setting", "kind"), [("data.examples", "as run"), ("data.held_out_documents", "inferred")])
def test_where_a_setting_comes_from_stands_beside_it(capsys, setting, kind):
    _, out, _ = run(capsys, "t5small-bookcorpus")
    line = next(line for line in out.splitlines() if line.startswith(f"{setting} "))
    assert line.rstrip().endswith(kind)
    assert "settings without a mark are the paper's text" in out


def test_notes_are_about_settings_that_are_there():
    for name, notes in NOTES.items():
        known = settings_of(find(name))
        assert not [key for note in notes for key in note.settings if key not in known], name


def test_an_override_is_shown_beside_what_it_replaces(capsys):
    _, out, _ = run(capsys, "t5small-bookcorpus", "--set", "optimizer.lr=0.5")
    line = next(line for line in out.splitlines() if line.startswith("optimizer.lr"))
    assert line.split() == ["optimizer.lr", "0.5", "was", "0.0001"]


def test_json_is_the_spec(capsys):
    code, out, _ = run(capsys, "swint-caltech256", "--json", "--set", "budget=7")
    assert code == 0
    expected = json.loads(json.dumps(asdict(find("swint-caltech256")))) | {"budget": 7}
    assert json.loads(out) == expected
    _, out, _ = run(capsys, "--json")
    assert [one["name"] for one in json.loads(out)] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vitb16-cifar10"], "did you mean 'vitb16-cifar100'"),
        (["vitb16-cifar100", "--set", "optimizer.lrr=1"], "did you mean 'optimizer.lr'"),
        (["--set", "optimizer.lr=1"], "needs the name of an experiment before it"),
    ],
)
def test_a_mistake_is_one_line(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err
