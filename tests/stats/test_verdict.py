"""What a verdict may claim: missing runs, repeated seeds, edges, baselines, impossible percentages."""

import csv
import math
from dataclasses import replace

import pytest

from oneclock.report import folder
from oneclock.report.brief import in_words
from oneclock.report.folder import subject_of
from oneclock.report.sweeps import sweep_chart
from oneclock.report.words import answer
from oneclock.rule import Fixed
from oneclock.runs.best import Baseline, Best, Difference, Interval, judge, next_step
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.paired import PairedSweep, between
from oneclock.runs.record import RunRecord
from oneclock.runs.store import Study
from oneclock.stats import analyse, read

BETAS = (0.68377, 0.82217, 0.9, 0.94377, 0.96838)


def best_beta(runs):
    return judge(PairedSweep((beta, None, seed, loss) for beta, seed, loss in runs))


def loss_at(beta, seed, depth=0.2, noise=0.0005):
    wobble = noise * math.sin(1000 * beta + 7 * seed)
    return 2 + depth * (math.log10(1 - beta) + 1) ** 2 + 0.02 * seed + wobble


def write(path, runs):
    """A study of (beta, seed, loss, ending); an ending of None leaves the run unfinished."""
    for beta, seed, loss, ending in runs:
        key = RunKey("mine", beta, seed, 8000)
        run = RunFolder.start(path / "runs" / key.folder, key)
        run.log(4000, val_loss=loss + 0.5)
        if ending is not None:
            run.log(8000, val_loss=loss)
            run.finish(ending, seconds=1.0, reason="out of memory" if ending == "failed" else None)
    return path


@pytest.mark.parametrize("ending", ["failed", None])
def test_a_neighbour_without_a_result_widens_the_claim_and_leaves_a_gap_in_the_figure(tmp_path, ending):
    whole = [(beta, seed, loss_at(beta, seed), "finished") for beta in BETAS for seed in (1, 2, 3)]
    path = write(tmp_path / "whole", whole)
    clear = Study.open(path).best()
    assert (clear.beta, clear.interval, clear.not_measured) == (0.9, Interval(0.9, 0.9), ())
    lost = [(b, s, loss, ending if b == 0.94377 else end) for b, s, loss, end in whole]
    path = write(tmp_path / "lost", lost)
    found, analysis = Study.open(path).best(), analyse(path)
    (result,) = analysis.experiments
    assert found == result.best
    assert (found.beta, found.interval, found.not_measured) == (0.9, Interval(0.9, 0.94377), (0.94377,))
    assert "no result yet at 0.944" in found.note
    assert "BalancedAdamW" not in next_step(found)
    lines = [one for one in sweep_chart(result, BETAS).series if one.dash == "solid"]
    assert [len(one.x) for one in lines] == [3, 1]


@pytest.mark.parametrize("reason", [None, "stopped early: no improvement"])
def test_runs_that_end_before_others_are_counted_in_the_verdict(tmp_path, reason):
    for beta in (0.5, 0.9, 0.99):
        for seed in (1, 2):
            key = RunKey("mine", beta, seed, 1000)
            run = RunFolder.start(tmp_path / "runs" / key.folder, key)
            for step in (0, 500, 1000)[: 2 if beta == 0.9 else 3]:
                run.log(step, val_loss=loss_at(beta, seed))
            run.finish("finished", seconds=1.0, reason=reason)
    (result,) = analyse(tmp_path).experiments
    for best in (Study.open(tmp_path).best(), result.best):
        assert ("2 of 6 runs end before step 1,000" in best.note) == (reason is None)


def test_no_rule_is_judged_across_a_beta_without_a_result(tmp_path):
    """A straight line over the missing beta would give a figure with a narrow CI, and a wrong one."""
    runs = [(beta, seed, loss_at(beta, seed), "finished") for beta in BETAS for seed in (1, 2, 3)]
    lost = [(b, s, loss, "failed" if b == 0.94377 else end) for b, s, loss, end in runs]
    (whole,) = analyse(write(tmp_path / "whole", runs)).experiments
    (gap,) = analyse(write(tmp_path / "gap", lost)).experiments
    (recommended, paper) = gap.rules
    assert whole.rules[0].neighbours == (0.9, 0.94377)
    assert (recommended.excess, recommended.interval) == (None, None)
    assert paper.excess is not None  # between two that have results


def test_a_best_beta_of_which_runs_failed_is_not_relied_on(tmp_path):
    runs = [(beta, seed, loss_at(beta, seed), "finished") for beta in BETAS for seed in (1, 2, 3)]
    lost = [(b, s, loss, "failed" if (b, s) in ((0.9, 2), (0.9, 3)) else end) for b, s, loss, end in runs]
    path = write(tmp_path / "s", lost)
    found, (result,) = Study.open(path).best(), analyse(path).experiments
    assert found == result.best
    assert (found.beta, found.lost_runs) == (0.9, 2)
    assert "2 runs have no result at 0.9" in found.note
    assert "BalancedAdamW" not in next_step(found)
    assert "0.9" in next_step(found)
    assert Study.open(write(tmp_path / "whole", runs)).best().lost_runs == 0


