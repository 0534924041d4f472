"""The one door in: every source gives the same study, every bad table one line that names the row."""

import json
import math

import pandas as pd
import pytest

from oneclock.rule import GRID
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.store import open_study
from oneclock.stats import analyse, as_json, read

MINIMA = {"experiment": ["a"] * 4, "budget": [9000] * 4, "beta": [0.9, 0.9, 0.99, 0.99], "seed": [1, 2, 1, 2],
          "min_val_loss": [1.0, 1.2, 2.0, 2.2]}  # fmt: skip


def write_records(folder, columns):
    runs = {}
    for row in zip(*columns.values(), strict=True):
        experiment, split, budget, beta, seed, *point = row
        runs.setdefault((experiment, beta, seed, budget, split), []).append(point)
    for key, points in runs.items():
        identity = RunKey(*key[:4], split=key[4])
        run = RunFolder.start(folder / "runs" / identity.folder, identity)
        for step, val, train in points:
            run.log(step, val, train)
        run.finish("finished", seconds=1.0)


def test_the_table_of_a_study_gives_the_verdict_of_the_study(tmp_path):
    losses = {0.5: 2.0, 0.9: 1.0, 0.99: 1.5, (0.9, 0.999): 1.2}
    for seed in (1, 2):
        for number, (beta, loss) in enumerate(losses.items()):
            key = RunKey("a", beta, seed, 10)
            run = RunFolder.start(tmp_path / "runs" / key.folder, key)
            if (beta, seed) != (0.5, 2):  # this one is interrupted
                run.log(10, loss * (1 + 0.001 * seed * number))
                run.finish("failed" if (beta, seed) == (0.99, 2) else "finished", seconds=1.0)
    (ours,), (theirs,) = (analyse(source).experiments for source in (open_study(tmp_path).table(), tmp_path))
    assert ours.best == theirs.best
    assert [one.excess for one in ours.baselines] == [one.excess for one in theirs.baselines]


def changed(**columns):
    return {**MINIMA, **columns}


