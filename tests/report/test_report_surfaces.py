"""A figure for two axes: the plane of beta and rate, and the valley along beta, from a bowl that is known."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from oneclock.analysis import analyse, read
from oneclock.analysis.axes import Surface
from oneclock.report import plot
from oneclock.report.explorer import chart_data
from oneclock.report.surfaces import surface_figures

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
    columns = known | {"beta": betas, "rate": rates, "seed": seeds, "min_val_loss": losses}
    return analyse(read(columns), draws=20, repeats=5)


def test_the_plane_marks_the_lowest_cell_and_the_fitted_pair(analysis):
    (figure,) = surface_figures(analysis)
    surface = analysis.experiments[0].surface
    assert isinstance(surface, Surface)
    plane, _ = figure.charts
    by_name = {series.name: series for series in plane.series}
    assert (by_name["lowest cell"].x, by_name["lowest cell"].y) == ((pytest.approx(1.0),), (0.0,))
    fitted = by_name["fitted best pair"]
    assert (fitted.x[0], fitted.y[0]) == pytest.approx((-math.log10(1 - surface.beta), math.log10(surface.rate)))
    assert sum(len(series.x) for series in plane.series if series.marker == "cell") == len(BETAS) * len(RATES)
    (span,) = plane.spans
    assert span.low <= fitted.x[0] <= span.high


def test_the_profile_holds_each_beta_at_its_best_rate(analysis):
    (figure,) = surface_figures(analysis)
    valley = figure.charts[1].series[0]
    assert len(valley.x) == len(BETAS)
    assert all("rate 1:" in text for text in valley.texts)
    assert min(valley.y) == valley.y[BETAS.index(0.9)]


def test_both_renderers_draw_it(analysis, tmp_path: Path):
    (figure,) = surface_figures(analysis)
    (path,) = plot.save(figure, tmp_path, ["png"])
    assert path.stat().st_size > 10_000
    assert [chart_data(chart)["title"] for chart in figure.charts] == ["beta and rate", "at each beta's best rate"]
