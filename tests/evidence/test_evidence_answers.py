"""What the evidence says: the table of candidates, the decision, the answer for every length, and its screens."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneclock.cli import app
from oneclock.evidence import model
from oneclock.evidence.excess import curve
from oneclock.evidence.near import lr_advice, near
from oneclock.evidence.table import grouped, read_sweeps, sources, sweeps
from oneclock.evidence.untied import two_betas
from oneclock.lab.evidence import compare, families
from oneclock.lab.evidence.figure import best_memory, draw_svg
from oneclock.lab.evidence.records import study_sweeps
from oneclock.recommend import recommend
from oneclock.rule import RECOMMENDED

ROOT = Path(__file__).parents[2]
LENGTHS = (1, 100, 300, 1_000, 4_000, 20_000, 64_000, 300_000, 2_400_000)


def printed(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def mean(groups, name, rule):
    return next(group for group in groups if group.name == name).losses[rule].mean


def test_the_recommended_rule_loses_least_over_all_sources():
    for group in compare.in_all():
        losses = {name: loss.mean for name, loss in group.losses.items()}
        assert min(losses, key=losses.get) == "recommended"
    chose, tests = compare.in_all()
    assert (chose.sweeps, chose.chose, tests.chose) == (71, True, False)
    expected = {"recommended": (0.97, 10.1, 3.3), "0.9": (2.8, 21.7, 7.6), "0.944": (3.9, 18.4, 10.8)}
    for rule, (mean_loss, largest, cvar) in {**expected, "former": (1.7, 30.0, 5.8)}.items():
        loss = chose.losses[rule]
        assert loss.mean == pytest.approx(mean_loss, abs=0.1)
        assert loss.largest == pytest.approx(largest, abs=0.1)
        assert loss.cvar == pytest.approx(cvar, abs=0.1)


def test_the_papers_eleven_by_its_own_protocol():
    losses = compare.by_protocol().losses
    for rule, numbers in {
        "recommended": (0.29, 1.07, 0.90),
        "0.944": (0.29, 1.33, 1.06),
        "paper": (0.31, 0.88, 0.71),
    }.items():
        assert (losses[rule].mean, losses[rule].largest, losses[rule].cvar) == pytest.approx(numbers, abs=0.006)


def test_one_command_prints_every_source_and_length_and_marks_what_chose_nothing():
    lines = printed("evidence").splitlines()
    marked = {words[0] for line in lines if (words := line.split())[1:2] == ["*"]}
    assert marked == {"batch", "size", "long", "marek-30m", "marek-gpt2", "marin"}
    made = json.loads(printed("evidence", "--json"))
    assert {one["name"] for one in made["source"]} == {one.source for one in model.deciding(sweeps())}
    assert all(one["chose"] == sources()[one["name"]].chose for one in made["source"])
    for group in made["source"] + made["steps"] + made["all"] + made["protocol"]:
        assert any(line.startswith(group["name"]) for line in lines)


def test_the_published_30_m_model_is_what_its_table_says():
    groups = compare.by_source()
    for rule, expected in {"recommended": 0.17, "former": 0.64, "0.9": 1.25, "0.944": 2.6}.items():
        assert mean(groups, "marek-30m", rule) == pytest.approx(expected, abs=0.03)
    (row,) = [group for group in groups if group.name == "marek-30m"]
    assert row.losses["paper"].answered == 6  # none up to 1,000 steps
    assert row.losses["recommended"].at_least == 0


def test_no_rule_with_one_constant_beats_it_whichever_source_is_left_out():
    found = {one.name: one for one in families.families()}
    assert not any(one.beats for one in found.values())
    own = found["1 + sqrt(T) / c"]
    assert all(6 < constant < 8.5 for constant in own.constants_left_out.values())
    assert own.left_out <= min(one.left_out for one in found.values())
    assert found["fixed, c"].worse_low > 0


def test_the_ranges_of_the_package_are_those_of_the_model():
    for place in (0, 23, 30, 43, 55, 64):
        found = model.expected(10 ** (place / 10))
        kept = model.known_range(10 ** (place / 10))
        made = model.range_from(found.steps, *model.range_numbers(found))
        assert kept.low == pytest.approx(made.low, abs=1e-4)
        assert kept.high == pytest.approx(made.high, abs=1e-4)
        assert kept.tasks == pytest.approx(made.tasks, abs=1e-3)


def test_the_answers_are_monotone_and_smooth_and_lie_in_their_range():
    answers = [json.loads(printed("beta", steps, "--json")) for steps in LENGTHS]
    betas = [answer["beta"] for answer in answers]
    assert betas == sorted(betas)
    assert all(answer["beta_low"] <= answer["beta"] <= answer["beta_high"] for answer in answers)
    assert [answer["extrapolated"] for answer in answers] == [True, True, *[False] * 7]
    fine = [recommend(10 ** (place / 50)) for place in range(330)]
    for one, two in pairwise(fine):
        assert 0 < math.log(two.memory_horizon / one.memory_horizon) < 0.03
        assert abs(two.beta_low - one.beta_low) < 0.06
        assert one.beta_low <= one.beta <= one.beta_high


@pytest.mark.parametrize("steps", [1_000, 4_000, 20_000])
def test_the_law_is_not_inferior_to_any_memory_of_half_to_twice_its_length(steps):
    expected, high = model.expected(steps).against_others()
    assert 0 <= expected < high < model.MARGIN


def test_a_diverged_run_at_an_untuned_learning_rate_does_not_move_the_range():
    (sweep,) = [one for one in sweeps() if one.name == "adamw-130m-2x-beta1"]
    assert [cell.beta1 for cell in sweep.cells if cell.loss is None] == [0.98]
    assert curve(sweep).at(0.98).at_least


def test_simulated_tasks_get_back_their_memory():
    """Bowls around 2 ** 0.5 times the recommended memory: the model finds that shift."""
    rows = []
    for task in range(6):
        for steps in (500, 2_000, 8_000):
            own = 1 / RECOMMENDED.one_minus_beta(steps) * 2 ** (0.5 + 0.1 * (task - 2.5))
            for place in range(-16, 17):
                memory = max(own * 2 ** (place / 4), 1.0)
                loss = 3 * (1 + 0.01 * math.log2(memory / own) ** 2)
                rows.append({"source": "s", "task": f"t{task}", "sweep": f"{task}-{steps}", "steps": str(steps)})
                rows[-1] |= {"beta1": repr(1 - 1 / memory), "loss": repr(loss), "se": "0.003"}
    found = model.expected(2_000, grouped(rows))
    best = model.SHIFTS[found.gap.index(min(found.gap))]
    assert best == pytest.approx(0.5, abs=0.13)
    low, high = found.within()
    assert low == pytest.approx(0.5 - math.sqrt(0.45), abs=0.1)
    assert high == pytest.approx(0.5 + math.sqrt(0.45), abs=0.1)


def test_the_first_two_lines_are_the_answer_and_nothing_is_wider_than_80():
    for steps in LENGTHS:
        for more in ((), ("--untied",), ("--untied", "--tokens-per-step", "131072")):
            lines = printed("beta", steps, *more).splitlines()
            assert max(map(len, lines)) <= 80
            assert "beta" in lines[0]
            assert "memory" in lines[0]
            assert "from" in lines[0] + lines[1]
    assert "paper" in printed("beta", "64000", "--rule", "paper")
    assert max(map(len, printed("evidence").splitlines())) <= 80
    assert all(name in printed("evidence", "--sources") for name in {sweep.source for sweep in sweeps()})


def test_a_sweep_of_ones_own_changes_what_is_expected(tmp_path):
    path = tmp_path / "mine.csv"
    lines = [
        f"4000,{task},{1 - 1 / m},{3 + 0.3 * math.log2(m / 40) ** 2}" for task in "abcdefgh" for m in (10, 20, 40, 80)
    ]
    path.write_text("\n".join(["steps,task,beta1,loss", *lines]))
    before = json.loads(printed("beta", 4000, "--json"))
    after = json.loads(printed("beta", 4000, "--json", "--evidence", path))
    assert after["beta"] == before["beta"]
    assert after["tasks"] > before["tasks"]
    assert after["loses"] > before["loses"]
    assert [row["sweeps"] for row in after["evidence"]["near"] if row["source"] == "yours"] == [8]
    assert "without your evidence" in printed("beta", 4000, "--evidence", path)


def test_the_rows_near_a_length_are_near_it():
    for row in near(4_700):
        assert 4_700 / 3 <= row.steps_low <= row.steps_high <= 3 * 4_700
    (gpt2,) = [row for row in near(4_700) if row.source == "marek-gpt2"]
    assert gpt2.loses < 0.05
    assert (gpt2.chose, gpt2.tied, gpt2.default_betas) == (False, False, None)
    assert near(10**9) == []


def test_the_learning_rate_is_advised_from_tuned_sweeps_alone():
    advice = {(one.beta2, one.sweeps): one for one in lr_advice(1_000)}
    assert set(advice) == {(0.999, 12), (0.95, 13)}
    assert all(one.low <= one.factor <= one.high for one in advice.values())
    assert lr_advice(10**8) == []


def test_a_best_learning_rate_at_the_edge_says_nothing():
    """The same sweep twice; in the second the pair's best learning rate is the largest one tried."""
    about = {"source": "s", "steps": "4000", "varied": "tied", "lr_tuned": "yes"}
    rows = [
        about | {"beta1": "0.9", "beta2": beta2, "lr": f"{lr:g}", "loss": f"{3 + 0.1 * math.log2(lr / best) ** 2}"}
        for beta2, best in (("0.9", 1), ("0.999", 2))
        for lr in (0.5, 1, 2, 4)
    ]
    (one,) = lr_advice(4_000, grouped(rows))
    assert (one.factor, one.sweeps) == (0.5, 1)
    assert lr_advice(4_000, grouped(rows[:-1])) == []


