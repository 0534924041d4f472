"""The rule against the paper's printed figures, and its laws."""

import math

import numpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneclock import rule
from oneclock import steps as steps_of
from oneclock.lab.protocol.robustness import stability_interval
from oneclock.recommend import recommend
from oneclock.runs.key import RunKey

# Typed from the tables "selected betas" and "stability intervals": T_ES, selected beta, lower and upper T_ES.
EXPERIMENTS = {
    1: (6000, 0.822, 4048, 7199),
    2: (10000, 0.900, 7199, 12802),
    3: (10000, 0.900, 7199, 12802),
    4: (10000, 0.900, 7199, 12802),
    5: (20000, 0.944, 12802, 22766),
    6: (30000, 0.968, 22766, 40486),
    7: (30000, 0.968, 22766, 40486),
    8: (40000, 0.968, 22766, 40486),
    9: (10000, 0.900, 7199, 12802),
    10: (10000, 0.900, 7199, 12802),
    11: (20000, 0.944, 12802, 22766),
}
PRINTED_GRID = [0, 0.438, 0.684, 0.822, 0.900, 0.944, 0.968, 0.982, 0.990, 0.994, 0.997, 0.998, 0.999]

horizons = st.floats(1000.001, 1e9)
betas = st.floats(0, 1, exclude_max=True)


def test_the_grid_is_the_printed_one():
    assert [round(beta, 3) for beta in rule.GRID] == PRINTED_GRID
    assert rule.GRID[5] == 0.94377


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_selected_beta_and_stability_interval_are_the_printed_ones(experiment):
    t_es, selected, lower, upper = EXPERIMENTS[experiment]
    beta = rule.nearest_beta(rule.Refresh()(t_es))
    assert round(beta, 3) == selected
    assert tuple(round(bound) for bound in stability_interval(beta)) == (lower, upper)


@pytest.mark.parametrize(
    "made", [rule.Refresh(300), rule.Fixed(0.9), rule.Power(0.05, 0.6), rule.Power(0.05, 0.6, 3000)]
)
def test_a_rule_as_one_types_it(made):
    numbers = [f"{value:g}" for value in vars(made).values()]
    assert rule.resolve_rule(f"{type(made).__name__.lower()}:{','.join(numbers)}") == made


@pytest.mark.parametrize("text", ["", "power", "power:1", "power:a,b", "refresh:1,2", "root:2", "fixed:"])
def test_what_is_no_rule_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"a rule is recommended, paper, sqrt:DIVISOR, .*, got "):
        rule.resolve_rule(text)


@pytest.mark.parametrize("value", [0.9, 7, ["paper"]])
def test_a_value_that_is_no_rule_is_refused_in_words(value):
    with pytest.raises(ValueError, match=r"a rule is recommended, .* such as oneclock\.Fixed"):
        rule.beta_for(20_000, rule=value)


@pytest.mark.parametrize("made", [rule.PiecewisePower(20_000, 0.5), rule.PiecewisePower(6_000, 0.2)])
def test_a_piecewise_rule_answers_every_length_without_a_cliff_and_is_the_papers_from_its_knee_on(made):
    lengths = sorted({*range(1, 3_000, 7), *range(3_000, 60_000, 501), made.knee, 10**6, 10**9})
    betas = [made(length) for length in lengths]
    assert all(0 <= beta < 1 for beta in betas)
    assert betas == sorted(betas)
    assert made(made.knee * (1 - 1e-9)) == pytest.approx(made(made.knee), abs=1e-9)
    assert [made(length) for length in lengths if length >= made.knee] == [
        rule.Refresh()(length) for length in lengths if length >= made.knee
    ]
    assert list(1 - made.one_minus_beta(np.array(lengths, float))) == pytest.approx(betas)


