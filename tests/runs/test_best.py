"""Which beta is best: one verdict from every door, paired by seed, that never claims more than was measured."""

import json
import math
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oneclock.lab.sweep_target  # noqa: F401 - committed studies are of experiments of the lab
from oneclock.recommend import short_beta
from oneclock.report import folder
from oneclock.report.folder import subject_of
from oneclock.runs.best import Interval, at_best_lrs, best_of, judge
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.paired import PairedSweep
from oneclock.runs.protocols import Grid
from oneclock.runs.record import RunRecord
from oneclock.runs.store import Study
from oneclock.stats import analyse, as_json, read
from oneclock.sweep import Plan
from oneclock.sweep.targets import Function
from oneclock.sweep.view import status

STUDIES = sorted(path.parent for path in (Path(__file__).parents[2] / "studies").glob("*/study.json"))
COMMITTED = [path for path in STUDIES if not Study(path).missing()]  # one that is under way has no verdict yet
BETAS = (0.5, 0.82217, 0.9, 0.94377, 0.99)


def best_beta(runs):
    return judge(PairedSweep((beta, None, seed, loss) for beta, seed, loss in runs))


def valley(beta, seed, depth=0.05, noise=0.0):
    lift = {1: 0.0, 2: 0.3, 3: -0.2}[seed]
    wobble = noise * math.sin(1000 * beta + 7 * seed)
    return 2 + depth * (math.log10(1 - beta) + 1) ** 2 + lift + wobble


def paper_like(loss_of, betas=BETAS, again=(0.82217, 0.9, 0.94377)):
    return {(b, s): loss_of(b, s) for b in betas for s in ((1, 2, 3) if b in again else (1,))}


MADE = {
    "unequal seeds": paper_like(valley),
    "unequal seeds, noisy": paper_like(lambda b, s: valley(b, s, noise=0.02)),
    "a lucky seed": paper_like(valley) | {(0.5, 1): valley(0.9, 1) - 0.001},
    "a diverged run": paper_like(valley) | {(0.9, 2): math.inf},
    "all but one diverged": {(b, 1): math.inf for b in BETAS[1:]} | {(0.5, 1): 2.0},
    "equal losses": {(b, s): 1.5 for b in BETAS for s in (1, 2)},
    "equal but for the seed": {(b, s): 1.5 + s for b in BETAS for s in (1, 2)},
    "one seed": {(b, 1): valley(b, 1) for b in BETAS},
    "one beta": {(0.9, s): valley(0.9, s) for s in (1, 2, 3)},
    "best at the upper end": {(b, s): 3 - b + 0.01 * s * b for b in BETAS for s in (1, 2)},
    "best at the lower end": {(b, s): 1 + b + 0.01 * s * b for b in BETAS for s in (1, 2)},
    "two equal seeds": {(b, s): valley(b, 1) for b in BETAS for s in (1, 2)},
    "seeds that do not overlap": {(0.5, 1): 2.0, (0.9, 2): 1.9, (0.99, 3): 2.1},
    "a failed run": paper_like(valley) | {(0.94377, 3): math.nan},
    "two betas": {(b, s): valley(b, s, noise=0.01) for b in (0.5, 0.9) for s in (1, 2, 3)},
}