def test_two_betas_are_the_laws_and_a_longer_one():
    for steps in LENGTHS:
        found = two_betas(steps)
        assert found.beta1 == RECOMMENDED(steps) <= found.beta2 < 1
    long = two_betas(18_000, tokens_per_batch=32_768)
    assert long.rows[0].tokens_per_batch == 32_768
    assert all(row.loses.percent < 0.3 for row in long.rows)
    assert long.half_life_beta2 == pytest.approx(2 ** (-32_768 / 1e7))
    assert two_betas(10).extrapolated


def test_what_tying_costs_is_pooled_over_tasks():
    def sweep(task: str, untied: float) -> list[dict[str, str]]:
        about = {"source": "s", "sweep": task, "task": task, "steps": "4000", "varied": "tied"}
        cells = [("0.80", "0.80", 3.3), ("0.90035", "0.90035", 3.0), ("0.90035", "0.992063", untied)]
        return [about | {"beta1": b1, "beta2": b2, "loss": f"{loss}", "se": "0.003"} for b1, b2, loss in cells]

    two = grouped([*sweep("a", 2.97), *sweep("b", 2.94)])
    cost = two_betas(4_000, evidence=two).tying
    assert (cost.tasks, cost.percent) == (2, pytest.approx(1.5, abs=0.01))
    assert cost.low < 1
    assert cost.high > 2
    assert two_betas(4_000, evidence=two[:1]).tying is None
    known = two_betas(4_000).tying
    assert known.tasks >= 10
    assert 0 < known.low < known.high < 1