def test_a_missing_beta_behind_one_that_is_worse_changes_nothing():
    runs = [(beta, seed, loss_at(beta, seed)) for beta in BETAS for seed in (1, 2, 3)]
    lost = [(b, s, math.nan if b == 0.96838 else loss) for b, s, loss in runs]
    assert best_beta(lost).interval == best_beta(runs).interval == Interval(0.9, 0.9)


def test_a_diverged_neighbour_is_known_to_be_worse():
    runs = [(b, s, math.inf if b == 0.94377 else loss_at(b, s)) for b in BETAS for s in (1, 2, 3)]
    found = best_beta(runs)
    assert (found.beta, found.interval, found.not_measured) == (0.9, Interval(0.9, 0.9), ())


def test_seeds_that_repeat_each_other_are_no_certainty():
    found = best_beta((beta, seed, loss_at(beta, 1)) for beta in BETAS for seed in (1, 2, 3))
    assert found.seeds_repeat
    assert (found.interval, found.tied_with) == (None, ())
    assert "seed" in found.note
    assert "BalancedAdamW" not in next_step(found)


def test_a_seed_that_repeats_another_counts_once():
    distinct = [(b, s, loss_at(b, s, noise=0.01)) for b in BETAS for s in (1, 2)]
    repeated = distinct + [(b, 3, loss * (1 + 1e-9)) for b, s, loss in distinct if s == 2]
    found, alone = best_beta(repeated), best_beta(distinct)
    assert (found.beta, found.interval, found.tied_with) == (alone.beta, alone.interval, alone.tied_with)
    assert not found.seeds_repeat
    assert "seed 3" in found.note


@pytest.mark.parametrize("odd", BETAS)
def test_a_seed_that_repeats_another_at_all_betas_but_one_gives_no_certainty(odd):
    found = best_beta((b, s, loss_at(b, 1) * (1.001 if (b, s) == (odd, 2) else 1)) for b in BETAS for s in (1, 2))
    assert found.seeds_repeat
    assert (found.interval, found.tied_with) == (None, ())


def test_a_loss_that_two_seeds_share_by_chance_is_no_repeat():
    runs = {(b, s): loss_at(b, s, noise=0.01) for b in BETAS for s in (1, 2)}
    runs[BETAS[0], 2] = runs[BETAS[0], 1]
    assert best_beta((b, s, loss) for (b, s), loss in runs.items()).interval is not None


def test_seeds_of_which_one_diverged_do_not_repeat_each_other():
    runs = [(beta, seed, loss_at(beta, 1)) for beta in BETAS for seed in (1, 2)]
    assert best_beta(runs).seeds_repeat
    runs[-1] = (*runs[-1][:2], math.inf)
    assert not best_beta(runs).seeds_repeat


def test_seeds_that_repeat_each_other_give_no_interval_anywhere():
    rows = [(b, s, loss_at(b, 1)) for b in BETAS for s in (1, 2, 3)]
    columns = dict(zip(("beta", "seed", "min_val_loss"), zip(*rows, strict=True), strict=True))
    analysis = analyse(columns | {"experiment": ["a"] * len(rows), "budget": [8000] * len(rows)})
    (result,) = analysis.experiments
    assert all(one.interval is None for one in result.points)
    assert all(one.interval is None for one in result.rules)


@pytest.mark.parametrize(("lr", "open_at"), [(2.0, (0.94377,)), (8.0, ())])
def test_a_learning_rate_without_a_result_counts_where_the_beta_may_be_better_there(lr, open_at):
    """Next to a beta's best learning rate a missing run may have been the best one; far from it, it may not."""
    lrs = (1.0, 2.0, 4.0, 8.0)
    runs = [
        (b, rate, s, loss_at(b, s) * (1 + 0.05 * abs(math.log2(rate))))
        for b in BETAS
        for rate in lrs
        for s in (1, 2, 3)
    ]
    whole = judge(PairedSweep(runs))
    assert (whole.beta, whole.not_measured) == (0.9, ())
    lost = [(b, r, s, math.nan if (b, r) == (0.94377, lr) else loss) for b, r, s, loss in runs]
    found = judge(PairedSweep(lost))
    assert (found.beta, found.not_measured) == (0.9, open_at)
    assert found.interval == (Interval(0.9, 0.94377) if open_at else whole.interval)


