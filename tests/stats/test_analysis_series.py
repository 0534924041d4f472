"""The controlled series: known parabolas give their vertices and exponent back, with intervals that hold."""

import json
import math

import numpy as np
import pytest

from oneclock.report import plot
from oneclock.report.several import series_figure
from oneclock.rule import RECOMMENDED, Refresh
from oneclock.stats import analyse, as_json, read
from oneclock.stats.tables import series

BUDGETS = (250, 1000, 4000, 16000)
BETAS = tuple(1 - 10 ** (-k / 4) for k in range(1, 10))


def study(alpha, noise, seed=0, seeds=(1, 2, 3), betas=BETAS):
    """A series whose best u is -1 at 1,000 steps and moves with `alpha`; each seed has a lift of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    for budget in BUDGETS:
        best = -1 - alpha * np.log10(budget / 1000)
        for one in seeds:
            lift = rng.normal(0, 0.1)
            for beta in betas:
                loss = 2 * np.exp(lift + 0.1 * (np.log10(1 - beta) - best) ** 2 + rng.normal(0, noise))
                rows.append((f"task-{budget}", budget, beta, one, loss))
    columns = zip(*rows, strict=True)
    return read(dict(zip(("experiment", "budget", "beta", "seed", "min_val_loss"), map(list, columns), strict=True)))


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_an_exact_parabola_gives_its_vertex_and_exponent_back(alpha):
    (found,) = analyse(study(alpha, noise=0.0)).series
    assert found.name == "task"
    assert found.alpha == pytest.approx(alpha, abs=0.011)
    assert found.c == pytest.approx(0.1 * 10**-alpha, rel=0.05)
    assert [point.beta for point in found.points] == pytest.approx(
        [1 - 0.1 * (b / 1000) ** -alpha for b in BUDGETS], abs=0.005
    )
    assert all(point.bracketed for point in found.points)
    assert found.flat is (alpha == 0)


def test_an_optimum_outside_what_was_swept_is_not_called_bracketed():
    (found,) = analyse(study(1.5, noise=0.0)).series
    assert [point.bracketed for point in found.points] == [False, True, True, False]


def test_one_seed_has_intervals_from_its_own_scatter():
    (found,) = analyse(study(0.5, noise=0.01, seeds=(1,))).series
    assert found.alpha_interval is not None


def test_a_study_without_a_series_has_no_such_table():
    table = {"experiment": "aaa", "budget": [9] * 3, "beta": [0, 0.9, 0.99], "min_val_loss": [4, 1, 3]}
    assert series(analyse(read(table))).rows == ()


def test_the_table_says_alpha_in_words():
    shown = series(analyse(study(0.5, noise=0.0)))
    assert len(shown.rows) == 4
    assert "(T / 10,000) ** -alpha with alpha 0.50" in shown.notes[0]


def test_it_is_plain_data_for_json():
    assert json.loads(json.dumps(as_json(analyse(study(0.5, noise=0.01)))))["series"]


@pytest.mark.parametrize(("betas", "known"), [(BETAS, True), (BETAS[3:6], False)])
def test_its_figure_is_drawn_with_and_without_intervals(betas, known, tmp_path):
    (figure,) = series_figure(analyse(study(0.5, noise=0.001, seeds=(1,), betas=betas)))
    (marks,) = [line for line in figure.charts[0].series if line.name == "task"]
    assert [bound is not None for bound in marks.low] == [known] * len(BUDGETS)
    assert len(marks.low) == len(marks.high) == len(marks.y) == len(BUDGETS)
    assert plot.save_figure(figure, tmp_path, ("svg",))[0].stat().st_size > 1000


def test_its_figure_has_the_recommended_memory_beside_the_papers_where_they_differ():
    (figure,) = series_figure(analyse(study(0.5, noise=0.0)))
    lines = {line.name: line for line in figure.charts[0].series}
    ours, papers = lines["recommended"], lines["paper's rule"]
    for line, rule in ((ours, RECOMMENDED), (papers, Refresh())):
        assert [10**place for place in line.y] == pytest.approx(
            [1 / rule.one_minus_beta(10**place) for place in line.x]
        )
    assert ours.x[0] < math.log10(min(BUDGETS)) < math.log10(max(BUDGETS)) < ours.x[-1]