def test_only_sweeps_that_tie_or_vary_beta2_say_what_tying_costs():
    """A sweep over beta1 holds beta2: nothing is tied. Two values of beta2 far apart are no curve."""
    cells = [("0.85", "0.98", 3.1), ("0.90035", "0.98", 3.0), ("0.95", "0.98", 3.05)]
    over_beta1 = [
        {"source": "s", "task": task, "steps": "4000", "beta1": b1, "beta2": b2, "loss": f"{loss}"}
        for task in "ab"
        for b1, b2, loss in cells
    ]
    assert {one.varied for one in grouped(over_beta1)} == {"beta1"}
    assert two_betas(4_000, evidence=grouped(over_beta1)).tying is None
    values = (("0.9", 3.05), ("0.999", 3.0), ("0.99", 2.9))
    over_beta2 = [
        {"source": "s", "task": task, "steps": "4000", "beta1": "0.9", "beta2": b2, "loss": f"{loss}"}
        for b2, loss in values
        for task in "ab"
    ]
    assert {one.varied for one in grouped(over_beta2)} == {"beta2"}
    assert two_betas(4_000, evidence=grouped(over_beta2[:4])).tying is None
    assert two_betas(4_000, evidence=grouped(over_beta2)).tying.percent > 4


def test_single_runs_have_the_noise_of_their_task():
    of_source = {one.name: one for one in sweeps() if one.source == "size"}
    error = {
        name: 100 * curve(of_source[name]).best.se / curve(of_source[name]).best.loss
        for name in ("size-llama-24-4000", "size-llama-192-4000")
    }
    assert {cell.seeds for cell in of_source["size-llama-192-4000"].cells} == {1}
    assert 0.4 < error["size-llama-192-4000"] < 2 * error["size-llama-24-4000"]


def test_a_table_without_a_sweep_is_refused(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("steps,beta1,loss\n4000,0.9,3\n")
    done = CliRunner().invoke(app, ["beta", "4000", "--evidence", str(path)])
    assert done.exit_code != 0
    path.write_text("steps,beta1,beta2,loss\n4000,0.8,0.8,3.1\n4000,0.9,0.9,3\n4000,0.9,0.999,2.9\n")
    (row,) = [row for row in near(4_000, evidence=read_sweeps(path)) if row.source == "yours"]
    assert row.tied
    assert row.default_betas == pytest.approx(-10 / 3)


def test_a_study_folder_is_evidence_too():
    own = study_sweeps(ROOT / "studies" / "series")
    known = {one.name: curve(one) for one in sweeps() if one.source == "series"}
    assert {one.name for one in own} == set(known)
    for one in own:
        assert curve(one).best.loss == pytest.approx(known[one.name].best.loss, rel=1e-5)
    after = json.loads(printed("beta", 4000, "--json", "--evidence", ROOT / "studies" / "series"))
    assert [row["sweeps"] for row in after["evidence"]["near"] if row["source"] == "yours"] == [2]


def test_the_picture_is_the_committed_one_and_has_every_sweep():
    picture = draw_svg(sweeps())
    assert picture.count("<g><title>") == len(model.deciding(sweeps()))
    assert (ROOT / "docs" / "images" / "evidence.svg").read_text(encoding="utf-8") == picture
    for sweep in model.deciding(sweeps()):
        best = best_memory(curve(sweep))
        assert best.low <= best.memory <= best.high
