"""What a person sees of a plan before it runs, and of a run that failed: pairs, betas, reasons, help."""

import sys

import pytest

from oneclock.cli import main
from oneclock.sweep import Plan

PAIRS = ((0.9, 0.999), (0.9, 0.95))


@pytest.fixture
def said(capsys, tmp_path):
    """What a command says; `s` is a folder of its own."""

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        assert (ended.value.code or 0) == code
        found = capsys.readouterr()
        return found.out + found.err

    return run


@pytest.mark.parametrize(
    ("target", "runs", "pairs"),
    [
        (["vit-digits"], 29, True),
        (["vit-digits", "--no-arms"], 23, False),
        (["vit-digits", "--arms", "0.9/0.98"], 26, False),
        (["--command", "train {beta1} {beta2} {seed}", "--budget", "10"], 29, True),
        (["--command", "train {beta} {seed}", "--budget", "10"], 23, False),
    ],
)
def test_the_usual_pairs_are_arms_by_default_and_counted(target, runs, pairs, said, tmp_path):
    text = said("sweep", *target, "--dry-run", "--out", tmp_path / "s")
    assert f"at most {runs} to go" in text
    assert ("pairs 0.9/0.999, 0.9/0.95" in text) == pairs


def test_a_function_gets_pairs_only_where_they_are_given(said, tmp_path):
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return 1.0\n")
    line = ["sweep", f"{tmp_path}/mine.py:train", "--budget", "5", "--dry-run", "--out", tmp_path / "s"]
    assert "at most 23 to go" in said(*line)
    assert "at most 29 to go" in said(*line, "--arms", "0.9/0.999,0.9/0.95")


def test_a_study_keeps_the_arms_it_has(said, tmp_path):
    line = ["sweep", "resnet-digits", "--budget", "2", "--set", "evaluation.every=1", "--betas", "0.9", "--seeds", "1"]
    line += ["--in-process", "--no-report", "--out", tmp_path / "s"]
    said(*line, "--no-arms")
    assert "0 to go" not in said(*line)
    assert Plan.read(tmp_path / "s").protocol.arms == ()


def test_a_dry_run_lists_the_betas(said, tmp_path):
    text = said("sweep", "vit-digits", "--betas", "0.5,0.9", "--dry-run", "--out", tmp_path / "s")
    assert "betas 0.5, 0.9; pairs" in text


def test_arms_and_no_arms_exclude_each_other(said, tmp_path):
    line = ["sweep", "vit-digits", "--arms", "0.9/0.98", "--no-arms", "--out", tmp_path / "s"]
    assert "not both" in said(*line, code=2)


def test_status_says_why_a_run_failed_and_where_its_output_lies(said, tmp_path):
    command = f"{sys.executable} -c \"import sys; sys.exit('no luck')\" {{beta}}"
    line = ["sweep", "--command", command, "--budget", "5", "--betas", "0.9", "--retries", "0", "--jobs", "1"]
    said(*line, "--out", tmp_path / "s", code=1)
    text = said("status", tmp_path / "s")
    output = tmp_path / "s/runs/command/beta-0.9-seed-1/output.log"
    assert "the command ended with exit code 1" in text
    assert f"its output: {output}" in text
    assert "no luck" in output.read_text()


@pytest.mark.parametrize("command", ["sweep", "analyse", "report", "train", "status"])
def test_help_has_no_type_behind_flags(command, said):
    assert "bool" not in said(command, "--help")
