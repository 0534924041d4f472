"""The balanced optimizers: equal to the paper and to torch, tied whatever happens, interchangeable on disk."""

import copy
import inspect
import io
import math
import pickle
import sys
import threading
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneclock import BalancedAdam, BalancedAdamW
from oneclock.rule import Fixed

CLASSES = [(BalancedAdam, torch.optim.Adam), (BalancedAdamW, torch.optim.AdamW)]
KERNELS = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False, "fused": False}}
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def parameters(dtype=torch.float32, shapes=((7, 5), (5,), (1,))):
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]


def gradients(params, steps, seed=1):
    torch.manual_seed(seed)
    return [[torch.randn_like(p) for p in params] for _ in range(steps)]


def apply(optimizer, params, grads):
    for step in grads:
        for p, g in zip(params, step, strict=True):
            p.grad = g.clone()
        optimizer.step()
    return params


def paper_adam(params, grads, lr, beta, eps=1e-8, weight_decay=0.0, decoupled=False):
    """Section 2 of the paper with beta1 = beta2 = beta, one scalar operation after the other, in double precision."""
    theta = [p.detach().double().clone() for p in params]
    m = [torch.zeros_like(p) for p in theta]
    v = [torch.zeros_like(p) for p in theta]
    for t, step in enumerate(grads, start=1):
        for i, gradient in enumerate(step):
            g = gradient.double()
            if decoupled:
                theta[i] = theta[i] - lr * weight_decay * theta[i]
            else:
                g = g + weight_decay * theta[i]
            m[i] = beta * m[i] + (1 - beta) * g
            v[i] = beta * v[i] + (1 - beta) * g**2
            m_hat, v_hat = m[i] / (1 - beta**t), v[i] / (1 - beta**t)
            theta[i] = theta[i] - lr * m_hat / (v_hat.sqrt() + eps)
    return theta


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("beta", [0.0, 0.9, 0.94377, 0.999])
def test_equals_the_paper(ours, theirs, kernel, beta):
    params = parameters(torch.float64)
    grads = gradients(params, 20)
    expected = paper_adam(params, grads, 1e-2, beta, weight_decay=0.1, decoupled=ours is BalancedAdamW)
    apply(ours(params, lr=1e-2, beta=beta, weight_decay=0.1, **KERNELS[kernel]), params, grads)
    for p, e in zip(params, expected, strict=True):
        torch.testing.assert_close(p.detach(), e, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "eps": 1e-6}, {"amsgrad": True}, {"maximize": True}])
def test_equals_torch_bit_for_bit(ours, theirs, kernel, dtype, options):
    a, b = parameters(dtype), parameters(dtype)
    grads = gradients(a, 10)
    options = options | KERNELS[kernel]
    apply(ours(a, lr=1e-2, beta=0.95, **options), a, grads)
    apply(theirs(b, lr=1e-2, betas=(0.95, 0.95), **options), b, grads)
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_defaults_are_torchs_but_for_the_kernel(ours, theirs):
    mine, other = ours(parameters(), beta=0.9).defaults, theirs(parameters()).defaults
    assert {k: v for k, v in mine.items() if k != "betas"} == {k: v for k, v in other.items() if k != "betas"}


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_deterministic(ours, theirs):
    runs = []
    for _ in range(2):
        params = parameters()
        runs.append(apply(ours(params, beta=0.95), params, gradients(params, 5)))
    assert all(torch.equal(p, q) for p, q in zip(*runs, strict=True))


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("beta", [0.5, 0.95])
def test_converges(ours, theirs, beta):
    x = torch.nn.Parameter(torch.tensor([5.0, -3.0]))
    target = torch.tensor([1.0, 2.0])
    optimizer = ours([x], lr=0.1, beta=beta, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
    for _ in range(400):
        optimizer.zero_grad()
        ((x - target) ** 2).sum().backward()
        optimizer.step()
        schedule.step()
    torch.testing.assert_close(x.detach(), target, atol=1e-3, rtol=0)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0, 0.9999),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    st.floats(1e-4, 1.0),
)
def test_an_update_never_exceeds_the_learning_rate(beta, values, lr):
    x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = BalancedAdamW([x], lr=lr, beta=beta, weight_decay=0.0)
    for value in values:
        before = x.item()
        x.grad = torch.tensor([value], dtype=torch.float64)
        optimizer.step()
        assert abs(x.item() - before) <= lr * (1 + 1e-6)


