"""Compact state: bounded, unbiased, the same bits on every path, and interchangeable with torch's state."""

import copy
import io
import math
import pickle
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneclock import BalancedAdam, BalancedAdamW, RefreshScheduler
from oneclock.optim import compact, compact_group

CLASSES = [BalancedAdam, BalancedAdamW]
SHAPES = ((7, 5), (5,), (1,), (3, 1, 4), (0,))


def parameters(dtype=torch.float32, seed=0, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def gradients(params, steps, seed=1, decades=(0, 1), silence=0.0):
    generator = torch.Generator().manual_seed(seed)

    def one(p):
        size = 10.0 ** torch.randint(*decades, p.shape, generator=generator)
        loud = torch.rand(p.shape, generator=generator) >= silence
        return (torch.randn(p.shape, generator=generator) * size * loud).to(p.dtype)

    return [[one(p) for p in params] for _ in range(steps)]


def apply(optimizer, params, grads):
    for step in grads:
        for p, g in zip(params, step, strict=True):
            p.grad = g.clone()
        optimizer.step()
    return params


def everything(optimizer, params):
    return [[p.detach(), optimizer.state[p]["ratio"], optimizer.state[p]["scale"]] for p in params]


def assert_same_bits(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            assert torch.equal(x, y)


def on_disk(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


# --- the arithmetic


@settings(deadline=None, max_examples=60)
@given(
    make=st.sampled_from(CLASSES),
    seed=st.integers(0, 2**31),
    betas=st.lists(st.floats(0, 0.9999), min_size=1, max_size=6),
    lowest=st.integers(-40, 30),
    silence=st.sampled_from([0.0, 0.5, 0.95]),
    eps=st.sampled_from([1e-8, 0.0, 1e-3]),
)
def test_no_update_exceeds_the_learning_rate(make, seed, betas, lowest, silence, eps):
    """For gradients of any size, in the range of float32 and below, and any sequence of betas."""
    params = parameters(seed=seed)
    optimizer = make(params, lr=0.5, beta=0, eps=eps, weight_decay=0.0, state="compact")
    grads = gradients(params, 12, seed, decades=(lowest, min(lowest + 20, 38)), silence=silence)
    for number, step in enumerate(grads):
        optimizer.beta = betas[number % len(betas)]
        before = [p.detach().clone() for p in params]
        apply(optimizer, params, [step])
        for p, old in zip(params, before, strict=True):
            assert ((p.detach() - old).abs() <= 0.5 * (1 + 1e-6) + 1e-6).all()
            assert (optimizer.state[p]["ratio"] >= -127).all()
            assert optimizer.state[p]["scale"].isfinite().all()


@settings(deadline=None, max_examples=40)
@given(
    make=st.sampled_from(CLASSES),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 2**31),
    beta=st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.9999]),
    lowest=st.integers(-30, 10),
    options=st.fixed_dictionaries(
        {
            "weight_decay": st.sampled_from([0.0, 0.1]),
            "maximize": st.booleans(),
            "stochastic_rounding": st.booleans(),
            "eps": st.sampled_from([1e-8, 0.0]),
        }
    ),
)
def test_the_loop_equals_the_definition_to_the_last_bit(make, dtype, seed, beta, lowest, options):
    pytest.importorskip("numba")
    runs = []
    for fused in (False, True):
        params = parameters(dtype, seed)
        optimizer = make(params, lr=1e-2, beta=beta, state="compact", fused=fused, **options)
        apply(optimizer, params, gradients(params, 8, seed, decades=(lowest, lowest + 20), silence=0.3))
        runs.append(everything(optimizer, params))
    assert_same_bits(*runs)


def test_several_threads_give_the_same_bits(monkeypatch):
    loop = pytest.importorskip("oneclock.optim.compact_loop")
    runs = []
    for threads in (1, 3):
        params = parameters(shapes=((40, 50), (3,), (1000,)))
        optimizer = BalancedAdamW(params, lr=1e-2, beta=0.9, state="compact")
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.setattr(loop, "ELEMENTS_PER_THREAD", 100)
        apply(optimizer, params, gradients(params, 5))
        runs.append(everything(optimizer, params))
    assert_same_bits(*runs)


