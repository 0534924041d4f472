"""`oneclock beta` and the lightness of the core, in real processes."""

import json
import subprocess
import sys

import pytest

from oneclock.gains import gains


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "oneclock", *arguments], capture_output=True, text=True)


def test_json_by_the_papers_rule_for_twenty_thousand_steps():
    done = run("beta", "20000", "--rule", "paper", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer == {
        "horizon": 20000,
        "refreshes": 1000,
        "beta": 0.95,
        "memory_horizon": 20.0,
        "grid_beta": 0.94377,
        "stable_from": 12802,
        "stable_to": 22766,
        "calibrated": True,
        "notes": [],
    }


def test_json_of_what_is_recommended():
    answer = json.loads(run("beta", "1200", "--json").stdout)
    rate = 5**0.2 / 6
    assert answer["beta"] == pytest.approx(1 - rate)
    assert (answer["memory_horizon"], answer["refreshes"]) == (pytest.approx(1 / rate), pytest.approx(1200 * rate))
    assert answer["paper_beta"] == pytest.approx(1 / 6)
    assert "our studies' choice below 6,000 steps" in answer["sure"]
    assert f"{max(gain.largest for gain in gains() if gain.steps < 6000):.1%}".replace("%", " %") in answer["sure"]
    assert json.loads(run("beta", "500", "--json").stdout)["paper_beta"] is None


def test_words():
    done = run("beta", "20000")
    for word in ("0.95", "20 steps", "the same", "horizon=20_000"):
        assert word in done.stdout
    paper = run("beta", "20000", "--rule", "paper").stdout
    for word in ("0.95", "20 steps", "0.94377", "12,802 to 22,766", 'horizon=20_000, rule="paper"'):
        assert word in paper
    assert "extrapolates" in run("beta", "2e6", "--rule", "paper").stdout
    assert "0.9999999" in run("beta", "1e10").stdout.splitlines()[0]


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
    assert json.loads(run("beta", *arguments, "--json").stdout)["horizon"] == horizon


@pytest.mark.parametrize(
    "arguments",
    [
        ["beta", "500", "--rule", "paper"],
        ["beta", "20000", "--rule", "papper"],
        ["beta", "20000", "--rule", "paper", "--refreshes", "300"],
        ["beta", "nan"],
        ["beta", "many"],
        ["beta"],
        ["beta", "--", "-5"],
        ["beta", "20000", "--refreshes", "0"],
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
        "import oneclock; oneclock.refresh_beta(20_000), oneclock.Curve([1], [1.0])",
        "import oneclock.rule, oneclock.horizon, oneclock.study.records",
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
    with pytest.raises(AttributeError, match="no attribute 'BalancedSGD'"):
        oneclock.BalancedSGD  # noqa: B018