def test_the_bound_needs_the_tie():
    """The docstring's counterexample: silence, then one gradient, moves an untied Adam past its learning rate."""
    x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.Adam([x], lr=1.0, betas=(0.5, 0.999))
    for value in [0.0] * 2000 + [1.0]:
        x.grad = torch.tensor([value], dtype=torch.float64)
        optimizer.step()
    assert abs(x.item()) > 10


# --- the constructor


def test_horizon_or_beta_but_not_both():
    assert BalancedAdamW(parameters(), lr=3e-4, horizon=20_000, rule="paper", weight_decay=0.1).beta == 0.95
    assert BalancedAdamW(parameters(), horizon=20_000, rule="refresh:500").beta == 0.975
    for arguments in ({}, {"beta": 0.9, "horizon": 20_000}):
        with pytest.raises(ValueError, match="exactly one of beta= and horizon="):
            BalancedAdamW(parameters(), **arguments)
    with pytest.raises(ValueError, match="give beta= or horizon=, not betas="):
        BalancedAdamW(parameters(), betas=(0.9, 0.999))
    with pytest.raises(ValueError, match="must exceed 1000"):
        BalancedAdam(parameters(), horizon=500, rule="paper")
    with pytest.raises(ValueError, match=r"in \[0, 1\)"):
        BalancedAdam(parameters(), beta=1.0)
    with pytest.raises(TypeError, match="no_such_option"):
        BalancedAdam(parameters(), beta=0.9, no_such_option=1)  # type: ignore[call-arg]


def test_a_rule_belongs_to_a_horizon():
    assert BalancedAdam(parameters(), horizon=2_000, rule="paper").beta == 0.5
    assert BalancedAdam(parameters(), horizon=2_000, rule="refresh:300").beta == 0.85
    assert BalancedAdam(parameters(), horizon=2_000, rule=Fixed(0.9)).beta == 0.9
    with pytest.raises(ValueError, match="give it with horizon=, not with beta="):
        BalancedAdamW(parameters(), beta=0.9, rule="paper")


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_every_option_of_torchs_is_spelled_out(ours, theirs):
    mine, torchs = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert set(torchs) - {"decoupled_weight_decay"} <= set(mine)  # that is BalancedAdamW
    assert all(parameter.kind != parameter.VAR_KEYWORD and parameter.annotation for parameter in mine.values())


def test_groups_and_named_parameters():
    first, second = parameters()[:2]
    optimizer = BalancedAdamW([{"params": [first], "lr": 0.1}, {"params": [second]}], lr=0.2, beta=0.9)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.2]
    model = torch.nn.Linear(3, 2)
    named = BalancedAdamW(model.named_parameters(), beta=0.9)
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


# --- the kernel


def test_fused_wherever_torch_has_it():
    assert BalancedAdamW(parameters(), beta=0.9).param_groups[0]["fused"] is True
    assert BalancedAdamW(parameters(), beta=0.9, fused=False).param_groups[0]["fused"] is False
    assert BalancedAdamW(parameters(), beta=0.9, foreach=True).param_groups[0]["fused"] is None
    assert BalancedAdamW(parameters(), beta=0.9, differentiable=True).param_groups[0]["fused"] is None
    assert BalancedAdamW(parameters(torch.complex64), beta=0.9).param_groups[0]["fused"] is None
    meta = [torch.nn.Parameter(torch.empty(3, device="meta"))]
    assert BalancedAdamW(meta, beta=0.9).param_groups[0]["fused"] is None


