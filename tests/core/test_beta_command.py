"""`oneclock beta` and the lightness of the core, in real processes."""

import importlib
import json
import re
import subprocess
import sys

import pytest


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "oneclock", *arguments], capture_output=True, text=True)


def test_json_by_the_papers_rule():
    done = run("beta", "20000", "--rule", "paper", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert (answer["steps"], answer["rule"], answer["beta"], answer["paper_beta"]) == (20000, "paper", 0.95, 0.95)
    assert (answer["memory_horizon"], answer["refresh_count"]) == (20.0, 1000.0)
    assert answer["notes"] == []


def test_json_of_the_recommendation():
    answer = json.loads(run("beta", "1200", "--json").stdout)
    memory = 1 + 1200**0.5 / 7
    assert answer["beta"] == pytest.approx(1 - 1 / memory)
    assert (answer["memory_horizon"], answer["refresh_count"]) == (pytest.approx(memory), pytest.approx(1200 / memory))
    assert answer["paper_beta"] == pytest.approx(1 / 6)
    assert not answer["extrapolated"]
    assert json.loads(run("beta", "500", "--json").stdout)["paper_beta"] is None


def test_words():
    done = run("beta", "20000")
    for word in ("0.9528", "21.2 steps", "0.95 (--rule paper)", "(0.9, 0.999)", "horizon=20_000"):
        assert word in done.stdout
    paper = run("beta", "20000", "--rule", "paper").stdout
    for word in ("0.95", "20 steps", 'horizon=20_000, rule="paper"'):
        assert word in paper
    assert "above 40,000" in run("beta", "2e6", "--rule", "paper").stdout
    assert "0.99993" in run("beta", "1e10").stdout.splitlines()[0]


def test_every_length_has_an_answer_without_a_cliff():
    betas = [
        json.loads(run("beta", steps, "--json").stdout)["beta"]
        for steps in ("1", "100", "1000", "1200", "6,000", "20k", "40000", "1e6")
    ]
    assert betas == sorted(betas)
    assert 0 < betas[0] < 1


@pytest.mark.parametrize(
    ("arguments", "horizon"),
    [
        (["--tokens", "2.6e9", "--tokens-per-step", "131072"], 19_837),
        (["--epochs", "50", "--samples", "75750", "--batch-size", "128", "--accumulate", "1"], 29_600),
        (["--epochs", "50", "--samples", "75750", "--batch-size", "128", "--drop-last"], 29_550),
        (["2e4"], 20_000),
    ],
)
def test_horizons_from_what_people_know(arguments, horizon):
    assert json.loads(run("beta", *arguments, "--json").stdout)["steps"] == horizon


@pytest.mark.parametrize(
    "arguments",
    [
        ["beta", "500", "--rule", "paper"],
        ["beta", "20000", "--rule", "papper"],
        ["beta", "nan"],
        ["beta", "many"],
        ["beta"],
        ["beta", "--", "-5"],
        ["beta", "20000", "--rule", "refresh:0"],
        ["beta", "20000", "--tokens", "5"],
        ["beta", "--tokens", "5"],
        ["beta", "--epochs", "5", "--samples", "10"],
        ["beta", "--no-such-option"],
        ["bata"],
    ],
)
def test_bad_input_is_one_line_and_exit_two(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("oneclock: ")
    assert done.stderr.count("\n") == 1


def test_help_and_version():
    assert "--tokens-per-step" in run("beta", "--help").stdout
    assert "beta" in run().stdout
    assert run("--version").stdout.startswith("oneclock ")


@pytest.mark.parametrize(
    "code",
    [
        "import oneclock",
        "import oneclock; oneclock.recommend(20_000), oneclock.Curve([1], [1.0])",
        "import oneclock.rule, oneclock.horizon, oneclock.runs.record",
        "from oneclock.cli import main\ntry: main(['beta', '20000'])\nexcept SystemExit: pass",
    ],
)
def test_the_core_does_not_load_torch(code):
    check = "\nimport sys; heavy = {'torch', 'numpy', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names():
    import oneclock

    for name in oneclock.__all__:
        assert getattr(oneclock, name) is not None
    assert set(oneclock.__all__) <= set(dir(oneclock))
    importlib.import_module("oneclock.advise.answer")
    assert callable(oneclock.advise)
    assert callable(oneclock.recommend)
    with pytest.raises(AttributeError, match="no attribute 'BalancedSGD'"):
        oneclock.BalancedSGD  # noqa: B018


@pytest.mark.parametrize("steps", ["-5", "-5k", "-0.5", "-20,000"])
def test_a_negative_length_is_a_number_and_not_an_option(steps):
    done = run("beta", steps)
    assert done.returncode == 2
    assert steps in done.stderr
    assert "number above 0" in done.stderr
    assert re.search(r"No such option:? '?--nope", run("beta", "--nope", "5").stderr)


@pytest.mark.parametrize("command", [["beta", "10k"], ["evidence", "--json"], ["--help"]])
def test_a_reader_that_leaves_ends_the_command_without_a_word(command):
    line = [sys.executable, "-m", "oneclock", *command]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 141)
    process.stderr.close()