def write(path, losses, name="mine", budget=8000, rates=None):
    for (beta, seed), loss in losses.items():
        for rate, more in (rates or {None: 0.0}).items():
            identity = RunKey(name, beta, seed, budget, rate)
            run = RunFolder.start(path / "runs" / identity.folder, identity)
            for step in (budget // 2, budget):
                value = loss + more + (0.5 if step < budget else 0.0)
                run.log(step, val_loss=math.nan if math.isinf(loss) and step == budget else value)
            ending = "failed" if math.isnan(loss) else "diverged" if math.isinf(loss) else "finished"
            run.finish(ending, seconds=1.0, reason="none" if ending == "failed" else None)
    betas, seeds = sorted({beta for beta, _ in losses}), sorted({seed for _, seed in losses})
    plan = Plan(path, [Function(name, budget, "train.py:train")], Grid(tuple(betas), tuple(seeds)))
    plan.study.write_header(plan.described)
    return path


def best_by_status(path):
    targets = status(Plan.read(path))["targets"]
    return {name: (one["best_beta"], one["best_interval"], one["tied_with"]) for name, one in targets.items()}


def best_by_study(path):
    study, found = Study.open(path), {}
    for name in study.experiments:
        best = study.best(name)
        found[name] = best.beta, best.interval and asdict(best.interval), list(best.tied_with)
    return found


def best_by_analysis(data):
    best = {one["name"]: one["best"] for one in data["experiments"]}
    return {name: (one["beta"], one["interval"], one["tied_with"]) for name, one in best.items()}


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_every_door_says_the_same_best_of_a_committed_study(path):
    expected = best_by_study(path)
    assert best_by_status(path) == expected
    assert best_by_analysis(as_json(analyse(read(path)))) == expected
    assert all(beta is not None and interval is not None for beta, interval, _ in expected.values())


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_no_tied_beta_lies_outside_the_interval(path):
    for sweep in read(path).sweeps:
        best = best_of(sweep.runs)
        assert all(best.interval.lower <= beta <= best.interval.upper for beta in (best.beta, *best.tied_with))


@pytest.mark.parametrize("losses", MADE.values(), ids=MADE)
def test_every_door_says_the_same_best_of_a_made_study(tmp_path, losses):
    path = write(tmp_path / "s", losses)
    expected = best_by_study(path)
    assert best_by_status(path) == expected
    if not any(math.isfinite(loss) for loss in losses.values()):
        return
    assert best_by_analysis(as_json(analyse(read(path)))) == expected
    folder.write_subject(subject_of(path), tmp_path / "report", "oneclock report s", formats=())
    written = json.loads((tmp_path / "report" / "data" / "analysis.json").read_text())
    assert best_by_analysis(written) == expected
    page = (tmp_path / "report" / "report.html").read_text()
    beta = expected["mine"][0]
    assert f"Best beta {short_beta(beta)}" in page if beta is not None else "No best beta" in page


def test_the_commands_print_it_as_json(tmp_path):
    path = write(tmp_path / "s", MADE["unequal seeds, noisy"])
    said = [
        json.loads(subprocess.run([sys.executable, "-m", "oneclock", *line], capture_output=True, check=True).stdout)
        for line in (["status", path, "--json"], ["analyse", path, "--json"])
    ]
    target, (experiment,) = said[0]["targets"]["mine"], said[1]["experiments"]
    for name in ("beta", "interval", "note"):
        assert target[f"best_{name}"] == experiment["best"][name], name
    assert target["tied_with"] == experiment["best"]["tied_with"]
    plain = subprocess.run([sys.executable, "-m", "oneclock", "status", path], capture_output=True, text=True).stdout
    assert re.search(rf"best beta {short_beta(target['best_beta'])} \(", plain)


@pytest.mark.parametrize(
    ("case", "beta", "word"),
    [
        ("unequal seeds", 0.9, "statistically"),
        ("a diverged run", 0.82217, "the same factor"),  # the valley is symmetric
        ("all but one diverged", None, "nothing to compare it with"),
        ("equal losses", None, "the same loss"),
        ("equal but for the seed", None, "the same loss"),
        ("one seed", 0.9, "one seed: no interval"),
        ("one beta", None, "nothing to compare it with"),
        ("best at the upper end", 0.99, "at the edge of the sweep: 0.99 is the largest"),
        ("best at the lower end", 0.5, "at the edge of the sweep: 0.5 is the smallest"),
        ("two equal seeds", 0.9, "all seeds gave the same losses"),
        ("a failed run", 0.9, ""),
    ],
)
def test_the_best_of_a_case_and_what_is_said_of_it(case, beta, word):
    found = best_beta((b, seed, loss) for (b, seed), loss in MADE[case].items())
    assert found.beta == beta
    assert word in found.note
    assert (found.interval is None) == (beta is None or case in ("one seed", "two equal seeds", "a diverged run"))


@pytest.mark.parametrize("kind", [float, np.float32])
def test_seeds_that_differ_by_one_factor_give_no_certainty_by_rounding(kind):
    found = best_beta(
        (b, s, float(kind(valley(b, 1) * factor))) for b in BETAS for s, factor in {1: 1, 2: 0.5, 3: 3}.items()
    )
    assert (found.beta, found.interval, found.tied_with) == (0.9, None, ())


def test_a_beta_that_failed_beyond_the_best_was_swept_all_the_same():
    runs = [(b, seed, valley(b, seed)) for b in (0.5, 0.68377, 0.82217) for seed in (1, 2)]
    found = best_beta([*runs, (0.9, 1, math.nan), (0.9, 2, math.nan)])
    assert "0.82 is the largest beta with a result" in found.note


def test_a_beta_with_one_seed_is_held_against_the_same_seed_of_the_others():
    lifts = {1: -0.5, 2: 0.0, 3: 0.5}
    runs = [(b, s, valley(b, 1) + lifts[s]) for b in (0.82217, 0.9, 0.94377) for s in (1, 2, 3)]
    runs += [(0.5, 1, valley(0.5, 1) + lifts[1])]
    means = {b: np.mean([loss for one, _, loss in runs if one == b]) for b in (0.5, 0.9)}
    assert means[0.5] < means[0.9]  # by plain means its one lucky seed would win
    found = best_beta(runs)
    assert found.beta == 0.9
    assert 0.5 not in found.tied_with


def test_no_answer_where_nothing_ran_or_nothing_is_finite():
    assert best_beta([]).note == "no run with one beta has finished"
    assert "no beta ended with a finite loss" in best_beta([(0.9, 1, math.inf), (0.5, 1, math.nan)]).note


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from([0.0, *BETAS, 0.96838, 0.999]), st.integers(1, 4)),
        st.one_of(st.floats(-5, 5), st.just(math.inf), st.just(math.nan), st.just(1.0)),
        max_size=24,
    )
)
@example({(0.5, 1): 1.0, (0.5, 2): 1.0, (0.5, 3): 1.0, (0.0, 2): 0.0, (0.0, 3): math.inf})
def test_any_losses_have_an_answer_or_a_word(losses):
    found = best_beta((b, s, loss) for (b, s), loss in losses.items())
    finite = {b for (b, _), loss in losses.items() if math.isfinite(loss)}
    diverged = {b for (b, _), loss in losses.items() if math.isinf(loss)}
    assert found.note
    assert found.beta is None or found.beta in finite - diverged
    if found.interval is not None:
        assert found.interval.lower <= found.beta <= found.interval.upper
        assert found.beta not in found.tied_with


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_seeds_own_factor_changes_nothing(data):
    noise = np.random.default_rng(data.draw(st.integers(0, 10**6))).normal(0, 0.01, (5, 3))
    lifts = data.draw(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3))
    losses = {(b, s): valley(b, 1) + noise[i, s - 1] for i, b in enumerate(BETAS) for s in (1, 2, 3)}
    plain = best_beta((b, s, loss) for (b, s), loss in losses.items())
    lifted = best_beta((b, s, loss * math.exp(lifts[s - 1])) for (b, s), loss in losses.items())
    assert (lifted.beta, lifted.tied_with) == (plain.beta, plain.tied_with)
    assert lifted.interval == plain.interval
    assert plain.interval.lower <= plain.beta <= plain.interval.upper


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = tied = 0
    for _ in range(200):
        noise, lift = rng.normal(0, 0.02, (5, 3)), rng.normal(0, 0.1, 3)
        runs = [(b, s, valley(b, 1) + noise[i, s - 1] + lift[s - 1]) for i, b in enumerate(BETAS) for s in (1, 2, 3)]
        found = best_beta(runs)
        held += found.interval.lower <= 0.9 <= found.interval.upper
        tied += found.beta == 0.9 or 0.9 in found.tied_with
    assert held >= 180
    assert tied >= 180


