"""Early stopping and T_ES against hand-made cases and a literal reading of the definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneclock.horizon import Curve, EarlyStop, early_stop, effective_horizon, mean_best_loss
from oneclock.horizon.early_stop import one_digit

losses = st.lists(st.one_of(st.floats(0.1, 10), st.just(math.nan), st.just(math.inf)), min_size=1, max_size=30).filter(
    lambda values: any(map(math.isfinite, values))
)


def literal_early_stop(curve, patience):
    """The definitions, word for word and slowly: look at every prefix of the curve."""
    for end in range(1, len(curve.steps) + 1):
        best = None
        for step, loss in list(zip(curve.steps, curve.losses, strict=True))[:end]:
            if math.isfinite(loss) and (best is None or loss < best[1]):
                best = (step, loss)
        if best is not None and curve.steps[end - 1] >= best[0] + patience:
            return curve.steps[end - 1], best[0]
    return curve.steps[-1], best[0]


@given(losses, st.integers(1, 50), st.integers(1, 200))
def test_early_stop_is_the_definition(values, spacing, patience):
    curve = Curve([spacing * (i + 1) for i in range(len(values))], values)
    stop = early_stop(curve, patience=patience)
    assert (stop.stop, stop.best) == literal_early_stop(curve, patience)


def test_patience_is_a_tenth_of_the_budget_in_steps():
    curve = Curve([100, 200, 300, 400, 500], [5.0, 1.0, 2.0, 2.0, 0.5])
    assert early_stop(curve, budget=1000) == EarlyStop(stop=300, best=200, ran_out=True)
    assert early_stop(curve, budget=2000) == EarlyStop(stop=400, best=200, ran_out=True)
    assert early_stop(curve, budget=4000) == EarlyStop(stop=500, best=500, ran_out=False)


def test_a_tenth_of_seventy_is_seven():
    assert early_stop(Curve([1, 8, 9], [1.0, 2.0, 2.0]), budget=70).stop == 8


def test_an_evaluation_that_improves_never_stops_even_if_patience_is_its_spacing():
    falling = Curve(range(1000, 11_000, 1000), [1 / k for k in range(1, 11)])
    assert early_stop(falling, budget=10_000) == EarlyStop(10_000, 10_000, ran_out=False)


def test_an_equal_loss_is_no_improvement():
    assert early_stop(Curve([1, 2, 3], [1.0, 1.0, 1.0]), patience=2).best == 1


def test_a_nan_is_no_improvement():
    assert early_stop(Curve([1, 2, 3, 4], [math.nan, 2.0, math.nan, -math.inf]), patience=2) == EarlyStop(4, 2, True)


@pytest.mark.parametrize(
    ("steps", "values", "message"),
    [
        ([1, 2], [1.0], "one loss per step"),
        ([], [], "finite loss"),
        ([1, 2], [math.nan, math.inf], "finite loss"),
        ([2, 1], [1.0, 1.0], "must increase, but 1 follows 2"),
        ([1, 1], [1.0, 1.0], "keep one loss per step"),
        ([-1, 1], [1.0, 1.0], "at least 0"),
        ([1, math.nan], [1.0, 1.0], "finite"),
    ],
)
def test_bad_curves_are_refused_in_words(steps, values, message):
    with pytest.raises(ValueError, match=message):
        Curve(steps, values)


def test_bad_settings_are_refused_in_words():
    curve = Curve([1], [1.0])
    for arguments in ({"patience": 0}, {"patience": math.nan}, {"budget": -10}):
        with pytest.raises(ValueError, match="patience"):
            early_stop(curve, **arguments)
    with pytest.raises(ValueError, match="'stop' or 'best'"):
        early_stop(curve).at("last")


def test_best_ignores_what_is_not_finite():
    curve = Curve([1, 2, 3, 4], [math.nan, 2.0, 1.0, -math.inf])
    assert (curve.best_step, curve.best_loss) == (3, 1.0)
    assert mean_best_loss([curve, Curve([1], [3.0])]) == 2.0


def test_t_es_averages_seeds_then_the_two_best_betas():
    def stops_at(best, loss):
        return Curve([best, best + 1000, 10_000], [loss, loss + 1, loss + 1])

    curves = {
        0.9: [stops_at(2000, 1.0), stops_at(4000, 1.2)],  # L 1.1, stops 3000 and 5000
        0.99: [stops_at(6000, 1.15)],  # L 1.15, stops 7000
        0.999: [stops_at(500, 1.3)],
    }
    assert effective_horizon(curves, budget=10_000) == 6000  # (4000 + 7000) / 2 = 5500, halves up
    assert effective_horizon(curves, budget=10_000, convention="best") == 5000  # (3000 + 6000) / 2 = 4500
    assert effective_horizon({0.9: curves[0.9]}, budget=10_000) == 4000


def test_t_es_may_exceed_the_budget():
    curve = Curve([390, 19_500], [2.0, 1.0])
    assert effective_horizon({0.9: [curve]}, budget=19_500) == 20_000


@pytest.mark.parametrize(
    ("steps", "rounded"),
    [
        (25_000, 30_000),
        (24_999, 20_000),
        (9500, 10_000),
        (950, 1000),
        (1, 1),
        (0.25, 0.3),
        (5851.5, 6000),
        (1.5e4, 2e4),
    ],
)
def test_one_digit_rounds_halves_up(steps, rounded):
    assert one_digit(steps) == rounded


@given(st.floats(1e-3, 1e12))
def test_one_digit_has_one_digit_and_is_near(steps):
    rounded = one_digit(steps)
    assert len(f"{rounded:.13e}".split("e")[0].strip("0.")) == 1
    assert abs(rounded - steps) <= 0.5 * 10 ** math.floor(math.log10(steps)) * (1 + 1e-9)


@pytest.mark.parametrize("bad", [0, -5, math.nan, math.inf])
def test_one_digit_refuses_what_has_none(bad):
    with pytest.raises(ValueError, match="above 0"):
        one_digit(bad)


def test_t_es_of_nothing():
    with pytest.raises(ValueError, match="at least one"):
        effective_horizon({}, budget=10)
    with pytest.raises(ValueError, match="at least one"):
        mean_best_loss([])
