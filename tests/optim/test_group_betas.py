"""A beta for each parameter group: in both states, with checkpoints, the scheduler and the guards."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.testing._internal.distributed.fake_pg import FakeStore

from oneclock import BalancedAdam, BalancedAdamW, RefreshScheduler
from oneclock.integrations.running import beta_figures
from oneclock.rule import beta_for

CLASSES = [(BalancedAdam, torch.optim.Adam), (BalancedAdamW, torch.optim.AdamW)]
STATES = ["full", "compact"]


def parameters(dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((7, 5), (5,), (3, 4))]


def apply(optimizer, params, steps=6, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()
    return params


def three_groups(params, make=BalancedAdamW, **options):
    groups = [{"params": params[:1]}, {"params": params[1:2], "beta": 0.5}, {"params": params[2:], "horizon": 40_000}]
    return make(groups, lr=1e-2, beta=0.9, **options)


@pytest.mark.parametrize("state", STATES)
def test_a_group_takes_its_own_beta_or_horizon(state):
    optimizer = three_groups(parameters(), state=state)
    assert optimizer.group_betas == [0.9, 0.5, beta_for(40_000)]
    assert optimizer.beta == 0.9
    assert all("beta" not in group and "horizon" not in group for group in optimizer.param_groups)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))], "horizon": 20_000, "rule": "paper"})
    assert optimizer.group_betas[-1] == 0.95


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_full_state_equals_torch_with_the_same_pairs(ours, theirs):
    a, b = parameters(), parameters()
    mine = three_groups(a, ours)
    pairs = [group["betas"] for group in mine.param_groups]
    apply(mine, a)
    apply(theirs([{"params": [p], "betas": pair} for p, pair in zip(b, pairs, strict=True)], lr=1e-2, fused=True), b)
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compact_state_equals_one_optimizer_for_each_group(fused, dtype):
    a, b = parameters(dtype), parameters(dtype)
    mine = three_groups(a, state="compact", fused=fused)
    apply(mine, a)
    alone = [
        BalancedAdamW([p], lr=1e-2, beta=beta, state="compact", fused=fused)
        for p, beta in zip(b, mine.group_betas, strict=True)
    ]
    generator = torch.Generator().manual_seed(1)
    for _ in range(6):
        for p in b:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        for optimizer in alone:
            optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("state", STATES)
def test_setting_beta_leaves_groups_with_their_own(state):
    optimizer = three_groups(parameters(), state=state)
    optimizer.beta = 0.99
    assert optimizer.group_betas == [0.99, 0.5, beta_for(40_000)]
    optimizer.param_groups[1]["betas"] = (0.6, 0.6)
    assert optimizer.group_betas[1] == 0.6


@pytest.mark.parametrize("state", STATES)
def test_the_scheduler_moves_the_shared_beta_only(state):
    params = parameters()
    optimizer = three_groups(params, state=state)
    scheduler = RefreshScheduler(optimizer, 20_000)
    scheduler.extend(to_steps=80_000)
    before = optimizer.group_betas
    for _ in range(5):
        apply(optimizer, params, steps=1)
        scheduler.step()
    assert optimizer.group_betas[0] > before[0]
    assert optimizer.group_betas[1:] == before[1:]


def test_a_scheduler_with_nothing_to_move_is_refused():
    optimizer = BalancedAdamW([{"params": parameters(), "beta": 0.5}], beta=0.9)
    with pytest.raises(ValueError, match="every parameter group has its own beta"):
        RefreshScheduler(optimizer, 20_000)


def test_callbacks_show_the_beta_of_the_groups_without_their_own():
    assert beta_figures(three_groups(parameters()), step=100)["beta"] == 0.9
    assert beta_figures(BalancedAdamW([{"params": parameters(), "beta": 0.5}], beta=0.9), step=100)["beta"] == 0.5


@pytest.mark.parametrize("state", STATES)
def test_the_guards_see_every_group(state):
    params = parameters()
    optimizer = three_groups(params, state=state)
    optimizer.param_groups[1]["betas"] = (0.5, 0.6)
    with pytest.raises(RuntimeError, match="beta1 and beta2 differ"):
        apply(optimizer, params, steps=1)
    optimizer = BalancedAdamW([{"params": [p]} for p in params], beta=0.9, state=state)
    optimizer.param_groups[1]["betas"] = (0.5, 0.5)  # nobody said that this group has its own
    with pytest.raises(RuntimeError, match="different betas"):
        apply(optimizer, params, steps=1)


def disk(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("how", ["state dict", "pickle", "deepcopy"])
@pytest.mark.parametrize("state", STATES)
def test_a_resumed_run_keeps_the_betas_and_continues_bit_for_bit(state, how):
    straight, begun = parameters(), parameters()
    reference = three_groups(straight, state=state)
    apply(reference, straight)
    apply(reference, straight, seed=2)
    optimizer = three_groups(begun, state=state)
    apply(optimizer, begun)
    if how == "state dict":
        again = three_groups(begun, state=state)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again.load_state_dict(disk(optimizer.state_dict()))
    else:
        again = pickle.loads(pickle.dumps(optimizer)) if how == "pickle" else copy.deepcopy(optimizer)
        begun = [p for group in again.param_groups for p in group["params"]]
    apply(again, begun, seed=2)
    assert again.group_betas == reference.group_betas
    assert all(torch.equal(p, q) for p, q in zip(begun, straight, strict=True))
    again.beta = 0.8
    assert again.group_betas[1] == 0.5


@pytest.mark.parametrize("state", STATES)
def test_a_checkpoint_of_torch_with_tied_pairs_per_group_loads(state):
    params = parameters()
    begun = torch.optim.AdamW([{"params": [p], "betas": (b, b)} for p, b in zip(params, (0.9, 0.5, 0.9), strict=True)])
    apply(begun, params)
    optimizer = BalancedAdamW([{"params": [p]} for p in params], beta=0.9, state=state)
    with pytest.warns(UserWarning, match=r"beta 0.5 replaces 0.9"):
        optimizer.load_state_dict(disk(begun.state_dict()))
    assert optimizer.group_betas == [0.9, 0.5, 0.9]
    apply(optimizer, params)
    optimizer.beta = 0.8
    assert optimizer.group_betas == [0.8, 0.5, 0.8]


def test_every_replaced_beta_is_named():
    params = parameters()
    begun = BalancedAdamW([{"params": [p], "beta": b} for p, b in zip(params, (0.5, 0.6, 0.9), strict=True)], beta=0.9)
    apply(begun, params)
    optimizer = BalancedAdamW([{"params": [p]} for p in params], beta=0.9)
    with pytest.warns(UserWarning, match=r"beta 0.5 replaces 0.9, 0.6 replaces 0.9;"):
        optimizer.load_state_dict(begun.state_dict())


def test_full_becomes_compact_with_each_groups_own_correction():
    params = parameters()
    full = three_groups(params)
    apply(full, params, steps=3)
    small = three_groups(params, state="compact")
    small.load_state_dict(disk(full.state_dict()))
    for p, beta in zip(params, small.group_betas, strict=True):
        root = (full.state[p]["exp_avg_sq"] / (1 - beta**3)).sqrt()
        torch.testing.assert_close(small.state[p]["scale"].float(), root, rtol=5e-3, atol=0)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "bad",
    [
        {"beta": 1.0},
        {"beta": 0.5, "horizon": 2_000},
        {"horizon": -1},
        {"rule": "paper"},
        {"betas": (0.9, 0.95)},
        {"betas": 0.5},
        {"betas": None},
        {"betas": (0.5, 0.5), "beta": 0.5},
    ],
)
def test_a_refused_group_leaves_nothing_behind(state, bad):
    params = parameters()
    optimizer = BalancedAdamW(params, beta=0.9, state=state)
    new = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="beta|horizon"):
        optimizer.add_param_group({"params": [new], **bad})
    assert len(optimizer.param_groups) == 1
    apply(optimizer, params, steps=2)
    optimizer.add_param_group({"params": [new], "beta": 0.5})
    assert optimizer.group_betas == [0.9, 0.5]


@pytest.mark.parametrize("bad", [{"params": [torch.nn.Parameter(torch.ones(2).double())]}, {"amsgrad": True}])
def test_a_group_that_compact_state_refuses_leaves_nothing_behind(bad):
    params = parameters()
    optimizer = BalancedAdamW(params, beta=0.9, state="compact")
    given = {"params": [torch.nn.Parameter(torch.ones(2))], **bad}
    keys = set(given)
    with pytest.raises(ValueError, match="compact state"):
        optimizer.add_param_group(given)
    assert len(optimizer.param_groups) == 1
    assert set(given) == keys
    apply(optimizer, params, steps=2)


@pytest.mark.parametrize("state", STATES)
def test_a_beta_written_into_a_group_is_not_silently_ignored(state):
    params = parameters()
    optimizer = BalancedAdamW(params, beta=0.9, state=state)
    optimizer.param_groups[0]["beta"] = 0.5
    with pytest.raises(RuntimeError, match=r"group\['beta'\].* not read"):
        apply(optimizer, params)


@pytest.mark.parametrize("state", STATES)
def test_a_hook_that_unties_the_betas_is_seen_in_the_same_step(state):
    params = parameters()
    optimizer = BalancedAdamW(params, beta=0.9, state=state)
    optimizer.register_step_pre_hook(lambda opt, *_: opt.param_groups[0].update(betas=(0.5, 0.9)))
    with pytest.raises(RuntimeError, match="beta1 and beta2 differ"):
        apply(optimizer, params, steps=1)


@pytest.mark.parametrize("state", STATES)
def test_zero_redundancy_optimizer_which_writes_its_arguments_into_groups_works(state):
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    try:
        params = parameters()
        optimizer = ZeroRedundancyOptimizer(params, BalancedAdamW, lr=0.1, beta=0.9, state=state)
        plain = [torch.nn.Parameter(p.detach().clone()) for p in params]
        for step, given in (
            (optimizer.step, params),
            (BalancedAdamW(plain, lr=0.1, beta=0.9, state=state).step, plain),
        ):
            for _ in range(3):
                for p in given:
                    p.grad = torch.ones_like(p)
                step()
        assert optimizer.optim.beta == 0.9
        assert all(torch.equal(p, q) for p, q in zip(params, plain, strict=True))
    finally:
        torch.distributed.destroy_process_group()