def test_a_group_that_cannot_be_fused_leaves_the_others():
    real, complex_ = parameters()[:1], parameters(torch.complex64)[:1]
    optimizer = BalancedAdamW(real, beta=0.9)
    assert optimizer._step_supports_amp_scaling
    optimizer.add_param_group({"params": complex_})
    assert [g["fused"] for g in optimizer.param_groups] == [True, None]
    assert not optimizer._step_supports_amp_scaling
    apply(optimizer, real + complex_, gradients(real + complex_, 3))
    assert all(torch.isfinite(torch.view_as_real(p) if p.is_complex() else p).all() for p in real + complex_)


@pytest.mark.parametrize("kernel", ["foreach", "loop"])
def test_complex_parameters_equal_torchs(kernel):
    a, b = parameters(torch.complex64), parameters(torch.complex64)
    grads = gradients(a, 10)
    apply(BalancedAdamW(a, beta=0.95, **KERNELS[kernel]), a, grads)
    apply(torch.optim.AdamW(b, betas=(0.95, 0.95), **KERNELS[kernel]), b, grads)
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_tensor_learning_rate():
    a, b = parameters(), parameters()
    grads = gradients(a, 10)
    apply(BalancedAdamW(a, lr=torch.tensor(1e-2), beta=0.95), a, grads)
    apply(BalancedAdamW(b, lr=1e-2, beta=0.95), b, grads)
    for p, q in zip(a, b, strict=True):
        torch.testing.assert_close(p, q)


def test_capturable():
    a, b = parameters(), parameters()
    grads = gradients(a, 10)
    optimizer = BalancedAdamW(a, lr=1e-2, beta=0.95, capturable=True)
    apply(optimizer, a, grads)
    apply(torch.optim.AdamW(b, lr=1e-2, betas=(0.95, 0.95), capturable=True, fused=True), b, grads)
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))
    assert optimizer.param_groups[0]["capturable"]


@pytest.mark.parametrize("kernel", ["fused", "loop"])
def test_grad_scaler(kernel):
    """A GradScaler leaves the losses of an unscaled run, and skips the step whose gradient overflowed."""
    a, b = parameters(), parameters()
    grads = gradients(a, 4)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    optimizer = BalancedAdamW(a, lr=1e-2, beta=0.9, **KERNELS[kernel])
    for number, step in enumerate(grads):
        loss = sum((p * g).sum() for p, g in zip(a, step, strict=True))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if number == 1:
            a[0].grad[0, 0] = math.inf
        scaler.step(optimizer)
        scaler.update()
    apply(BalancedAdamW(b, lr=1e-2, beta=0.9, **KERNELS[kernel]), b, [g for n, g in enumerate(grads) if n != 1])
    for p, q in zip(a, b, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)


COMPILED = {
    "by default": {},
    "loop": {"fused": False},
    "foreach": {"fused": False, "foreach": True, "capturable": True, "lr": torch.tensor(1e-2)},
}


@pytest.mark.parametrize("options", COMPILED)
def test_torch_compile(options):
    a, b = parameters(), parameters()
    grads = gradients(a, 4)
    optimizer = BalancedAdamW(a, beta=0.95, **({"lr": 1e-2} | COMPILED[options]))
    compiled = torch.compile(optimizer.step, backend="eager")
    for step in grads:
        for p, g in zip(a, step, strict=True):
            p.grad = g.clone()
        compiled()
    apply(torch.optim.AdamW(b, lr=1e-2, betas=(0.95, 0.95)), b, grads)
    for p, q in zip(a, b, strict=True):
        torch.testing.assert_close(p, q)
    optimizer.param_groups[0]["betas"] = (0.9, 0.95)
    with pytest.raises(Exception, match="differ"):
        compiled()


# --- the tie


def test_beta_reads_and_sets_all_groups():
    first, second = parameters()[:2]
    optimizer = BalancedAdamW([{"params": [first]}, {"params": [second]}], beta=0.9)
    optimizer.beta = 0.99
    assert optimizer.beta == 0.99
    assert [g["betas"] for g in optimizer.param_groups] == [(0.99, 0.99)] * 2
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    assert optimizer.param_groups[-1]["betas"] == (0.99, 0.99)
    with pytest.raises(ValueError, match=r"in \[0, 1\)"):
        optimizer.beta = 1.5