def test_a_rule_is_not_charged_with_a_learning_rate_that_was_not_the_best():
    """The run at the best learning rate of the recommended beta is missing: what is left says nothing about it."""
    cells = [(b, lr) for b in BETAS for lr in (0.0001, 0.001, 0.01) if (b, lr) != (0.94377, 0.001)]
    runs = [
        ("mine", 14_000, b, lr, seed, loss_at(b, seed) * (1 + 0.05 * abs(math.log10(lr) + 3)))
        for b, lr in cells
        for seed in (1, 2)
    ]
    names = ("experiment", "budget", "beta", "lr", "seed", "min_val_loss")
    study = read(dict(zip(names, zip(*runs, strict=True), strict=True)))
    lost = [RunRecord(RunKey("mine", 0.94377, seed, 14_000, 0.001), "failed") for seed in (1, 2)]
    study = replace(study, sweeps=(replace(study.sweeps[0], without_result=tuple(lost)),))
    analysis = analyse(study)
    (result,) = analysis.experiments
    recommended = result.rules[0]
    assert recommended.beta == pytest.approx(0.944, abs=0.001)
    assert (recommended.excess, recommended.interval) == (None, None)
    assert analysis.recommended.excesses == (None,)
    (row,) = [line.split() for line in in_words(analysis).splitlines() if line.startswith("0.94377 ")]
    assert "<=" in row


def test_the_way_beyond_an_edge_names_options_of_the_sweep():
    steps = next_step(Best(0.9, None, (), "", at_edge=("beta", "lr")))
    assert {word for word in steps.split() if word.startswith("--")} == {"--extend", "--betas", "--learning-rates"}


def test_a_loss_below_zero_is_refused_where_shares_of_a_loss_are_printed():
    """Its mean over seeds may be positive; a share of it says nothing all the same."""
    rows = [(b, s, loss_at(b, s)) for b in BETAS for s in (1, 2, 3)]
    rows[0] = (*rows[0][:2], -0.1)
    columns = dict(zip(("beta", "seed", "min_val_loss"), zip(*rows, strict=True), strict=True))
    with pytest.raises(ValueError, match=r"seed 1 has the loss -0\.1"):
        analyse(columns | {"experiment": ["a"] * len(rows), "budget": [8000] * len(rows)})


def test_a_rule_between_the_best_beta_and_a_tied_one_is_tied_too():
    """One screen, one definition: what a rule costs follows from the betas beside it."""
    rows = [(b, s, loss_at(b, s, noise=0.01)) for b in BETAS for s in (1, 2, 3)]
    columns = dict(zip(("beta", "seed", "min_val_loss"), zip(*rows, strict=True), strict=True))
    study = columns | {"experiment": ["a"] * len(rows), "budget": [8000] * len(rows)}
    (result,) = analyse(study, rules=[Fixed(0.93)]).experiments
    points = {point.beta: point for point in result.points}
    assert {result.best.beta, *result.best.tied_with} >= {0.9, 0.94377}
    cost = result.rules[-1]
    ends = [(points[b].excess, points[b].interval) for b in cost.neighbours]
    assert min(value for value, _ in ends) <= cost.excess <= max(value for value, _ in ends)
    assert cost.interval.lower <= 0


def test_the_best_beta_costs_nothing_against_itself_and_ties_follow_from_the_printed_intervals():
    """A lucky one-seed beta has the smallest plain mean; on the screen it is not the reference."""
    rows = [(beta, seed, loss_at(beta, seed, noise=0.01)) for beta in BETAS for seed in (1, 2, 3)]
    rows = [row for row in rows if row[0] != 0.96838 or row[1] == 1]
    rows = [(b, s, loss - 0.03 if b == 0.96838 else loss) for b, s, loss in rows]
    columns = dict(zip(("beta", "seed", "min_val_loss"), zip(*rows, strict=True), strict=True))
    analysis = analyse(columns | {"experiment": ["a"] * len(rows), "budget": [8000] * len(rows)})
    (result,) = analysis.experiments
    points = {point.beta: point for point in result.points}
    assert (points[result.best.beta].excess, points[result.best.beta].interval) == (0.0, None)
    tied = {b for b, one in points.items() if one.interval is not None and one.interval.lower <= 0}
    assert tied == {*result.best.tied_with}
    table = in_words(analysis).splitlines()
    (line,) = [one for one in table if one.startswith(f"{result.best.beta:g} ")]
    assert "best" in line


def test_no_percentage_below_minus_one_hundred():
    """Additive effects of seeds as large as the losses: what is left of a loss stays a loss."""
    runs = [(b, None, s, 0.05 + 0.02 * k + 3.0 * (s - 1)) for k, b in enumerate(BETAS) for s in (1, 2)]
    sweep = PairedSweep([*runs, ((0.9, 0.999), None, 2, 0.2)])
    assert all(loss > 0 for loss in sweep.losses.values())
    (found,) = sweep.compare([({((0.9, 0.999), None): 1.0}, {(0.9, None): 1.0})])
    assert -1 < found.interval.lower <= found.value <= found.interval.upper