BACKENDS = ["eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compiled_step_equals_the_definition_to_the_last_bit(dtype, backend):
    params, plain = parameters(dtype), parameters(dtype)
    optimizer = BalancedAdamW(params, lr=1e-2, beta=0.9, state="compact", stochastic_rounding=True)
    compiled = torch.compile(optimizer.step, backend=backend)
    grads = gradients(params, 5)
    for step in grads:
        for p, g in zip(params, step, strict=True):
            p.grad = g.clone()
        compiled()
    reference = BalancedAdamW(plain, lr=1e-2, beta=0.9, state="compact", fused=False, stochastic_rounding=True)
    apply(reference, plain, grads)
    assert_same_bits(everything(optimizer, params), everything(reference, plain))


def test_it_follows_full_precision():
    """Over 300 noisy steps the weights stay within rounding of those of torch's AdamW, and without a bias."""
    ours, theirs = parameters(shapes=((200, 50),)), parameters(shapes=((200, 50),))
    grads = [[g + 0.3] for (g,) in gradients(ours, 300)]
    apply(BalancedAdamW(ours, lr=1e-2, beta=0.95, state="compact"), ours, grads)
    apply(torch.optim.AdamW(theirs, lr=1e-2, betas=(0.95, 0.95)), theirs, grads)
    moved = (theirs[0] - parameters(shapes=((200, 50),))[0]).abs().mean()
    difference = (ours[0] - theirs[0]).detach()
    assert difference.abs().mean() < 0.02 * moved
    assert difference.mean().abs() < 4 * difference.std() / math.sqrt(difference.numel())


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99])
def test_after_the_last_gradient_weights_move_no_further_than_in_full_precision(beta):
    """Rounded to the nearest, small ratios would never decay, and every row that is no longer used would drift."""
    ours, theirs = parameters(shapes=((100, 100),)), parameters(shapes=((100, 100),))
    grads = [[g + 1.0] for (g,) in gradients(ours, 5)]
    optimizer = BalancedAdamW(ours, lr=1e-2, beta=beta, weight_decay=0.0, state="compact")
    reference = torch.optim.AdamW(theirs, lr=1e-2, betas=(beta, beta), weight_decay=0.0)
    apply(optimizer, ours, grads)
    apply(reference, theirs, grads)
    here, there = ours[0].detach().clone(), theirs[0].detach().clone()
    silence = [[torch.zeros(100, 100)]] * 2000
    apply(optimizer, ours, silence)
    apply(reference, theirs, silence)
    moved, expected = (ours[0] - here).mean().item(), (theirs[0] - there).mean().item()
    assert moved == pytest.approx(expected, rel=0.02)
    assert (optimizer.state[ours[0]]["ratio"] == 0).float().mean() > 0.99


def test_what_never_had_a_gradient_never_moves():
    params = parameters()
    before = [p.detach().clone() for p in params]
    optimizer = BalancedAdamW(params, lr=0.1, beta=0.9, weight_decay=0.0, eps=0.0, state="compact")
    apply(optimizer, params, [[torch.zeros_like(p) for p in params]] * 50)
    assert all(torch.equal(p, old) for p, old in zip(params, before, strict=True))


@pytest.mark.parametrize("fused", [False, None])
def test_a_gradient_that_is_not_finite_is_seen_as_in_full_precision(fused):
    params = parameters(shapes=((4,),))
    optimizer = BalancedAdamW(params, lr=0.1, beta=0.9, state="compact", fused=fused)
    apply(optimizer, params, [[torch.tensor([math.nan, math.inf, -math.inf, 1.0])], [torch.ones(4)]])
    assert params[0].isnan().tolist() == [True, True, True, False]


@pytest.mark.parametrize("fused", [False, None])
def test_stochastic_rounding_keeps_updates_that_bfloat16_would_lose(fused):
    runs = {}
    for stochastic in (False, True):
        p = torch.nn.Parameter(torch.ones(4000, dtype=torch.bfloat16))
        optimizer = BalancedAdamW(
            [p], lr=1e-4, beta=0.9, weight_decay=0.0, state="compact", stochastic_rounding=stochastic, fused=fused
        )
        apply(optimizer, [p], [[torch.ones_like(p)]] * 100)
        runs[stochastic] = p.detach().float().mean().item()
    assert runs[False] == 1.0
    assert runs[True] == pytest.approx(0.99, abs=1e-3)


def test_three_bytes_per_parameter_and_no_side_tensors():
    params = parameters(shapes=((300, 200),))
    optimizer = BalancedAdamW(params, beta=0.9, state="compact")
    apply(optimizer, params, gradients(params, 1))
    kept = optimizer.state[params[0]]
    assert {name: tuple(tensor.shape) for name, tensor in kept.items()} == {
        "step": (), "ratio": (300, 200), "scale": (300, 200)
    }  # fmt: skip
    assert sum(tensor.nbytes for tensor in kept.values()) == 3 * 60_000 + 8