def test_the_recommended_memory_is_one_plus_a_seventh_of_the_root_of_the_length():
    law = rule.SquareRoot()
    assert law == rule.RECOMMENDED == rule.resolve_rule("sqrt:7")
    lengths = [10 ** (place / 20) for place in range(-20, 200)]
    for length in lengths:
        assert rule.memory_horizon(law(length)) == pytest.approx(1 + math.sqrt(length) / 7, rel=1e-6)
    betas = [law(length) for length in lengths]
    assert betas == sorted(betas)
    assert [round(law(steps), 3) for steps in (100, 300, 64_000, 1_000_000)] == [0.588, 0.712, 0.973, 0.993]


def test_what_is_recommended_is_the_one_answer_until_somebody_chooses():
    assert rule.beta_for(20_000) == rule.RECOMMENDED(20_000) == rule.beta_for(20_000, rule="recommended")
    assert rule.beta_for(2_000, rule="paper") == rule.beta_for(2_000, rule="refresh:1000") == 0.5
    assert rule.beta_for(2_000, rule=rule.Fixed(0.9)) == rule.beta_for(2_000, rule="fixed:0.9") == 0.9


def test_a_tie_goes_to_the_smaller_beta():
    assert rule.nearest_beta(0.5, grid=[0.75, 0.25]) == 0.25


@given(betas)
def test_projection_agrees_with_brute_force(beta):
    distances = {value: abs(value - beta) for value in rule.GRID}
    nearest = [value for value, distance in distances.items() if distance == min(distances.values())]
    assert rule.nearest_beta(beta) == min(nearest)


@given(horizons)
def test_the_rule_refreshes_a_thousand_times(horizon):
    beta = rule.Refresh()(horizon)
    assert rule.refresh_count(beta, horizon) == pytest.approx(1000, rel=1e-6)
    assert rule.memory_horizon(beta) == pytest.approx(horizon / 1000, rel=1e-6)


@given(horizons)
def test_the_choice_is_stable_exactly_on_its_interval(horizon):
    chosen = rule.nearest_beta(rule.Refresh()(horizon))
    lower, upper = stability_interval(chosen)
    assert lower * (1 - 1e-9) <= horizon <= upper * (1 + 1e-9)
    if lower:
        assert rule.nearest_beta(rule.Refresh()(lower * 0.999)) < chosen
    if upper < math.inf:
        assert rule.nearest_beta(rule.Refresh()(upper * 1.001)) > chosen


@given(horizons, st.floats(1e-3, 999))
def test_power_family_contains_both_rules(horizon, refreshes):
    assert rule.Power(c=refreshes / 10_000, alpha=1)(horizon) == pytest.approx(
        rule.Refresh(refreshes)(horizon), abs=1e-12
    )
    assert rule.Power(c=0.05, alpha=0)(horizon) == pytest.approx(rule.Fixed(0.95)(horizon), abs=1e-12)


@pytest.mark.parametrize("value", [rule.SquareRoot(), rule.Refresh(), rule.Fixed(0.9), rule.Power(0.1, 0.5)])
def test_a_rule_is_a_name_a_rate_and_a_beta(value):
    assert isinstance(value, rule.Rule)
    assert value.name
    many = 1 - value.one_minus_beta(numpy.array([6000.0, 40_000.0]))
    assert many.tolist() == pytest.approx([value(6000), value(40_000)])


BAD_NUMBERS = [math.nan, math.inf, -math.inf, 0, -1, "20000", None, True, 10**400, [1]]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_bad_horizons_are_refused_in_words(bad):
    for call in (
        lambda: rule.Refresh()(bad),
        lambda: rule.SquareRoot()(bad),
        lambda: rule.SquareRoot(bad),
        lambda: rule.refresh_count(0.9, bad),
        lambda: steps_of.steps_from_tokens(bad, 10),
        lambda: steps_of.steps_from_epochs(1, bad, 10),
        lambda: rule.Refresh(bad),
        lambda: rule.Fixed(0.9)(bad),
        lambda: rule.Power(bad, 1),
        lambda: recommend(bad),
    ):
        with pytest.raises(ValueError, match=r"must be|too large"):
            call()


