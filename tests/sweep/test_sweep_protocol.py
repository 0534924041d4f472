"""Which runs are next: the paper's plan to the run, and properties of all protocols, without training."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneclock import rule
from oneclock.runs.adaptive import BEGAN, BEGIN, Adaptive, block, settled
from oneclock.runs.best import judge
from oneclock.runs.key import RunKey
from oneclock.runs.paired import PairedSweep
from oneclock.runs.protocols import Grid, Paper, extended, next_step, protocol_from
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import Function

protocols = st.one_of(
    st.builds(Paper, second_stage=st.sampled_from(["top_k", "window"]), top_k=st.integers(1, 13)),
    st.builds(Grid, betas=st.sampled_from([rule.GRID, (0.5,), (0.9, 0.99)])),
    st.builds(
        Adaptive,
        max_runs=st.integers(1, 39),
        seeds=st.sampled_from([(1,), (1, 2), (1, 2, 3, 4)]),
        learning_rates=st.sampled_from([(), (0.5, 1.0, 2.0)]),
        baselines=st.sampled_from([(), ((0.9, 0.999),)]),
    ),
)
some_loss = st.one_of(st.floats(1, 3), st.just(math.inf), st.just(math.nan))


def best(losses):
    tied = [(key.beta, None, key.seed, loss) for key, loss in losses.items() if isinstance(key.beta, float)]
    return judge(PairedSweep(tied)).beta


def played(protocol, loss_of, budget=20_000, order=lambda runs: runs[0]):
    """Run a protocol to its end, one run at a time, `order` choosing which of those it wants; the losses and reason."""
    losses, bound = {}, math.inf
    while (step := next_step(protocol, losses, RunKey("mine", 0.9, 1, budget))).runs:
        assert step.reason is None
        assert len(set(step.runs)) == len(step.runs)
        assert len(losses) + step.at_most <= bound
        bound = len(losses) + step.at_most
        key = order(step.runs)
        assert key not in losses
        losses[key] = loss_of(key)
    assert step.at_most == 0
    assert step.reason
    return losses, step.reason


def bowl(key):
    return 1 + abs(rule.GRID.index(key.beta) - 5) / 10 + key.seed / 1000


def test_the_papers_sweep_has_23_runs():
    losses, _ = played(Paper(), bowl)
    assert len(losses) == 23
    assert [c.beta for c in losses][:13] == list(rule.GRID)
    assert all(key.seed == 1 for key in list(losses)[:13])
    assert {key.beta for key in list(losses)[13:]} == set(rule.GRID[3:8])
    assert {key.seed for key in list(losses)[13:]} == {2, 3}


def test_window_keeps_contiguous_betas_within_the_grid():
    ends = {beta: -index for index, beta in enumerate(rule.GRID)}
    assert Paper(second_stage="window").kept(ends) == list(rule.GRID[8:])
    assert Paper(second_stage="window").kept({beta: -loss for beta, loss in ends.items()}) == list(rule.GRID[:5])
    odd = {beta: 9.0 for beta in rule.GRID} | {0.9: 1.0, 0.999: 1.1}
    assert Paper(second_stage="window").kept(odd) == list(rule.GRID[2:7])
    assert 0.999 in Paper().kept(odd)


def test_a_beta_without_a_finite_loss_gets_no_more_seeds():
    losses, _ = played(Paper(), lambda key: bowl(key) if key.beta in rule.GRID[4:6] else math.inf)
    assert {key.beta for key in losses if key.seed > 1} == set(rule.GRID[4:6])


def test_adaptive_climbs_to_the_best_and_stops_once_it_is_clear():
    losses, reason = played(Adaptive(), bowl)
    assert best(losses) == rule.GRID[5]
    assert len(losses) == 6
    assert "would not change" in reason


@pytest.mark.parametrize("rates", [(), (2.5e-4, 1e-3, 4e-3)])
def test_adaptive_begins_with_the_beta_that_is_recommended(rates):
    first = next_step(Adaptive(learning_rates=rates), {}, RunKey("mine", 0.9, 1, 4000)).runs[0]
    assert first.beta == rule.nearest_beta(rule.beta_for(4000)) == 0.9
    assert first.lr == (1e-3 if rates else None)
    losses, _ = played(Adaptive(learning_rates=rates, max_runs=1), bowl, budget=4000)
    assert [*losses] == [first]


def test_a_study_goes_on_from_where_it_began_though_the_recommendation_has_changed(tmp_path):
    assert rule.resolve_rule(BEGIN) == rule.RECOMMENDED
    targets = [Function("x", 300, "train.py:train")]
    new = Plan(tmp_path / "new", targets, Adaptive(seeds=(1,)))
    assert new.described["protocol"]["begin"] == BEGIN
    (tmp_path / "old").mkdir()
    old = Plan(tmp_path / "old", targets, Adaptive(seeds=(1,), begin=BEGAN))
    without = {name: one for name, one in old.described["protocol"].items() if name != "begin"}
    old.study.write_header({**old.described, "protocol": without})  # as older studies were written
    for plan in (Plan(tmp_path / "old", targets, Adaptive(seeds=(1,))), Plan.read(tmp_path / "old")):
        assert plan.step(plan.targets[0]).runs[0].beta == 0.82217
    assert new.step(targets[0]).runs[0].beta == 0.68377


def test_adaptive_climbs_from_afar():
    losses, _ = played(Adaptive(max_runs=20), bowl, budget=40_000_000)
    assert best(losses) == rule.GRID[5]
    assert {key.beta for key in losses} == set(rule.GRID[4:13])


def test_adaptive_says_that_it_is_spent():
    losses, reason = played(Adaptive(max_runs=4), bowl)
    assert len(losses) == 4
    assert "max_runs" in reason


def test_adaptive_gives_up_where_nothing_is_finite():
    losses, reason = played(Adaptive(), lambda key: math.nan)
    assert len(losses) == 3
    assert "finite" in reason


def test_arms_come_beside_the_sweep():
    arms = ((0.9, 0.999), (0.9, 0.95))
    losses, _ = played(Paper(baselines=arms), lambda key: 0.5 if isinstance(key.beta, tuple) else bowl(key))
    assert len(losses) == 23 + 6
    assert best(losses) == rule.GRID[5]
    adaptive, _ = played(Adaptive(baselines=arms), lambda key: 0.5 if isinstance(key.beta, tuple) else bowl(key))
    assert len(adaptive) == 6 + 6


@settings(deadline=None, max_examples=200)
@given(protocols, st.data())
def test_the_table_does_not_depend_on_the_order_in_which_runs_end(protocol, data):
    drawn = {}

    def loss_of(key):
        if key not in drawn:
            drawn[key] = data.draw(some_loss)
        return drawn[key]

    budget = data.draw(st.sampled_from([500, 6_000, 20_000, 10**6]))
    first, reason = played(protocol, loss_of, budget)
    other, same = played(protocol, loss_of, budget, order=lambda runs: runs[-1])
    assert set(first) == set(other)
    assert reason == same
    if isinstance(protocol, Adaptive):
        assert sum(isinstance(key.beta, float) for key in first) <= protocol.max_runs
    if isinstance(protocol, Paper) and protocol.second_stage == "top_k":
        assert len(first) <= 13 + 2 * protocol.top_k
    assert protocol_from(**protocol.as_data()) == protocol


def test_a_lead_within_the_noise_is_not_settled():
    assert not settled([[1.0, 1.2], [1.1, 1.3], [1.2, 1.2]])
    assert settled([[1.0, 1.0], [1.1, 1.1]])
    assert settled([[1.0, 1.0], [math.inf, math.inf]])


@pytest.mark.parametrize(
    ("kind", "values", "complaint"),
    [
        ("random", {}, "no protocol"),
        ("grid", {"max_runs": 3}, "has no max_runs"),
        ("grid", {"rates": (0.0, 1.0)}, "learning_rates must be finite numbers above 0"),
        ("paper", {"betas": (1.0,)}, "beta must be"),
        ("paper", {"betas": ()}, "at least one"),
        ("paper", {"seeds": (1, 1)}, "twice"),
        ("paper", {"second": "third"}, "top_k"),
        ("adaptive", {"max_runs": 0}, "at least 1"),
        ("grid", {"arms": ((0.9, 2.0),)}, "beta must be"),
    ],
)
def test_bad_values_are_refused(kind, values, complaint):
    with pytest.raises(ValueError, match=complaint):
        protocol_from(kind, **values)


def test_what_is_added_to_a_study_joins_what_it_had():
    before = Grid(betas=(0.9, 0.99), seeds=(1,), baselines=((0.9, 0.999),)).as_data()
    assert extended(before, Grid(betas=(0.992,))) == Grid((0.9, 0.99, 0.992), (1,), ((0.9, 0.999),))
    assert extended(before, Grid(seeds=(2,), learning_rates=(0.5,))) == Grid(
        (0.9, 0.99), (1, 2), ((0.9, 0.999),), (0.5,)
    )


def test_a_best_pair_at_the_end_of_the_rates_is_not_called_bracketed():
    def falling(power):
        return lambda key: bowl(key) + (key.lr - power) ** 2

    rates = (0.25, 0.5, 1.0, 2.0, 4.0)
    assert "has the largest learning rate" in played(Adaptive(learning_rates=rates), falling(9))[1]
    assert "has the smallest learning rate" in played(Adaptive(learning_rates=rates), falling(0))[1]
    assert "beyond it" not in played(Adaptive(learning_rates=rates), falling(1))[1]


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_what_lies_around_the_best_pair_is_measured_though_other_seeds_have_moved_it(data):
    drawn, rates = {}, (0.25, 0.5, 1.0, 2.0, 4.0)

    def loss_of(key):
        if key not in drawn:
            drawn[key] = data.draw(st.floats(1, 3))
        return drawn[key]

    losses, _ = played(Adaptive(seeds=(1, 2), learning_rates=rates, max_runs=1000), loss_of)
    pairs = {(key.beta, key.lr) for key in losses}
    means = {(key.beta, key.lr): losses[key] + losses[replace(key, seed=1)] for key in losses if key.seed == 2}
    best = min(means, key=lambda pair: (means[pair], pair))
    assert {*block(rule.GRID, rates, best)} <= pairs


def test_a_pair_that_other_seeds_make_the_best_is_bracketed_too():
    def moved(key):
        away = abs(key.lr - (1.0 if key.seed == 1 else 2.0))
        return bowl(key) + (away / 100 if key.seed == 1 else away)

    losses, reason = played(Adaptive(seeds=(1, 2), learning_rates=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0)), moved)
    assert {key.lr for key in losses} == {0.5, 1.0, 2.0, 4.0}
    assert "the best is bracketed" in reason


def test_the_recommended_beta_is_judged_by_every_seed_though_it_is_not_among_the_best():
    losses, _ = played(Adaptive(learning_rates=(0.5, 1.0, 2.0)), lambda key: 10 * bowl(key) + key.lr, budget=4_000)
    assert {key.seed for key in losses if key.beta == rule.nearest_beta(rule.beta_for(4_000))} >= {1, 2}


def test_a_pair_whose_first_seed_lies_below_the_best_mean_gets_the_others():
    def unlucky(key):
        return bowl(key) + (0.01 * abs(math.log2(key.lr)) if key.seed == 1 else 5.0)

    rates = (0.25, 0.5, 1.0, 2.0, 4.0)
    losses, _ = played(Adaptive(seeds=(1, 2), learning_rates=rates, max_runs=1000), unlucky)
    assert {(key.beta, key.lr) for key in losses if key.seed == 2} == {(c.beta, c.lr) for c in losses}


@pytest.mark.parametrize(("later", "seeded"), [(0.0, {1.0}), (0.5, {1.0, 2.0})])
def test_an_arm_has_a_second_rate_where_the_first_was_lucky(later, seeded):
    arm, tuned = (0.9, 0.999), {0.25: 1.9, 0.5: 1.5, 1.0: 1.0, 2.0: 1.2, 4.0: 1.8}

    def loss_of(key):
        return tuned[key.lr] + (later if key.seed > 1 else 0.0) if key.beta == arm else bowl(key)

    losses, _ = played(Adaptive(learning_rates=tuple(tuned), baselines=(arm,)), loss_of)
    assert {key.lr for key in losses if key.beta == arm and key.seed == 3} == seeded


def test_rates_cross_the_betas_and_the_arms():
    losses, _ = played(
        Grid(betas=(0.5, 0.9), seeds=(1, 2), baselines=((0.9, 0.999),), learning_rates=(0.3, 1.0)), lambda key: 1.0
    )
    assert len(losses) == (2 + 1) * 2 * 2
    assert {key.lr for key in losses} == {0.3, 1.0}


def test_seeds_nobody_chose_are_left_open():
    assert "seeds" not in Paper().as_data()
    assert len(next_step(Grid(), {}, RunKey("mine", 0.9, 1, 100)).runs) == 39