def test_each_beta_is_compared_at_its_own_best_rate(tmp_path):
    losses = paper_like(valley)
    path = write(tmp_path / "s", losses, rates={0.5: 0.0, 1.0: 0.2, 2.0: 0.4})
    (sweep,) = read(path).sweeps
    assert {run.lr for run in sweep.tied} == {0.5, 1.0, 2.0}
    assert {run.lr for run in at_best_lrs(sweep).tied} == {0.5}
    found, alone = best_of(sweep.runs), best_beta((b, s, loss) for (b, s), loss in losses.items())
    assert found.beta == alone.beta
    assert (found.lr, alone.lr) == (0.5, None)
    assert found.at_edge == ("lr",)
    assert "0.5 is the smallest learning rate swept" in found.note
    assert best_by_study(path) == best_by_analysis(as_json(analyse(read(path))))
    assert isinstance(Study.open(path).best().interval, Interval)


def test_every_door_names_the_learning_rate_of_the_best_beta(tmp_path):
    path = write(tmp_path / "s", paper_like(valley), rates={5e-4: 0.2, 1e-3: 0.0, 2e-3: 0.1})
    study, analysis = Study.open(path), analyse(read(path))
    found, (result,) = status(Plan.read(path))["targets"]["mine"], analysis.experiments
    assert study.best() == best_of(read(path).sweeps[0].runs)
    assert study.best().lr == found["best_lr"] == result.best.lr == 1e-3
    assert found["best_summary"].startswith("best beta 0.9 at lr 0.001 (95 % CI ")
    assert {point.lr for point in result.points} == {1e-3}


