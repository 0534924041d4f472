"""RefreshScheduler: where beta goes and how fast, what a checkpoint keeps, and the bound its docstring proves."""

import io
import logging
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oneclock.optim.scheduler as scheduler_module
from oneclock import BalancedAdam, BalancedAdamW, Curve, RefreshScheduler, early_stop, recommend


def scheduler_of(planned_steps=20_000, optimizer=None, rule="paper", **options):
    optimizer = optimizer or BalancedAdamW([torch.nn.Parameter(torch.ones(3))], beta=0.5)
    return RefreshScheduler(optimizer, planned_steps, rule=rule, **options)


def advance(scheduler, steps):
    betas = []
    for _ in range(steps):
        scheduler.step()
        betas.append(scheduler.get_last_beta())
    return betas


def test_beta_is_the_rules_and_stays_there_by_default():
    scheduler = scheduler_of()
    advance(scheduler, 10_000)
    assert scheduler.get_last_beta() == 0.95 == scheduler.optimizer.beta
    assert [change.step for change in scheduler.history] == [0]


def test_an_extension_is_walked_at_the_set_pace_and_reached_exactly():
    scheduler = scheduler_of()
    advance(scheduler, 5000)
    scheduler.extend(to_steps=100_000)
    memories = [20.0] + [1 / (1 - beta) for beta in advance(scheduler, 900)]
    grown = [after - before for before, after in pairwise(memories)]
    assert scheduler.get_last_beta() == 0.99
    assert 0 < max(grown) < 0.1003  # a tenth of a step per step, and the second order of exp(pace / H)
    assert sum(moved > 0 for moved in grown) == pytest.approx(800, abs=3)
    assert [change.step for change in scheduler.history[:2]] == [0, 5000]
    assert scheduler.history[-1].reason == "target reached"


def followed(losses, every=500, planned=20_000, rule="recommended"):
    """A scheduler that saw these validation losses, one every so many steps."""
    scheduler = scheduler_of(planned, follow_validation=True, rule=rule)
    for loss in losses:
        advance(scheduler, every - 1)
        scheduler.step(loss)
    return scheduler


def test_a_confirmed_turn_shortens_the_horizon_and_better_losses_restore_the_plan():
    losses = [*(2 - 0.1 * at for at in range(10)), *(1.2 + 0.1 * at for at in range(6))]
    scheduler = followed(losses)
    advance(scheduler, 500)
    moved = [change for change in scheduler.history if "validation" in change.reason]
    assert len(moved) == 1  # estimates at about the same place move nothing
    assert 6000 <= moved[0].step <= 8000
    assert scheduler.get_last_beta() == pytest.approx(recommend(5000).beta, abs=0.01)
    for loss in (0.9 - 0.02 * at for at in range(20)):
        advance(scheduler, 499)
        scheduler.step(loss)
    assert scheduler.get_last_beta() == recommend(20_000).beta


def test_a_false_early_stop_is_not_followed():
    """One noisy evaluation ends the paper's early stop at 3,000 of 10,000 steps; the loss is lowest at the end."""
    losses = [1.0, 0.9, 0.95, 0.85, 0.8, 0.76, 0.74, 0.7, 0.68, 0.66]
    curve = Curve(range(1000, 11_000, 1000), losses)
    assert early_stop(curve, 10_000).stop == 3000
    assert [change.step for change in followed(losses, every=1000, planned=10_000).history] == [0]


def test_the_learning_rate_tells_the_schedule(monkeypatch):
    told = []
    found = scheduler_module.useful_horizon
    monkeypatch.setattr(scheduler_module, "useful_horizon", lambda *given: told.append(given[2]) or found(*given))
    scheduler = scheduler_of(planned_steps=2000, follow_validation=True)
    group = scheduler.optimizer.param_groups[0]
    for step in range(1, 2001):
        group["lr"] = 1e-3 * (1 - step / 2000)
        scheduler.step(val_loss=1 / step if step % 100 == 0 else None)
    assert told[0] is None  # the first learning rate is the highest: nothing is known yet
    assert told[-3] == "linear"


def test_a_loss_at_every_step_stays_bounded():
    scheduler = followed([1 / (at + 1) for at in range(1500)], every=1, planned=5000)
    assert len(scheduler.state_dict()["_losses"]) < 512
    assert [change.step for change in scheduler.history] == [0]


def test_a_useful_time_too_short_for_the_rule_leaves_beta_alone_and_says_so():
    scheduler = followed([2.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0], every=100, planned=4000, rule="paper")
    assert scheduler.get_last_beta() == 0.75
    assert "beta stays" in scheduler.history[-1].reason


def test_losses_that_are_never_finite_change_nothing():
    scheduler = scheduler_of(follow_validation=True)
    for _ in range(5000):
        scheduler.step(math.nan)
    assert [change.step for change in scheduler.history] == [0]


