"""Every printed figure recomputed, and a file of losses giving the same tables."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from oneclock.cli import main
from oneclock.lab.experiments.aliases import experiment_of_paper
from oneclock.lab.paper import check_paper, published, read_curves
from oneclock.rule import GRID


@pytest.fixture(scope="module")
def checked():
    return check_paper()


@pytest.fixture
def losses():
    """The authors' file: their columns, a line for each experiment and beta, the seeds' losses within a cell."""
    rows = []
    for place, (row, sweep) in enumerate(
        zip(published.printed()["selected-betas"].rows, published.losses_study().sweeps, strict=True)
    ):
        assert sweep.name.startswith(f"{place + 1} ")
        for beta in GRID:
            seeds = [run.best_loss for run in sweep.tied if run.tied_beta == beta]
            rows.append(
                {
                    "split": "development" if place < 8 else "heldout",
                    "prefix": f"run{place}",
                    "model": row[1],
                    "dataset": row[2],
                    "label": f"{row[1]} {row[2]}",
                    "beta": beta,
                    "mean_best_val_loss": sum(seeds) / len(seeds),
                    "lower_std": 0.0,
                    "upper_std": 0.0,
                    "seed_count": len(seeds),
                    "seed_best_val_losses": ";".join(map(repr, seeds)),
                }
            )
    return pd.DataFrame(rows)


def write(frame, path):
    frame.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
    return path


def run(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code, capsys.readouterr()


COUNTS = {
    "selected-betas": (33, 33),
    "main-results": (20, 20),
    "stability-intervals": (33, 33),
    "noise-robustness": (20, 20),
    "R0-sweep": (190, 190),
    "text": (18, 18),
}


def test_every_figure_agrees_and_the_random_ones_lie_in_their_range(checked):
    assert {table.name: (table.matched, table.cells) for table in checked.tables} == COUNTS
    assert (checked.matched, checked.cells, checked.mismatched) == (314, 314, 0)
    assert (checked.in_range, checked.random) == (60, 60)
    assert checked.agrees


def test_the_two_slips_are_the_papers_own(checked):
    slips = [
        (row.label, cell.printed, cell.computed)
        for table in checked.tables
        for row in table.rows
        for cell in row.cells
        if cell.kind == "slip"
    ]
    assert slips == [
        ("abstract: reduction of the maximum gap, %", "33.4", "33.3"),
        ("results: reduction of the maximum, %", "33.4", "33.3"),
    ]
    assert checked.slips == 2
    assert sum("The slip is the paper's" in note for note in checked.notes) == 2


def test_a_slip_that_rounding_does_not_explain_is_a_mismatch(monkeypatch):
    module = sys.modules["oneclock.lab.paper.check"]
    wrong = [(*row[:2], "33.5", row[3]) if row[2] == "33.4" else row for row in module._TEXT]
    monkeypatch.setattr(module, "_TEXT", tuple(wrong))
    result = check_paper()
    assert (result.slips, result.mismatched, result.agrees) == (0, 2, False)


def test_the_losses_are_whole():
    """143 cells; three seeds at five betas each, and one seed throughout for T5."""
    study = published.losses_study()
    assert [len(sweep.betas) for sweep in study.sweeps] == [13] * 11
    seeds = [[sum(run.tied_beta == beta for run in sweep.tied) for beta in GRID] for sweep in study.sweeps]
    assert [sorted(counts) for counts in seeds] == [[1] * 8 + [3] * 5] * 9 + [[1] * 13] + [[1] * 8 + [3] * 5]
    assert sum(map(sum, seeds)) == 243


def test_a_figure_that_differs_is_a_mismatch(monkeypatch, capsys):
    table = published.printed()["main-results"]
    wrong = published.Printed(table.columns, (table.rows[0], (*table.rows[1][:2], "0.886", *table.rows[1][3:])))
    monkeypatch.setitem(published.printed(), "main-results", wrong)
    result = check_paper()
    assert (result.matched, result.cells, result.mismatched) == (313, 314, 1)
    code, out = run(["lab", "paper"], capsys)
    assert code == 1
    assert "313 of 314" in out.out


def test_a_noise_figure_outside_its_range_is_a_mismatch(monkeypatch):
    table = published.printed()["noise-robustness"]
    wrong = published.Printed(table.columns, (*table.rows[:2], ("s", "0.530", *table.rows[2][2:]), *table.rows[3:]))
    monkeypatch.setitem(published.printed(), "noise-robustness", wrong)
    result = check_paper()
    assert (result.mismatched, result.in_range, result.agrees) == (0, 59, False)


def test_the_command_prints_the_count(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")  # every table in one part
    code, out = run(["lab", "paper"], capsys)
    assert not code
    assert "314 of 314" in out.out
    assert "2 are the paper's own slips" in out.out
    assert out.out.count("as printed and as recomputed") == 6


def test_json_has_rows_and_counts_per_table_and_repeats_itself(capsys):
    code, out = run(["lab", "paper", "--json"], capsys)
    assert not code
    data = json.loads(out.out)
    assert (data["cells"], data["matched"], data["mismatched"], data["slips"]) == (314, 314, 0, 2)
    for table in data["tables"].values():
        assert {"rows", "cells", "matched", "mismatched"} <= set(table)
    assert run(["lab", "paper", "--json"], capsys)[1].out == out.out


def test_the_authors_file_gives_every_deterministic_cell(tmp_path, losses, capsys):
    path = write(losses, tmp_path / "beta_sweep_curves.tsv")
    code, out = run(["lab", "paper", "--json", "--curves", str(path)], capsys)
    data = json.loads(out.out)
    assert (code or 0, data["cells"], data["mismatched"], data["slips"]) == (0, 314, 0, 2)
    assert (data["in_range"], data["random"]) == (60, 60)


@pytest.mark.parametrize("digits", [3, 5])
def test_the_long_table_gives_the_same(tmp_path, losses, digits):
    long = pd.DataFrame(
        [
            {
                "experiment": f"{row.model}, {row.dataset}",
                "beta": round(row.beta, digits),
                "seed": seed,
                "min_val_loss": loss,
            }
            for row in losses.itertuples()
            for seed, loss in enumerate(row.seed_best_val_losses.split(";"))
        ]
    )
    result = check_paper(read_curves(write(long, tmp_path / "long.csv")))
    assert (result.matched, result.cells, result.slips) == (314, 314, 2)


def test_names_and_numbers_of_the_experiments_are_understood(tmp_path, losses):
    from oneclock.lab.experiments.published import PUBLISHED

    losses["place"] = [
        PUBLISHED.index(experiment_of_paper(f"{row.model}, {row.dataset}")) for row in losses.itertuples()
    ]
    for spell in (lambda place: str(place + 1), lambda place: PUBLISHED[place].name):
        long = pd.DataFrame(
            {
                "experiment": losses["place"].map(spell),
                "beta": losses["beta"],
                "min_val_loss": losses["mean_best_val_loss"],
            }
        )
        assert check_paper(read_curves(write(long, tmp_path / "long.csv"))).matched == 314


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame[frame.model != "Swin-T"], "lacks 11 Swin-T, Caltech-256"),
        (lambda frame: frame.replace("Swin-T", "Swin-B"), "'Swin-B, Caltech-256' is not an experiment of the paper"),
        (lambda frame: frame.replace({"beta": {0.9: 0.91}}), r", .*: beta 0.91 is not on the paper's grid"),
        (lambda frame: frame.replace({"split": {"heldout": "test"}}), "row 105 has split 'test'"),
        (lambda frame: frame.drop(columns="dataset"), "no column 'dataset'"),
        (lambda frame: pd.concat([frame, frame[:1]]), "row 144 repeats row 1 "),
        (lambda frame: frame.assign(seed_best_val_losses="x"), "row 1 has seed_best_val_losses 'x'; give numbers"),
        (lambda frame: frame.assign(seed_best_val_losses=None), "row 1 has no loss in seed_best_val_losses"),
    ],
)
def test_a_wrong_file_of_losses_is_refused_in_one_line(tmp_path, losses, change, message):
    with pytest.raises(ValueError, match=message) as error:
        read_curves(write(change(losses), tmp_path / "beta_sweep_curves.tsv"))
    assert "\n" not in str(error.value)


def test_the_command_imports_neither_torch_nor_pandas():
    code = "import sys; from oneclock.lab.paper import check_paper; check_paper();"
    code += "print({'torch', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_notes_say_what_the_commands_print():
    """Figures of docs/research/paper-notes.md, made anew from the analysis; each must stand on the page."""
    from pathlib import Path

    from oneclock.lab.protocol import analyse_protocol
    from oneclock.lab.protocol.data import protocol_data
    from oneclock.lab.protocol.horizons import horizons_of
    from oneclock.rule import Fixed

    study = published.losses_study()
    analysis = analyse_protocol(study)
    summary, calibration = analysis.summary, analysis.calibration
    fixed = protocol_data(study.sweeps, [horizons_of(one) for one in study.sweeps], 10).row(Fixed(0.96838))

    def words(estimate):
        return f"{100 * estimate.value:.3f} % ({100 * estimate.experiments.lower:.2f} to"

    def gaps(place, first):
        one = analysis.experiments[place]
        return [f"{100 * gap:.2f}" for beta, gap in zip(one.betas, one.gaps, strict=True) if beta >= first]

    floor, left = calibration.noise_floor, {one.experiment[0]: one for one in calibration.left_out}
    best = min(row.mean for row in calibration.power_plateau)
    expected = [
        words(summary.refresh.all.mean),
        words(summary.fixed.all.mean),
        f"{100 * summary.refresh.all.max.value:.3f} % ({100 * summary.refresh.all.max.experiments.lower:.2f} to "
        f"{summary.refresh.all.max.experiments.upper * 100:.2f})",
        f"mean gap of {100 * calibration.left_out_mean:.2f} % and a largest of {100 * calibration.left_out_max:.2f} %",
        f"choose R0 = {left['6'].refreshes:g}, which gives it a gap of {100 * left['6'].gap:.2f} %",
        f"they choose {left['8'].refreshes:g}, which gives it {100 * left['8'].gap:.2f} %",
        f"Of {sum(row.max is not None for row in calibration.power)} rules",
        f"smallest mean of these is {100 * best:.3f} %",
        f"mean gap of {100 * floor.mean:.2f} %, and a largest one of up to {100 * floor.high:.1f} %",
        f"with {100 * fixed.heldout.max.value:.3f} % on Stanford Cars",
        f"{', '.join(gaps(6, 0.4)[:8])} %",
        f"{', '.join(gaps(7, 0.94)[:-1])} and {gaps(7, 0.94)[-1]} %",
    ]
    page = " ".join((Path(__file__).parents[3] / "docs" / "research" / "paper-notes.md").read_text().split())
    assert [one for one in expected if one not in page] == []
    assert sum(row.max == calibration.power_best.max for row in calibration.power_plateau) == 8