# --- layouts and shards


@pytest.mark.parametrize("layout", ["transposed", "sliced", "channels_last"])
def test_the_layout_does_not_change_the_numbers(layout):
    arranged = {
        "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        "sliced": lambda x: torch.stack([x, x], -1)[..., 0],
        "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    }[layout]
    compact_group._warn_of_slow_step.cache_clear()
    start = torch.randn(4, 6, 3, 5)
    grads = [torch.randn(4, 6, 3, 5) for _ in range(4)]
    plain, odd = torch.nn.Parameter(start.clone()), torch.nn.Parameter(arranged(start))
    optimizers = [BalancedAdamW([p], lr=0.1, beta=0.9, state="compact") for p in (plain, odd)]
    for number, g in enumerate(grads):
        plain.grad, odd.grad = g, arranged(g) if number % 2 else g
        optimizers[0].step()
        with pytest.warns(UserWarning, match="not contiguous") if number == 0 else nullcontext():
            optimizers[1].step()
    assert_same_bits(everything(optimizers[0], [plain]), everything(optimizers[1], [odd]))


def test_a_parameter_replaced_by_another_shape_or_dtype_is_refused():
    for replacement, why in ((torch.ones(9, 9), "ratio has shape"), (torch.ones(7, 5).double(), "float64")):
        params = parameters(shapes=((7, 5),))
        optimizer = BalancedAdamW(params, beta=0.9, state="compact")
        apply(optimizer, params, gradients(params, 2))
        params[0].grad, params[0].data = None, replacement
        params[0].grad = torch.ones_like(params[0])
        with pytest.raises(RuntimeError, match=why):
            optimizer.step()


@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_shards_have_the_numbers_of_the_whole(shards, axis, fused):
    """Each process of a group in turn, with torch's stand-in for the group: a step needs no word from the others."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.manual_seed(0)
    start, grads = torch.randn(6, 5, 7), [torch.randn(6, 5, 7) for _ in range(5)]
    whole = torch.nn.Parameter(start.clone())
    optimizer = BalancedAdamW([whole], lr=0.1, beta=0.9, state="compact", fused=fused)
    apply(optimizer, [whole], [[g] for g in grads])
    expected = everything(optimizer, [whole])[0]
    for rank in range(shards):
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=shards)
        try:
            # A name for each: torch remembers equal meshes, and with them the place of the process in the first.
            mesh = init_device_mesh("cpu", (shards,), mesh_dim_names=(f"rank{rank}",))

            def part(x, rank=rank):
                pieces = x.chunk(shards, axis)
                return pieces[rank].contiguous() if rank < len(pieces) else x.narrow(axis, 0, 0).contiguous()

            def placed(x, mesh=mesh, part=part):
                return DTensor.from_local(
                    part(x), mesh, [Shard(axis)], run_check=False, shape=x.shape, stride=x.stride()
                )

            p = torch.nn.Parameter(placed(start))
            ours = BalancedAdamW([p], lr=0.1, beta=0.9, state="compact", fused=fused)
            for g in grads:
                p.grad = placed(g)
                ours.step()
            assert type(ours.state[p]["ratio"]) is DTensor
            for mine, all_of_it in zip(everything(ours, [p])[0], expected, strict=True):
                assert torch.equal(mine.to_local(), part(all_of_it))
        finally:
            torch.distributed.destroy_process_group()


def test_two_sharded_axes_have_the_numbers_of_the_whole():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    start, grad = torch.randn(5, 6), torch.randn(5, 6)
    whole = torch.nn.Parameter(start.clone())
    optimizer = BalancedAdamW([whole], lr=0.1, beta=0.9, state="compact")
    apply(optimizer, [whole], [[grad]] * 3)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=3, world_size=4)
    try:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))

        def placed(x):
            part = x[3:, 3:].contiguous()
            sharding = [Shard(0), Shard(1)]
            return DTensor.from_local(part, mesh, sharding, run_check=False, shape=x.shape, stride=x.stride())

        p = torch.nn.Parameter(placed(start))
        ours = BalancedAdamW([p], lr=0.1, beta=0.9, state="compact")
        for _ in range(3):
            p.grad = placed(grad)
            ours.step()
        for mine, all_of_it in zip(everything(ours, [p])[0], everything(optimizer, [whole])[0], strict=True):
            assert torch.equal(mine.to_local(), all_of_it[3:, 3:])
    finally:
        torch.distributed.destroy_process_group()


# --- what goes in


@pytest.mark.parametrize("name", ["amsgrad", "capturable", "differentiable", "foreach"])
def test_what_compact_state_does_not_go_with(name):
    with pytest.raises(ValueError, match=f"compact state does not work with {name}=True"):
        BalancedAdamW(parameters(), beta=0.9, state="compact", **{name: True})


def test_what_else_is_refused():
    with pytest.raises(ValueError, match="state is 'full'"):
        BalancedAdamW(parameters(), beta=0.9, state="small")
    with pytest.raises(ValueError, match="needs state='compact'"):
        BalancedAdamW(parameters(), beta=0.9, stochastic_rounding=True)
    with pytest.raises(ValueError, match="got torch.float64"):
        BalancedAdamW(parameters(torch.float64), beta=0.9, state="compact")
    with pytest.raises(ValueError, match="eps must be finite"):
        BalancedAdamW(parameters(), beta=0.9, eps=float("inf"), state="compact")
    sparse = torch.nn.Parameter(torch.ones(3))
    sparse.grad = torch.ones(3).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        BalancedAdamW([sparse], beta=0.9, state="compact").step()


def test_without_numba_it_is_plain_torch_with_one_warning_and_fused_asks_for_it(monkeypatch):
    caches = compact_group.kernel_for, compact_group._warn_of_slow_step
    monkeypatch.setattr(compact_group.importlib.util, "find_spec", lambda name: None)
    for cache in caches:
        cache.cache_clear()
    try:
        params, same = parameters(), parameters()
        optimizer = BalancedAdamW(params, beta=0.9, state="compact")
        grads = gradients(params, 3)
        with pytest.warns(UserWarning, match="numba is not installed"):
            apply(optimizer, params, grads)
        apply(BalancedAdamW(same, beta=0.9, state="compact"), same, grads)  # a second warning would be an error
        with pytest.raises(ImportError, match=r"pip install 'oneclock\[compact\]'"):
            BalancedAdamW(same, beta=0.9, state="compact", fused=True)
    finally:
        for cache in caches:
            cache.cache_clear()
    same = parameters()
    apply(BalancedAdamW(same, beta=0.9, state="compact", fused=False), same, gradients(same, 3))
    assert all(torch.equal(p, q) for p, q in zip(params, same, strict=True))


def test_the_tie_the_scheduler_and_a_grad_scaler_work_as_with_full_state():
    params = parameters(shapes=((5,),))
    optimizer = BalancedAdamW(params, lr=torch.tensor(1e-2), horizon=20_000, state="compact")
    scheduler = RefreshScheduler(optimizer, 20_000)
    scheduler.extend(40_000)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    same = parameters(shapes=((5,),))
    unscaled = BalancedAdamW(same, lr=1e-2, horizon=20_000, state="compact")
    for _ in range(3):
        for p, take in ((params[0], scaler.scale), (same[0], lambda loss: loss)):
            p.grad = None
            take(p.square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        unscaled.step()
        scheduler.step()
        unscaled.beta = optimizer.beta
    assert optimizer.beta > 0.95
    assert torch.equal(params[0], same[0])
    optimizer.param_groups[0]["betas"] = (0.9, 0.999)
    with pytest.raises(RuntimeError, match="differ"):
        optimizer.step()


# --- checkpoints


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", ["state dict", "pickle", "deepcopy"])
def test_a_resumed_run_is_the_same_bit_for_bit(dtype, how):
    straight, begun = parameters(dtype), parameters(dtype)
    grads = gradients(straight, 20)
    options = dict(lr=1e-2, beta=0.95, state="compact", stochastic_rounding=True)
    reference = BalancedAdamW(straight, **options)
    apply(reference, straight, grads)
    optimizer = BalancedAdamW(begun, **options)
    apply(optimizer, begun, grads[:10])
    if how == "state dict":
        again = BalancedAdamW(begun, **options)
        again.load_state_dict(on_disk(optimizer.state_dict()))
    else:
        again = pickle.loads(pickle.dumps(optimizer)) if how == "pickle" else copy.deepcopy(optimizer)
        begun = again.param_groups[0]["params"]
    apply(again, begun, grads[10:])
    assert_same_bits(everything(again, begun), everything(reference, straight))


@pytest.mark.parametrize("theirs", [torch.optim.AdamW, torch.optim.Adam])
@pytest.mark.parametrize("kernel", [{}, {"fused": True}, {"foreach": True}])
def test_torchs_own_checkpoint_becomes_compact_and_goes_on(theirs, kernel):
    params, straight = parameters(), parameters()
    grads = gradients(params, 60)
    ours = BalancedAdamW if theirs is torch.optim.AdamW else BalancedAdam
    begun = theirs(params, lr=1e-2, betas=(0.9, 0.9), **kernel)
    apply(begun, params, grads[:30])
    optimizer = ours(params, lr=1e-2, beta=0.9, state="compact")
    optimizer.load_state_dict(on_disk(begun.state_dict()))
    apply(optimizer, params, grads[30:])
    apply(theirs(straight, lr=1e-2, betas=(0.9, 0.9)), straight, grads)
    for p, q in zip(params, straight, strict=True):
        torch.testing.assert_close(p, q, atol=0.02, rtol=0)
        assert optimizer.state[p]["ratio"].dtype == torch.int8
        assert optimizer.state[p]["step"] == 60


def test_compact_becomes_full_and_torchs_own_and_back():
    params = parameters()
    optimizer = BalancedAdamW(params, lr=1e-2, beta=0.9, state="compact")
    apply(optimizer, params, gradients(params, 30))
    full = BalancedAdamW(params, lr=1e-2, beta=0.9)
    full.load_state_dict(on_disk(optimizer.state_dict()))
    assert full.param_groups[0]["fused"] is True
    torchs = torch.optim.AdamW(params, lr=1e-2, betas=(0.9, 0.9), fused=True)
    torchs.load_state_dict(on_disk(full.state_dict()))
    again = BalancedAdamW(params, lr=1e-2, beta=0.9, state="compact")
    again.load_state_dict(on_disk(torchs.state_dict()))
    assert_same_bits(everything(again, params), everything(optimizer, params))
    before = [p.detach().clone() for p in params]
    apply(torchs, params, gradients(params, 1, seed=5))
    assert all(((p - old).abs() <= 1e-2 + 1e-2 * 1e-2 * old.abs()).all() for p, old in zip(params, before, strict=True))


def test_an_untied_checkpoint_carries_over_with_a_warning():
    params = parameters()
    begun = torch.optim.AdamW(params, betas=(0.9, 0.999))
    apply(begun, params, gradients(params, 5))
    optimizer = BalancedAdamW(params, beta=0.95, state="compact")
    with pytest.warns(UserWarning, match="not tied; keeping beta = 0.95"):
        optimizer.load_state_dict(begun.state_dict())
    apply(optimizer, params, gradients(params, 3))
    assert optimizer.state[params[0]]["step"] == 8


def test_checkpoints_that_do_not_fit_are_refused():
    params = parameters()
    begun = torch.optim.AdamW(params, betas=(0.9, 0.9), amsgrad=True)
    apply(begun, params, gradients(params, 1))
    optimizer = BalancedAdamW(params, beta=0.9, state="compact")
    with pytest.raises(ValueError, match="amsgrad=True, which compact state does not have"):
        optimizer.load_state_dict(begun.state_dict())
    swapped = BalancedAdamW(params[::-1], beta=0.9, state="compact")
    apply(swapped, params, gradients(params, 1))
    with pytest.raises(ValueError, match=r"parameter 0: ratio has shape \(0,\), its parameter \(7, 5\)"):
        optimizer.load_state_dict(swapped.state_dict())
    assert not optimizer.state


def test_a_state_before_its_first_step_survives_both_ways():
    """A GradScaler that skips the first step leaves zeros at step 0."""
    p = torch.nn.Parameter(torch.ones(3))
    zeros = {"step": torch.tensor(0.0), "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}
    small = compact.pack(p, zeros, (0.9, 0.9), 1e-8)
    assert not small["ratio"].any()
    assert not compact.unpack(p, small, (0.9, 0.9), 1e-8)["exp_avg"].any()


def test_torchs_old_checkpoints_with_a_number_as_step_become_compact():
    p = torch.nn.Parameter(torch.ones(4))
    begun = torch.optim.AdamW([p], betas=(0.9, 0.9))
    p.grad = torch.ones(4)
    begun.step()
    checkpoint = copy.deepcopy(begun.state_dict())
    checkpoint["state"][0]["step"] = 1
    checkpoint["param_groups"][0]["differentiable"] = True  # compact state has no such step
    optimizer = BalancedAdamW([p], beta=0.9, state="compact")
    optimizer.load_state_dict(checkpoint)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 2
    assert optimizer.param_groups[0]["differentiable"] is False
