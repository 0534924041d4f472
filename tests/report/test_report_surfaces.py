"""A figure for two axes: the plane of beta and rate, and the valley along beta, from a bowl that is known."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from oneclock.report import plot, words
from oneclock.report.brief import in_words
from oneclock.report.folder import write_report
from oneclock.report.page import chart_data
from oneclock.report.surfaces import surface_figures
from oneclock.stats import analyse, read
from oneclock.stats.exponents import Surface
from oneclock.stats.tables import best_pairs

BETAS = (0.68377, 0.82217, 0.9, 0.94377, 0.96838)
RATES = (0.25, 0.5, 1.0, 2.0, 4.0)


@pytest.fixture(scope="module")
def analysis():
    cells = [(beta, rate, seed) for beta in BETAS for rate in RATES for seed in (1, 2)]
    losses = [
        2 + 0.1 * (math.log10(1 - beta) + 1) ** 2 + 0.15 * math.log10(rate) ** 2 + 0.01 * seed
        for beta, rate, seed in cells
    ]
    betas, rates, seeds = zip(*cells, strict=True)
    known: dict[str, Sequence[Any]] = {"experiment": ["mine"] * len(cells), "budget": [4000] * len(cells)}
    columns = known | {"beta": betas, "lr": rates, "seed": seeds, "min_val_loss": losses}
    return analyse(read(columns))


def test_the_plane_marks_the_lowest_cell_and_the_fitted_pair(analysis):
    (figure,) = surface_figures(analysis)
    surface = analysis.experiments[0].surface
    assert isinstance(surface, Surface)
    (plane,) = figure.charts
    by_name = {series.name: series for series in plane.series}
    assert (by_name["lowest cell"].x, by_name["lowest cell"].y) == ((pytest.approx(1.0),), (0.0,))
    fitted = by_name["fitted best pair"]
    assert (fitted.x[0], fitted.y[0]) == pytest.approx((-math.log10(1 - surface.beta), math.log10(surface.lr)))
    assert sum(len(series.x) for series in plane.series if series.marker == "cell") == len(BETAS) * len(RATES)
    (span,) = plane.spans
    assert span.low <= fitted.x[0] <= span.high


def test_the_path_goes_through_the_best_beta_at_each_rate_that_three_ran_at():
    ridge = {0.25: 0.96838, 0.5: 0.94377, 1.0: 0.9, 2.0: 0.82217}
    cells = [(beta, rate) for rate in ridge for beta in BETAS] + [(0.9, 4.0), (0.68377, 4.0)]
    losses = [
        2 + 0.1 * abs(BETAS.index(beta) - BETAS.index(ridge.get(rate, 0.9))) + 0.05 * rate for beta, rate in cells
    ]
    columns = {"experiment": ["mine"] * len(cells), "budget": [4000] * len(cells), "min_val_loss": losses}
    columns |= {"beta": [beta for beta, _ in cells], "lr": [rate for _, rate in cells]}
    (figure,) = surface_figures(analyse(read(columns)))
    path = next(series for series in figure.charts[0].series if series.name == "best beta at each learning rate")
    assert [1 - 10**-place for place in path.x] == pytest.approx([*ridge.values()])
    assert [10**height for height in path.y] == pytest.approx([*ridge])


def test_the_answer_names_the_pair_and_what_to_paste_has_its_rate(analysis):
    first, fitted, *_, last = words.answer(analysis.experiments[0])
    assert first.startswith("Best beta 0.9 at lr 1 (95 % CI 0.9 to 0.9; ")
    assert fitted.startswith(
        "A quadratic through the losses around the lowest pair has its minimum at beta 0.9 (95 % CI"
    )
    assert "lr 1 (95 % CI" in fitted
    assert last == "Next: BalancedAdamW(model.parameters(), lr=1, beta=0.9)"
    lines = in_words(analysis).splitlines()
    assert lines[-len(BETAS) - 1].split()[:3] == ["beta", "lr", "memory"]
    assert [line.split()[:2] for line in lines[-len(BETAS) :]] == [[f"{beta:g}", "1"] for beta in BETAS]
    table = best_pairs(analysis)
    assert [table.shown(0, column) for column in (1, 2, 3, 6)] == ["0.9", "1", "0.9000", "1"]
    assert not best_pairs(one_rate(analysis)).rows


def one_rate(analysis):
    return replace(analysis, experiments=(replace(analysis.experiments[0], surface=None),))


def test_a_best_rate_at_the_end_asks_for_more_rates_before_it_is_relied_on():
    rated: dict[str, Sequence[Any]] = {"beta": [0.5, 0.9, 0.99] * 2, "lr": [1.0] * 3 + [2.0] * 3}
    columns = rated | {"experiment": "aaaaaa", "budget": [4000] * 6, "min_val_loss": [3, 2, 3, 2, 1, 2]}
    answer = words.answer(analyse(read(columns)).experiments[0])
    assert "2 is the largest learning rate swept" in answer[0]
    assert answer[-1] == "Next: sweep beyond the edge with --extend --learning-rates .., before you rely on it."


def test_the_data_of_the_report_can_be_read_again_with_their_rates(tmp_path: Path):
    rated: dict[str, Sequence[Any]] = {"beta": [0.5, 0.9] * 2, "lr": [1.0, 1.0, 2.0, 2.0], "seed": [1] * 4}
    columns = rated | {"experiment": "aaaa", "budget": [4000] * 4, "min_val_loss": [3, 2, 2, 1]}
    pd.DataFrame({name: list(values) for name, values in columns.items()}).to_csv(tmp_path / "t.csv", index=False)
    write_report(tmp_path / "t.csv", tmp_path / "r")
    (again,) = read(tmp_path / "r" / "data" / "runs.csv").sweeps
    assert again.tied == read(tmp_path / "t.csv").sweeps[0].tied


def test_both_renderers_draw_it(analysis, tmp_path: Path):
    (figure,) = surface_figures(analysis)
    (path,) = plot.save_figure(figure, tmp_path, ["png"])
    assert path.stat().st_size > 10_000
    assert [chart_data(chart)["title"] for chart in figure.charts] == ["beta and learning rate"]
