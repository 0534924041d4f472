"""A large study on a page: what matters is drawn, what is left out is said, and the tables and the data have all."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from report_studies import write_run

from oneclock.report import folder
from oneclock.report import sweeps as shown
from oneclock.report.folder import Subject, subject_of
from oneclock.report.sweeps import curve_figures, sweep_figure

BETAS = (0.9, 0.94377, 0.96838)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Twenty experiments of three betas, each with its best elsewhere."""
    study = tmp_path_factory.mktemp("many") / "study"
    for number in range(20):
        for beta in BETAS:
            write_run(study, f"e{number}", beta, 1, evaluations=5, best=0.85 + 0.007 * number)
    return subject_of(study)


def test_of_many_experiments_those_are_drawn_in_which_the_recommendation_costs_most(many: Subject) -> None:
    costs = {result.name: result.rules[0].excess for result in many.analysis.experiments}
    dearest = sorted(costs, key=costs.__getitem__, reverse=True)[: shown.MOST]
    names = [result.name for result in shown.experiments_to_draw(many.analysis)]
    assert names == [name for name in costs if name in dearest]
    figure = sweep_figure(many.analysis)
    assert [chart.title for chart in figure.charts] == names
    assert "Of 20 experiments 6 are drawn" in figure.caption
    assert len(list(curve_figures(many.study, many.analysis))) == shown.MOST


def test_the_page_says_so_and_tables_and_data_have_all(many: Subject, tmp_path: Path) -> None:
    text = folder.write_subject(many, tmp_path, "oneclock report study", formats=()).read_text(encoding="utf-8")
    assert text.count("Of 20 experiments 6 are drawn") == 2
    table = text.split('<table id="table-overview">')[1].split("</table>")[0]
    assert all(f">{result.name}<" in table for result in many.analysis.experiments)
    with open(tmp_path / "data" / "curves.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 20 * 3 * 5
    assert "Left to data/curves.csv" not in text


def test_a_page_holds_so_many_evaluations_those_of_the_best_betas_first(
    many: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "POINTS", 12)
    one = replace(many.analysis, experiments=many.analysis.experiments[:1])
    (figure,) = curve_figures(many.study, one)
    best = sorted(one.experiments[0].points, key=lambda point: point.loss)[:2]
    lines = {series.group for series in figure.charts[0].series}
    assert lines == {f"β {point.beta:.3f}".rstrip("0") for point in best}
    assert figure.caption.endswith("Left to data/curves.csv: 1 run.")