@pytest.mark.parametrize("bad", [1, 1.2, -0.1, math.nan, "0.9", None, True])
def test_bad_betas_are_refused_in_words(bad):
    for call in (rule.memory_horizon, rule.nearest_beta, rule.Fixed, lambda beta: rule.refresh_count(beta, 100)):
        with pytest.raises(ValueError, match=r"in \[0, 1\)"):
            call(bad)


def test_a_beta_of_32_bits_is_the_number_that_was_written():
    for beta in (numpy.float32(0.9), numpy.float16(0.9), numpy.float64(0.9), 0.9):
        given = rule.checked_beta(beta), rule.Fixed(beta)(100), rule.resolve_beta(beta=beta)
        assert given == (0.9, 0.9, 0.9)
        assert {type(value) for value in given} == {float}
        assert RunKey("x", beta, 1, 100).beta == 0.9


def test_a_rule_has_one_name():
    assert {rule.resolve_rule(name).name: name for name in rule.NAMED} == {
        "recommended": "recommended",
        "paper": "paper",
    }
    assert (rule.Refresh(1000).name, rule.Refresh(300).name) == ("paper", "Refresh R0=300")
    assert recommend(20_000, rule.Refresh()).rule == "paper"


def test_a_horizon_too_short_for_the_refreshes_has_no_beta():
    with pytest.raises(ValueError, match="must exceed 1000; give a longer horizon or fewer refreshes"):
        rule.Refresh()(1000)
    with pytest.raises(ValueError, match="no beta for"):
        rule.Power(c=0.1, alpha=1)(500)


def test_a_beta_that_rounds_to_one_is_refused():
    with pytest.raises(ValueError, match="rounds to 1"):
        rule.Refresh()(1e20)


def test_stability_interval_wants_a_grid_value():
    with pytest.raises(ValueError, match="nearest_beta"):
        stability_interval(0.95)


def test_the_ends_of_the_grid_are_open():
    assert stability_interval(0.0)[0] == 0
    assert stability_interval(0.999)[1] == math.inf


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        # Food-101, CIFAR-100 and Stanford Cars as the paper counts them.
        (dict(epochs=50, samples=75_750, batch_size=128, drop_last=True), 29_550),
        (dict(epochs=50, samples=50_000, batch_size=128, drop_last=True), 19_500),
        (dict(epochs=100, samples=8144, batch_size=64), 12_800),
        (dict(epochs=3, samples=1000, batch_size=10, accumulate=8), 39),
        (dict(epochs=0.5, samples=1000, batch_size=10), 50),
    ],
)
def test_steps_from_epochs(arguments, steps):
    assert steps_of.steps_from_epochs(**arguments) == steps


def test_steps_from_nothing_useful():
    with pytest.raises(ValueError, match="do not fill one batch"):
        steps_of.steps_from_epochs(1, samples=5, batch_size=10, drop_last=True)
    with pytest.raises(ValueError, match="whole number"):
        steps_of.steps_from_epochs(1, samples=5.5, batch_size=10)
    of_epochs = ({"samples": 5}, {"batch_size": 2}, {"accumulate": 4}, {"drop_last": True}, {"tokens_per_step": 9})
    beside_steps = [{"steps": 5} | more for more in of_epochs]
    for given_twice in ({}, {"steps": 5, "tokens": 3}, {"tokens": 5}, {"epochs": 1}, *beside_steps):
        with pytest.raises(ValueError, match="steps|tokens|epochs"):
            steps_of.planned_steps(**given_twice)


def test_notes_say_where_the_evidence_ends():
    assert recommend(20_000).notes == recommend(20_000, "paper").notes == ()
    assert "below 6,000" in recommend(5000, "paper").notes[-1]
    assert "above 40,000" in recommend(50_000, "paper").notes[-1]
    for steps in (1, 149, 3e6):
        assert recommend(steps).extrapolated
        assert "extrapolated" in recommend(steps).notes[0]
