"""What must hold for any sweep: CVaR, error bars, and the order of rows."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneclock.runs.sweeps import error_bars
from oneclock.stats import analyse, as_json, read
from oneclock.stats.rules import mean_max_cvar

GAPS = st.lists(st.floats(0, 10), min_size=1, max_size=12)


@given(GAPS)
def test_cvar_lies_between_mean_and_max(gaps):
    mean, largest, tail = mean_max_cvar(np.array(gaps))
    assert mean - 1e-9 <= tail <= largest + 1e-9


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [([5.0], 5.0), ([1, 2, 9], 9.0), ([1, 2, 3, 4], 4.0), ([1, 2, 3, 4, 6], 5.0), (list(range(11)), 9.0)],
)
def test_cvar_by_hand(gaps, expected):
    assert mean_max_cvar(np.array(gaps, float))[2] == expected


@given(GAPS)
def test_cvar_is_the_mean_of_the_worst_quarter_rounded_up(gaps):
    worst = sorted(gaps, reverse=True)[: math.ceil(len(gaps) / 4)]
    assert mean_max_cvar(np.array(gaps))[2] == pytest.approx(sum(worst) / len(worst))


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=9))
def test_error_bars_are_one_sided_root_mean_squares(minima):
    below, above = error_bars(minima)
    mean = np.mean(minima)
    for side, sign in ((below, -1), (above, 1)):
        deviations = [sign * (loss - mean) for loss in minima if sign * (loss - mean) > 0]
        assert side == pytest.approx(math.sqrt(sum(d * d for d in deviations) / len(deviations)) if deviations else 0)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(sweep_columns, random):
    count = len(sweep_columns["beta"])
    order = list(range(count))
    random.shuffle(order)
    shuffled = {name: [values[place] for place in order] for name, values in sweep_columns.items()}
    one, two = (as_json(analyse(read(columns))) for columns in (sweep_columns, shuffled))
    assert one == two


def test_the_analysis_repeats_itself(sweep_columns):
    study = read(sweep_columns)
    first, again = analyse(study), analyse(study)
    assert first == again
    assert dataclasses.asdict(first)["experiments"][0]["points"][0]["loss"] == first.experiments[0].points[0].loss