def test_beta_may_be_set_from_another_thread():
    """A step that finds the groups apart while another thread sets them waits for it instead of stopping."""
    params = [torch.nn.Parameter(torch.ones(1)) for _ in range(200)]
    optimizer = BalancedAdamW([{"params": [p]} for p in params], beta=0.9, lr=0.0)
    ended = threading.Event()

    def restless():
        while not ended.is_set():
            optimizer.beta = 0.8
            optimizer.beta = 0.9

    setter = threading.Thread(target=restless)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    setter.start()
    try:
        for _ in range(200):
            assert optimizer.beta in (0.8, 0.9)
        optimizer.step()
    finally:
        ended.set()
        setter.join()
        sys.setswitchinterval(interval)


def test_one_cycle_stops_the_next_step_and_names_the_fix():
    params = parameters()
    optimizer = BalancedAdamW(params, beta=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    before = [p.detach().clone() for p in params]
    with pytest.raises(RuntimeError, match="cycle_momentum=False"):
        apply(optimizer, params, gradients(params, 1))
    assert all(torch.equal(p, q) for p, q in zip(params, before, strict=True))
    optimizer = BalancedAdamW(params, beta=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10, cycle_momentum=False)
    apply(optimizer, params, gradients(params, 1))
    schedule.step()
    assert optimizer.beta == 0.9


def test_hooks_run_once_a_step_whoever_made_an_adam_before():
    torch.optim.AdamW(parameters())
    torch.optim.Adam(parameters())
    for ours, _ in CLASSES:
        params = parameters()
        optimizer = ours(params, beta=0.9)
        calls = []
        optimizer.register_step_pre_hook(lambda *_, calls=calls: calls.append("before"))
        optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append("after"))
        apply(optimizer, params, gradients(params, 1))
        assert calls == ["before", "after"]


@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
def test_copies_keep_the_tie_check(how):
    params = parameters()
    optimizer = BalancedAdamW(params, beta=0.9)
    apply(optimizer, params, gradients(params, 2))
    twin = pickle.loads(pickle.dumps(optimizer)) if how == "pickle" else copy.deepcopy(optimizer)
    assert twin.beta == 0.9
    assert twin._step_supports_amp_scaling
    twin.param_groups[0]["betas"] = (0.9, 0.999)
    with pytest.raises(RuntimeError, match="differ"):
        twin.step()


# --- checkpoints