def test_the_rate_of_an_experiment_is_its_learning_rate_and_not_the_factor(tmp_path):
    for factor in (0.5, 1.0, 2.0):
        for beta in (0.5, 0.9, 0.99):
            spec = {"optimizer": {"lr": 0.003 * factor}}
            identity = RunKey("digits", beta, 1, 10, factor, spec=spec)
            run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
            run.log(10, val_loss=1 + abs(beta - 0.9) + abs(factor - 1.0))
            run.finish("finished", seconds=1.0)
    study = Study(tmp_path)
    assert (study.best().beta, study.best().lr) == (0.9, 0.003)
    assert study.best() == best_of(read(tmp_path).sweeps[0].runs)


def test_one_rate_is_no_answer_about_rates():
    losses = ((0.5, 2.0), (0.9, 1.0), (0.99, 3.0))
    runs = [RunRecord(RunKey("a", beta, 1, 10, 1e-3), "finished", 10, loss) for beta, loss in losses]
    assert best_of(runs).lr is None
    left_alone = [replace(run, key=replace(run.key, lr=None)) for run in runs]
    left_alone.append(RunRecord(RunKey("a", 0.9, 1, 10, 1e-3), "finished", 10, 1.5))
    assert best_of(left_alone).lr is None


def test_a_record_in_another_runs_folder_counts_as_what_it_says(tmp_path):
    for beta, loss in ((0.5, 2.0), (0.9, 1.0), (0.99, 1.5)):
        identity = RunKey("digits", beta, seed=1, budget=10)
        run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
        run.log(10, val_loss=loss)
        run.finish("finished", seconds=1.0)
    (tmp_path / "runs/digits/beta-0.9-seed-1").rename(tmp_path / "runs/digits/beta-0.95-seed-1")
    study = Study(tmp_path)
    assert study.best().beta == 0.9
    assert sorted({run.beta for run in study.runs("digits")}) == [0.5, 0.9, 0.99]