def test_csv_parquet_records_frame_and_columns_give_the_same_bytes(tmp_path, sweep_columns):
    frame = pd.DataFrame(sweep_columns)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "t.parquet")
    write_records(tmp_path / "study", sweep_columns)
    sources = [tmp_path / "t.csv", tmp_path / "t.tsv", tmp_path / "t.parquet", tmp_path / "study", frame, sweep_columns]
    sources.append(frame.astype({"beta": "float32"}))
    texts = {json.dumps(as_json(analyse(read(source))), allow_nan=False) for source in sources}
    assert len(texts) == 1
    assert str(tmp_path) not in texts.pop()


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_any_string_type_of_pandas(dtype):
    frame = pd.DataFrame(MINIMA).assign(split="heldout").astype({"experiment": dtype, "split": dtype})
    sweep = read(frame).sweeps[0]
    assert (sweep.name, sweep.split, sweep.betas) == ("a", "heldout", (0.9, 0.99))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (changed(beta=[0.9, None, 0.99, 0.99]), "row 2 has no beta"),
        (changed(beta=[0.9, 0.9, 1.5, 0.99]), r"row 3 has a beta outside \[0, 1\) \(1.5\)"),
        (changed(beta=[0.9, 0.9, "high", 0.99]), "row 3 has beta 'high', which is not a number"),
        (changed(seed=[1, 1, 1, 2]), r"row 2 repeats row 1 \(a, beta 0.9, seed 1\)"),
        (changed(seed=[1, 2.5, 1, 2]), "row 2 has a seed that is not a whole number"),
        (changed(split=["development", "test", "heldout", "heldout"]), "row 2 has split 'test'"),
        (changed(split=["development", "development", "heldout", "heldout"]), "row 3 has split heldout where row 1"),
        (changed(budget=[9000, 9000, 0, 9000]), "row 3 has a budget"),
        (changed(t_es=[1e4, 1e4, 1e4, 2e4]), "row 4 has t_es 20000.0 where row 1"),
        (changed(experiment=["a", "", "a", "a"]), "row 2 has no experiment"),
        (changed(val_loss=[1.0] * 4), "both val_loss and min_val_loss"),
        ({"experiment": ["a"], "beta": [0.9]}, "neither val_loss nor min_val_loss"),
        ({"experiment": ["a"], "beta": [0.9], "val_loss": [1.0]}, "no column 'step'"),
        ({"beta": [0.9], "min_val_loss": [1.0]}, "no column 'experiment'"),
        ({name: [] for name in MINIMA}, "no rows"),
        (changed(min_val_loss=[math.nan] * 4), "no experiment has a tied beta with a finite loss"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(columns, message):
    with pytest.raises(ValueError, match=message) as error:
        read(columns)
    assert "\n" not in str(error.value)


def test_a_bad_file_is_named(tmp_path):
    pd.DataFrame(changed(beta=[0.9, 2, 0.99, 0.99])).to_csv(tmp_path / "bad.csv", index=False)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "table.xls").write_text("")
    for name, message in (("bad.csv", "bad.csv, row 2"), ("empty.csv", "not a table"), ("table.xls", "neither"),
                          ("none.csv", "does not exist")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read(tmp_path / name)


def test_negative_losses_and_an_unknown_horizon_are_refused():
    with pytest.raises(ValueError, match="losses above 0"):
        analyse(read(changed(min_val_loss=[-1.0, -1.2, 2.0, 2.2])))
    unknown = {name: values for name, values in MINIMA.items() if name != "budget"}
    with pytest.raises(ValueError, match="give budget or t_es"):
        analyse(read(unknown))


def test_a_run_without_a_finite_loss_counts_as_worse_than_any_other_and_says_so():
    analysis = analyse(read(changed(min_val_loss=[1.0, math.nan, 2.0, 2.2])))
    experiment = analysis.experiments[0]
    assert (experiment.points[0].loss, experiment.points[0].seeds) == (math.inf, 1)
    assert experiment.best.beta is None
    assert "only one beta" in experiment.best.note
    assert any("beta 0.9, seed 2 has no finite validation loss" in sentence for sentence in analysis.missing)


def test_a_beta_without_a_finite_loss_has_an_infinite_gap_that_a_rule_pays_for():
    analysis = analyse(read(changed(min_val_loss=[math.nan, math.nan, 2.0, 2.2])))
    assert [point.excess for point in analysis.experiments[0].points] == [math.inf, 0]
    assert all(math.isinf(row.max) for row in analysis.rules if row.betas == (0.9,))
    json.dumps(as_json(analysis), allow_nan=False)


def test_one_seed_one_experiment_one_beta_are_said():
    analysis = analyse(read({"experiment": ["a"], "budget": [9000], "beta": [0.9], "min_val_loss": [1.0]}))
    text = " ".join(analysis.missing)
    assert "one beta was swept" in text
    assert "no figure has an interval over seeds" in text
    assert "One experiment" in text
    assert analysis.experiments[0].points[0].interval is None
    assert all(row.interval is None for row in analysis.rules)


def test_a_missing_grid_beta_is_said_and_not_invented():
    betas = [beta for beta in GRID if beta != 0.9]
    columns = {"experiment": ["a"] * 12, "t_es": [10_000] * 12, "beta": betas, "min_val_loss": range(1, 13)}
    experiment = analyse(read(columns)).experiments[0]
    assert "a: not swept at beta 0.9 of the paper's grid" in experiment.missing
    assert experiment.rules[1].neighbours == (0.82217, 0.94377)


def test_unfinished_failed_and_diverged_records(tmp_path):
    for beta, points, status in ((0.9, [(100, 2.0), (200, 1.0)], "finished"), (0.99, [(100, 3.0)], None),
                                 (0.5, [(100, 1.5)], "failed"), (0.999, [(100, 2.5), (200, math.nan)], "diverged"),
                                 (0.0, [], "diverged")):  # fmt: skip
        identity = RunKey("e", beta, 1, 2000)
        run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
        for step, loss in points:
            run.log(step, loss)
        if status:
            run.finish(status, seconds=1, reason="out of memory" if status == "failed" else None)
    study = read(tmp_path)
    assert study.sweeps[0].betas == (0.0, 0.9, 0.999)
    assert any("beta 0.99, seed 1 is not finished" in sentence for sentence in study.missing)
    assert any("failed (out of memory)" in sentence for sentence in study.missing)
    gaps = {point.beta: point.excess for point in analyse(study).experiments[0].points}
    assert gaps == {0.0: math.inf, 0.9: 0.0, 0.999: math.inf}


def test_an_empty_study_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no finished run"):
        read(tmp_path)


def test_untied_baselines_stand_beside_the_sweep_and_never_in_it():
    columns = {
        "experiment": ["a"] * 6,
        "budget": [9000] * 6,
        "beta": [0.9, 0.9, 0.99, 0.99, 0.9, 0.9],
        "beta2": [None, 0.9, None, None, 0.999, 0.999],
        "seed": [1, 2, 1, 2, 1, 2],
        "min_val_loss": [2.0, 2.02, 3.0, 3.05, 1.5, 1.52],
    }
    analysis = analyse(read(columns))
    experiment = analysis.experiments[0]
    (pair,) = experiment.baselines
    assert (pair.name, pair.seeds, experiment.best.beta) == ("(0.9, 0.999)", 2, 0.9)
    assert pair.excess == pytest.approx(math.sqrt(1.5 * 1.52 / (2.0 * 2.02)) - 1, abs=0.02)
    assert pair.interval.lower < pair.excess < pair.interval.upper
    assert [point.seeds for point in experiment.points] == [2, 2]


def test_untied_records_come_in_the_same_way(tmp_path):
    for beta in (0.9, 0.99, (0.9, 0.999)):
        identity = RunKey("e", beta, 1, 2000)
        run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
        run.log(2000, 1.0)
        run.finish("finished", seconds=1)
    (pair,) = analyse(read(tmp_path)).experiments[0].baselines
    assert (pair.beta1, pair.beta2, pair.excess) == (0.9, 0.999, 0.0)


def test_a_row_with_a_training_loss_alone_is_no_validation():
    columns = {"experiment": ["a"] * 4, "budget": [1000] * 4, "beta": [0.9] * 4, "step": [100, 200, 300, 400],
               "val_loss": [1.0, None, None, 0.9], "train_loss": [1.0, 0.9, None, 0.8]}  # fmt: skip
    (run,) = read(columns).sweeps[0].tied
    assert (run.val.steps, run.train.steps) == ((100, 300, 400), (100, 200, 400))


def test_a_pair_with_one_seed_is_compared_by_that_seed():
    columns = {
        "experiment": ["a"] * 6,
        "budget": [9_000] * 6,
        "beta": [0.93, 0.93, 0.99, 0.99, 0.5, 0.9],
        "beta2": [None] * 5 + [0.999],
        "seed": [1, 2, 1, 2, 1, 1],
        "min_val_loss": [2.0, 4.0, 2.2, 4.4, 2.2, 2.1],
    }
    (found,) = analyse(read(columns)).experiments
    (pair,) = found.baselines
    assert (pair.against, pair.is_recommended) == (pytest.approx(0.9313, abs=1e-3), True)
    assert pair.excess == pytest.approx(2.1 / 2.0 - 1, abs=1e-3)  # with the seed that both have