def on_disk(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("kernel", [*KERNELS, "plain"])
@pytest.mark.parametrize("direction", ["torch to ours", "ours to torch"])
def test_checkpoints_interchange_bit_for_bit(ours, theirs, kernel, direction):
    options = {"lr": 1e-2, "weight_decay": 0.1} | KERNELS.get(kernel, {})

    def mine(params):
        return ours(params, beta=0.95, **options)

    def torchs(params):
        return theirs(params, betas=(0.95, 0.95), **options)

    first, second = (torchs, mine) if direction == "torch to ours" else (mine, torchs)
    reference = parameters()
    grads = gradients(reference, 10)
    apply(first(reference), reference, grads)

    params = parameters()
    begun = first(params)
    apply(begun, params, grads[:5])
    continued = second(params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        continued.load_state_dict(on_disk(begun.state_dict()))
    apply(continued, params, grads[5:])
    assert all(torch.equal(p, q) for p, q in zip(params, reference, strict=True))


@pytest.mark.parametrize("before", KERNELS)
@pytest.mark.parametrize("after", KERNELS)
def test_state_moves_between_kernels(before, after):
    params, reference = parameters(torch.float64), parameters(torch.float64)
    grads = gradients(params, 10)
    apply(BalancedAdamW(reference, lr=1e-2, beta=0.95), reference, grads)
    begun = BalancedAdamW(params, lr=1e-2, beta=0.95, **KERNELS[before])
    apply(begun, params, grads[:5])
    continued = BalancedAdamW(params, lr=1e-2, beta=0.95, **KERNELS[after])
    state = begun.state_dict()
    for group in state["param_groups"]:
        group.update({"fused": None, "foreach": None} | KERNELS[after])
    continued.load_state_dict(on_disk(state))
    apply(continued, params, grads[5:])
    for p, q in zip(params, reference, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


def test_a_loaded_tied_beta_wins_with_a_warning():
    params = parameters()
    state = torch.optim.AdamW(params, betas=(0.99, 0.99)).state_dict()
    optimizer = BalancedAdamW(params, beta=0.9)
    with pytest.warns(UserWarning, match=r"beta 0.99 replaces 0.9"):
        optimizer.load_state_dict(state)
    assert optimizer.beta == 0.99
    assert optimizer.defaults["betas"] == (0.99, 0.99)


def test_a_loaded_untied_beta_does_not_win():
    params = parameters()
    begun = torch.optim.AdamW(params, betas=(0.9, 0.999))
    apply(begun, params, gradients(params, 3))
    optimizer = BalancedAdamW(params, beta=0.95)
    with pytest.warns(UserWarning, match=r"\(0.9, 0.999\).* not tied; keeping beta = 0.95"):
        optimizer.load_state_dict(begun.state_dict())
    assert optimizer.beta == 0.95
    apply(optimizer, params, gradients(params, 3))
    assert optimizer.state[params[0]]["step"] == 6


def _another(kind, p):
    optimizer = kind([p], lr=0.1)
    p.grad = torch.ones_like(p)
    optimizer.step()
    return optimizer.state_dict()


@pytest.mark.parametrize("state", ["full", "compact"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adamax])
def test_a_checkpoint_of_another_kind_of_optimizer_is_refused_and_nothing_is_loaded(kind, state):
    """The optimizer was left without betas, and its next step failed."""
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = BalancedAdamW([p], lr=0.1, beta=0.9, state=state)
    with pytest.raises(ValueError, match="not a checkpoint of Adam|the checkpoint's state has no"):
        optimizer.load_state_dict(_another(kind, p))
    optimizer.step()
    assert optimizer.beta == 0.9
    assert optimizer.state[p]["step"].item() == 1


@pytest.mark.parametrize("state", ["full", "compact"])
@pytest.mark.parametrize(
    "betas", [(1.0, 1.0), (1.5, 1.5), (-1.0, -1.0), (float("nan"),) * 2, (0.9,), None, ("0.9", "0.9")]
)
def test_invalid_betas_of_a_checkpoint_are_refused_and_nothing_is_loaded(betas, state):
    """They were loaded: later steps divided by zero, or grew the averages."""
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = BalancedAdamW([p], lr=0.1, beta=0.9, state=state)
    p.grad = torch.ones_like(p)
    optimizer.step()
    checkpoint = copy.deepcopy(optimizer.state_dict())
    checkpoint["param_groups"][0]["betas"] = betas
    with pytest.raises(ValueError, match="beta"):
        optimizer.load_state_dict(checkpoint)
    optimizer.step()
    assert optimizer.beta == 0.9
    assert optimizer.state[p]["step"].item() == 2


@pytest.mark.parametrize("state", ["full", "compact"])
def test_a_checkpoint_whose_state_lacks_an_average_is_refused(state):
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = BalancedAdamW([p], beta=0.9, state=state)
    p.grad = torch.ones_like(p)
    optimizer.step()
    checkpoint = copy.deepcopy(optimizer.state_dict())
    name = [*checkpoint["state"][0]][-1]
    del checkpoint["state"][0][name]
    with pytest.raises(ValueError, match=f"parameter 0: the checkpoint's state has no {name}"):
        optimizer.load_state_dict(checkpoint)
    optimizer.step()


@pytest.mark.parametrize("state", ["full", "compact"])
def test_a_sparse_gradient_after_dense_ones_is_refused_in_words(state):
    p = torch.nn.Parameter(torch.ones(3, 2))
    optimizer = BalancedAdamW([p], beta=0.9, state=state)
    for grad in (torch.ones(3, 2), torch.ones(3, 2).to_sparse()):
        p.grad = grad
        if grad.is_sparse:
            with pytest.raises(RuntimeError, match="sparse gradients"):
                optimizer.step()
        else:
            optimizer.step()
    assert optimizer.state[p]["step"].item() == 1
