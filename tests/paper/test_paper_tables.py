"""Every printed figure recomputed, and a file of losses giving the same tables."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from oneclock.cli import main
from oneclock.paper import check, published, read_curves
from oneclock.paper.curves import place_of
from oneclock.rule import GRID, nearest_beta


@pytest.fixture(scope="module")
def checked():
    return check()


@pytest.fixture
def losses():
    """Per-beta losses with the recovered gaps: the authors' columns, three seeds at some betas, one at others."""
    rows = []
    gaps = {(cell.experiment, cell.beta): cell.gap for cell in published.recovered()}
    for place, row in enumerate(published.printed()["selected-betas"].rows):
        star = nearest_beta(float(row[4]))
        for beta in GRID:
            gap = 0.0 if beta == star else gaps.get((place + 1, beta), 0.05)
            mean = 2.5 * (1 + gap)
            seeds = [mean - 0.001, mean + 0.001, mean] if gap < 0.05 and row[1] != "T5-small" else [mean]
            rows.append(
                {
                    "split": "development" if place < 8 else "heldout",
                    "prefix": f"run{place}",
                    "model": row[1],
                    "dataset": row[2],
                    "label": f"{row[1]} {row[2]}",
                    "beta": beta,
                    "mean_best_val_loss": mean,
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


def test_all_315_figures_agree_and_the_random_ones_lie_in_their_range(checked):
    assert {table.name: (table.matched, table.cells) for table in checked.tables} == {
        "selected-betas": (32, 32),
        "main-results": (20, 20),
        "stability-intervals": (33, 33),
        "noise-robustness": (20, 20),
        "R0-sweep": (190, 190),
        "text": (20, 20),
    }
    assert (checked.matched, checked.cells, checked.mismatched) == (315, 315, 0)
    assert (checked.in_range, checked.random) == (60, 60)
    assert checked.agrees


def test_what_is_exact_bounded_or_a_symmetric_choice_is_marked(checked):
    rows = {row.label: row.basis for table in checked.tables if table.name == "R0-sweep" for row in table.rows}
    assert rows["R0=1000"] == "exact"
    assert rows["R0=800"] == "bounded"
    assert rows["R0=300"] == "symmetric-choice"
    noise = next(table for table in checked.tables if table.name == "noise-robustness")
    assert [row.basis for row in noise.rows[1:4]] == ["exact", "sampled", "sampled"]


def test_a_figure_that_differs_is_a_mismatch(monkeypatch, capsys):
    table = published.printed()["main-results"]
    wrong = published.Printed(table.columns, (table.rows[0], (*table.rows[1][:2], "0.886", *table.rows[1][3:])))
    monkeypatch.setitem(published.printed(), "main-results", wrong)
    result = check()
    assert (result.matched, result.cells, result.mismatched) == (314, 315, 1)
    code, out = run(["paper"], capsys)
    assert code == 1
    assert "314 of 315" in out.out


def test_a_noise_figure_outside_its_range_is_a_mismatch(monkeypatch):
    table = published.printed()["noise-robustness"]
    wrong = published.Printed(table.columns, (*table.rows[:2], ("s", "0.530", *table.rows[2][2:]), *table.rows[3:]))
    monkeypatch.setitem(published.printed(), "noise-robustness", wrong)
    result = check()
    assert (result.mismatched, result.in_range, result.agrees) == (0, 59, False)


def test_the_command_prints_the_count(capsys):
    code, out = run(["paper"], capsys)
    assert not code
    assert "315 of 315" in out.out
    assert out.out.count("as printed, and recomputed below") == 6


def test_json_has_rows_and_counts_per_table_and_repeats_itself(capsys):
    code, out = run(["paper", "--json"], capsys)
    assert not code
    data = json.loads(out.out)
    assert (data["cells"], data["matched"], data["mismatched"]) == (315, 315, 0)
    for table in data["tables"].values():
        assert {"rows", "cells", "matched", "mismatched"} <= set(table)
    assert run(["paper", "--json"], capsys)[1].out == out.out


def test_the_authors_file_gives_every_deterministic_cell(tmp_path, losses, capsys):
    path = write(losses, tmp_path / "beta_sweep_curves.tsv")
    code, out = run(["paper", "--json", "--curves", str(path)], capsys)
    data = json.loads(out.out)
    assert data["tables"]["selected-betas"]["cells"] == 33  # the oracle of experiment 10 counts too
    assert (data["cells"], data["mismatched"]) == (316, 0)
    assert bool(code) == (data["in_range"] < data["random"])  # noise also visits the cells that were made up here


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
    result = check(read_curves(write(long, tmp_path / "long.csv")))
    assert (result.matched, result.cells) == (316, 316)


def test_names_and_numbers_of_the_experiments_are_understood(tmp_path, losses):
    from oneclock.experiments.published import PUBLISHED

    losses["place"] = [place_of(row.model, row.dataset) for row in losses.itertuples()]
    for spell in (lambda place: str(place + 1), lambda place: PUBLISHED[place].name):
        long = pd.DataFrame(
            {
                "experiment": losses["place"].map(spell),
                "beta": losses["beta"],
                "min_val_loss": losses["mean_best_val_loss"],
            }
        )
        assert check(read_curves(write(long, tmp_path / "long.csv"))).matched == 316


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame[frame.model != "Swin-T"], "lacks 11 Swin-T, Caltech-256"),
        (
            lambda frame: frame.replace("Swin-T", "Swin-B"),
            r"row 131: no experiment of the paper has the model 'Swin-B'",
        ),
        (lambda frame: frame.replace({"beta": {0.9: 0.91}}), r"row 5: beta 0.91 is not on the paper's grid"),
        (lambda frame: frame.replace({"split": {"heldout": "test"}}), "row 105: split 'test'"),
        (lambda frame: frame.drop(columns="dataset"), "no column 'dataset'"),
        (lambda frame: pd.concat([frame, frame[:1]]), "repeats row"),
        (lambda frame: frame.assign(seed_best_val_losses="x"), "row 1: could not convert"),
    ],
)
def test_a_wrong_file_of_losses_is_refused_in_one_line(tmp_path, losses, change, message):
    with pytest.raises(ValueError, match=message) as error:
        read_curves(write(change(losses), tmp_path / "beta_sweep_curves.tsv"))
    assert "\n" not in str(error.value)


def test_the_command_imports_neither_torch_nor_pandas():
    code = "import sys; from oneclock.paper import check; check(); print({'torch', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