def test_every_change_is_logged(caplog):
    with caplog.at_level(logging.INFO, "oneclock.optim.scheduler"):
        scheduler = scheduler_of()
        scheduler.extend(40_000)
        advance(scheduler, 300)
    assert [record.getMessage() for record in caplog.records] == [
        "step 0, beta 0.95: planned for 20,000 steps",
        "step 0, beta 0.95: extended to 40,000 steps: horizon 40,000 steps, towards beta 0.975",
        "step 200, beta 0.975: target reached",
    ]


def test_a_checkpoint_in_the_middle_of_a_move_goes_on_bit_for_bit():
    def new_run(planned):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(5))
        optimizer = BalancedAdamW([weight], lr=1e-2, horizon=planned, rule="paper")
        return weight, optimizer, RefreshScheduler(optimizer, planned, rule="paper", follow_validation=True)

    def train(run, steps, seed):
        weight, optimizer, scheduler = run
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            weight.grad = torch.randn(5, generator=generator)
            optimizer.step()
            scheduler.step(val_loss=weight.square().sum().item())

    straight = new_run(20_000)
    train(straight, 30, seed=1)
    straight[2].extend(80_000)
    train(straight, 50, seed=2)
    file = io.BytesIO()
    torch.save([straight[0].detach(), straight[1].state_dict(), straight[2].state_dict()], file)
    train(straight, 1000, seed=3)

    resumed = new_run(20_000)
    file.seek(0)
    weight, optimizer_state, scheduler_state = torch.load(file, weights_only=True)
    resumed[0].data.copy_(weight)
    resumed[2].load_state_dict(scheduler_state)
    resumed[1].load_state_dict(optimizer_state)  # finds its own beta there: no warning
    assert 0.95 < resumed[2].get_last_beta() < 0.9875
    train(resumed, 1000, seed=3)
    assert torch.equal(resumed[0], straight[0])
    assert resumed[2].state_dict() == straight[2].state_dict()


@pytest.mark.parametrize(("rule", "name"), [("paper", "Refresh R0=1000"), (None, "Square root, divisor 7")])
def test_a_checkpoint_with_the_older_name_of_the_rule_loads(rule, name):
    scheduler = scheduler_of(rule=rule)
    scheduler.load_state_dict(scheduler.state_dict() | {"rule": name})
    assert scheduler.state_dict()["rule"] == (rule or "recommended")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    plans=st.lists(st.floats(1_001, 1e6), min_size=2, max_size=4, unique=True).map(sorted),
    pace=st.floats(0.01, 0.9),
    silence=st.floats(0, 0.99),
)
def test_no_step_exceeds_the_bound_of_the_docstring(seed, plans, pace, silence):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.nn.Parameter(torch.zeros(8, dtype=torch.float64))
    optimizer = BalancedAdam([weight], lr=1.0, eps=1e-300, beta=0)
    scheduler = RefreshScheduler(optimizer, plans[0], rule="paper", pace=pace)
    kept = 1.0
    for step in range(1, 81):
        if step % 20 == 0 and step // 20 < len(plans):
            scheduler.extend(plans[step // 20])
        loud = torch.rand(8, generator=generator, dtype=torch.float64) >= silence
        scale = 10 ** torch.randint(-6, 6, (8,), generator=generator).double()
        weight.grad = torch.randn(8, generator=generator, dtype=torch.float64) * scale * loud
        before, beta = weight.detach().clone(), optimizer.beta
        optimizer.step()
        scheduler.step()
        kept *= beta
        bound = math.sqrt((1 - kept) / (1 - beta**step))
        assert (weight.detach() - before).abs().max() <= bound * (1 + 1e-6)
        assert bound <= 1 / math.sqrt(1 - beta**step) + 1e-9


def test_at_the_default_pace_an_extension_never_adds_two_percent_to_the_bound():
    worst = 0.0
    for start in (1_200, 20_000):
        for asked in (1, 5, 20, 100):
            scheduler = scheduler_of(start, rule="paper")
            kept = 1.0
            for step in range(1, 2000):
                if step == asked:
                    scheduler.extend(1e9)
                beta = scheduler.get_last_beta()
                kept *= beta
                worst = max(worst, (1 - kept) / (1 - beta**step))
                scheduler.step()
    assert 1.01 < math.sqrt(worst) < 1.02


def test_what_it_refuses():
    with pytest.raises(ValueError, match="BalancedAdam"):
        RefreshScheduler(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]), 20_000)
    with pytest.raises(ValueError, match="the horizon must exceed 1000"):
        scheduler_of(1000, rule="paper")
    with pytest.raises(ValueError, match="no effect without follow_validation=True"):
        scheduler_of().step(val_loss=1.0)
    with pytest.raises(ValueError, match="saved with paper, loaded with recommended"):
        scheduler_of(rule=None).load_state_dict(scheduler_of().state_dict())
    with pytest.raises(ValueError, match="pace must lie between 0 and 1"):
        scheduler_of(pace=1)
    with pytest.raises(ValueError, match="extend it to more"):
        scheduler_of().extend(20_000)
    with pytest.raises(ValueError, match="to_steps must be a finite number"):
        scheduler_of().extend("40k")