def test_a_better_baseline_is_what_comes_next():
    better = Baseline((0.9, 0.95), 0.001, Difference(-0.048, Interval(-0.06, -0.03)))
    tied = Baseline((0.9, 0.95), None, Difference(-0.01, Interval(-0.03, 0.01)))
    unsure = Baseline((0.9, 0.95), None, Difference(-0.01, None))
    best = Best(0.9, Interval(0.9, 0.9), (), "")
    assert next_step(best).startswith("BalancedAdamW(")
    line = next_step(Best(0.9, Interval(0.9, 0.9), (), "", baselines=(better,)))
    assert line.startswith("AdamW(model.parameters(), lr=0.001, betas=(0.9, 0.95))")
    assert "BalancedAdamW" not in line
    assert "statistically tied" in next_step(Best(0.9, Interval(0.9, 0.9), (), "", baselines=(tied,)))
    assert "BalancedAdamW" not in next_step(Best(0.9, None, (), "", baselines=(unsure,)))


def test_runs_of_a_report_read_again_keep_what_diverged(tmp_path):
    runs = [(b, s, loss_at(b, s), "finished") for b in BETAS[:3] for s in (1, 2)]
    path = write(tmp_path / "s", runs)
    for seed in (1, 2):
        key = RunKey("mine", 0.94377, seed, 8000)
        run = RunFolder.start(path / "runs" / key.folder, key)
        run.log(4000, val_loss=1.0)  # lower than any, before it diverged
        run.log(8000, val_loss=math.nan)
        run.finish("diverged", seconds=1.0)
    folder.write_subject(subject_of(path), tmp_path / "report", "oneclock report s", formats=())
    table = tmp_path / "report" / "data" / "runs.csv"
    with open(table, newline="") as file:
        statuses = {row["beta"]: row["status"] for row in csv.DictReader(file)}
    assert statuses["0.94377"] == "diverged"
    again = read(table).sweeps[0]
    assert analyse(table).experiments[0].best.beta == Study.open(path).best().beta == 0.9
    assert all(math.isinf(run.loss) for run in again.tied if run.beta == 0.94377)


def test_a_beta_between_two_swept_ones_is_not_charged_with_the_worse():
    shares = between(0.93, BETAS)
    assert sorted(shares) == [0.9, 0.94377]
    assert sum(shares.values()) == pytest.approx(1)
    assert between(0.9, BETAS) == {0.9: 1.0}
    assert between(0.5, BETAS) is None
    assert between(0.7, (0.5, 0.99)) is None


def test_noise_is_pooled_over_all_cells_and_separate_for_a_pair_that_spreads_more():
    runs = [
        (b, lr, s, loss_at(b, s) * (1 + 0.01 * k)) for b in BETAS for k, lr in enumerate((1.0, 2.0)) for s in (1, 2, 3)
    ]
    assert PairedSweep(runs).noise[0].freedom == 10 * 2 - 2
    wild = [((0.9, 0.999), 1.0, s, 2.1 + 0.2 * (s - 2)) for s in (1, 2, 3)]
    sweep = PairedSweep([*runs, *wild])
    assert len(sweep.noise) == 2
    assert sweep.noise[0].spread < 0.002 < 0.05 < sweep.noise[1].spread
    calm = [((0.9, 0.999), 1.0, s, loss_at(0.9, s)) for s in (1, 2, 3)]
    assert PairedSweep([*runs, *calm]).noise[0].freedom == 11 * 2 - 2


def test_runs_without_a_result_are_in_the_table_of_a_report(tmp_path):
    runs = [(b, s, loss_at(b, s), "failed" if b == 0.94377 else "finished") for b in BETAS for s in (1, 2, 3)]
    path = write(tmp_path / "s", runs)
    folder.write_subject(subject_of(path), tmp_path / "report", "oneclock report s", formats=())
    (first,), (again,) = (
        analyse(source).experiments for source in (tmp_path / "s", tmp_path / "report" / "data" / "runs.csv")
    )
    assert first.not_measured == again.not_measured == (0.94377,)
    assert (first.best.interval, first.best.not_measured) == (again.best.interval, again.best.not_measured)


def test_no_rule_has_the_best_beta_where_none_is_best():
    table = {"experiment": "a" * 6, "budget": [9_000] * 6, "beta": [0.5, 0.76, 0.9] * 2, "seed": [1] * 3 + [2] * 3}
    (result,) = analyse(table | {"min_val_loss": [2.0] * 6}).experiments
    assert result.best.beta is None
    assert not [line for line in answer(result) if line.endswith("the best.")]
