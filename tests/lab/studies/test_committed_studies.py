"""The committed studies: complete, free of anything private, and their tables follow from their records."""

from pathlib import Path

import pytest

import oneclock.lab.sweep_target  # noqa: F401  the plans of these studies name experiments of the lab
from oneclock.cli import main
from oneclock.lab.studies.designs import STUDIES as DESIGNS
from oneclock.report import tables as rendering
from oneclock.report.folder import tables_of
from oneclock.report.several import series_figure
from oneclock.runs import files as run_files
from oneclock.runs import folder as run_folder
from oneclock.stats import analyse, read
from oneclock.sweep import Plan

COMMITTED = sorted(path.parent for path in (Path(__file__).parents[3] / "studies").glob("*/study.json"))
STUDIES = [path for path in COMMITTED if path.name not in DESIGNS]
"""Those that a sweep made; the others were made by ensembles and have a page and a command of their own."""


@pytest.fixture(params=STUDIES, ids=lambda path: path.name)
def study(request):
    return request.param


def test_there_are_studies():
    assert {path.name for path in STUDIES} == {"brief", "fashion", "joint", "laptop", "series", "short"}


def test_none_failed_and_none_is_left(study):
    found = Plan.read(study)
    assert not found.study.failed()
    assert all(not found.step(target).runs for target in found.targets)


def test_tables_follow_from_the_records(study, tmp_path):
    for table in tables_of(analyse(read(study))):
        rendering.save_table(table, tmp_path)
    committed = sorted((study / "report" / "tables").glob("*.csv"))
    assert [path.name for path in committed] == [path.name for path in sorted(tmp_path.glob("*.csv"))]
    for path in committed:
        assert (tmp_path / path.name).read_text() == path.read_text()


@pytest.mark.parametrize("study", COMMITTED, ids=lambda path: path.name)
def test_runs_say_what_they_ran_on_and_nothing_private(study):
    runs = list(run_files.packed_runs(study))
    assert runs
    for folder, files in runs:
        found = run_folder.RunFolder.read(study / folder, files).environment
        assert {"python", "system", "versions", "commit", "threads"} <= found.keys()
        assert "data" in found or found["versions"]["scikit-learn"]
        text = files.read("run.json").decode()
        assert not any(word in text for word in ("/home", "/root", "/work", "/tmp", "host"))


def test_the_figure_of_the_series_has_the_slopes_of_its_table():
    analysis = analyse(read(next(path for path in STUDIES if path.name == "series")))
    (figure,) = series_figure(analysis)
    (chart,) = figure.charts
    lines = {line.name: line for line in chart.series}
    for task in analysis.series:
        marks, fit = lines[task.name], next(line for name, line in lines.items() if name.startswith(f"{task.name}: "))
        assert [10**place for place in marks.x] == pytest.approx([250, 1000, 4000, 16000])
        assert [1 - 10**-place for place in marks.y] == pytest.approx([point.beta for point in task.points])
        assert (fit.y[1] - fit.y[0]) / (fit.x[1] - fit.x[0]) == pytest.approx(task.alpha)
    assert not list(series_figure(analyse(read(next(path for path in STUDIES if path.name == "laptop")))))


def printed(arguments, columns, monkeypatch, capsys):
    """What a command prints in so many columns, none of it cut or too wide."""
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)
    return lines


def test_analyse_is_under_forty_lines_at_80_columns(study, monkeypatch, capsys):
    assert len(printed(["analyse", str(study)], 80, monkeypatch, capsys)) < 40


@pytest.mark.parametrize("columns", [60, 80])
def test_analyse_full_cuts_nothing(study, columns, monkeypatch, capsys):
    text = "\n".join(printed(["analyse", str(study), "--full"], columns, monkeypatch, capsys))
    names = [target.name for target in Plan.read(study).targets]
    assert all(name in text for name in names)


@pytest.mark.parametrize("columns", [80, 132])
def test_paper_cuts_nothing(columns, monkeypatch, capsys):
    text = "\n".join(printed(["lab", "paper"], columns, monkeypatch, capsys))
    assert "Fixed beta=0.94377" in text
    assert text.count("as printed and as recomputed") == 6
