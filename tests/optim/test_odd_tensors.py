"""Odd tensors: what the fused kernel would get wrong comes out as in torch's plain loop, or as a clear error."""

import copy
import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from oneclock import BalancedAdam, BalancedAdamW

CLASSES = [(BalancedAdam, torch.optim.Adam), (BalancedAdamW, torch.optim.AdamW)]
SHAPE = (4, 6, 3, 5)


def transposed(x):
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def sliced(x):
    wide = torch.full((*x.shape[:-1], 2 * x.shape[-1] + 1), 7.0, dtype=x.dtype)
    view = wide[..., 1::2]
    view.copy_(x)
    return view


def shifted(x):
    long = torch.full((x.numel() + 3,), 7.0, dtype=x.dtype)
    view = long[3:].view(x.shape)
    view.copy_(x)
    return view


def channels_last(x):
    return x.contiguous(memory_format=torch.channels_last)


def resized(x):
    """A tensor that was another size before, in a storage that is longer than it."""
    return torch.zeros(2 * x.numel(), dtype=x.dtype).resize_(x.shape).copy_(x)


LAYOUTS = {f.__name__: f for f in (torch.clone, transposed, sliced, shifted, channels_last, resized)}


def expanded(x):
    return x[:, :1].expand(x.shape)


def overlapping(x):
    return x.reshape(-1).as_strided(x.shape, (3, 2, 1, 1))


GRADIENTS = LAYOUTS | {"expanded": expanded, "overlapping": overlapping}


def run(make, odd_param, grads, later, state_layout, seed, **options):
    """Six steps: from the third on the parameter lies as `later` says, and from the fifth on the averages do."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.nn.Parameter(LAYOUTS[odd_param](torch.randn(SHAPE, generator=generator, dtype=torch.float64)))
    still = torch.nn.Parameter(torch.randn(5, generator=generator, dtype=torch.float64))
    optimizer = make([p, still], lr=0.1, weight_decay=0.1, **options)
    for step in range(6):
        if step == 2:
            p.grad, p.data = None, LAYOUTS[later](p.data)
        if step == 4:
            state = copy.deepcopy(optimizer.state_dict())
            for name in ("exp_avg", "exp_avg_sq"):
                state["state"][0][name] = LAYOUTS[state_layout](state["state"][0][name])
            optimizer.load_state_dict(state)
        p.grad = GRADIENTS[grads[step % len(grads)]](torch.randn(SHAPE, generator=generator, dtype=torch.float64))
        still.grad = torch.randn(5, generator=generator, dtype=torch.float64)
        optimizer.step()
    return p, still


@settings(deadline=None, max_examples=60)
@given(
    classes=st.sampled_from(CLASSES),
    odd_param=st.sampled_from([*LAYOUTS]),
    grads=st.lists(st.sampled_from([*GRADIENTS]), min_size=1, max_size=4),
    later=st.sampled_from([*LAYOUTS]),
    state_layout=st.sampled_from([*LAYOUTS]),
    chosen=st.sampled_from([{}, {"fused": True}, {"amsgrad": True}, {"maximize": True}]),
    seed=st.integers(0, 2**31),
)
def test_every_layout_is_stepped_as_in_torchs_loop(classes, odd_param, grads, later, state_layout, chosen, seed):
    ours, theirs = classes
    layout = (odd_param, grads, later, state_layout, seed)
    loop = chosen | {"fused": False, "foreach": False}
    mine = run(lambda params, **options: ours(params, beta=0.9, **options), *layout, **chosen)
    plain = run(lambda params, **options: theirs(params, betas=(0.9, 0.9), **options), *layout, **loop)
    for a, b in zip(mine, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_what_lies_between_the_elements_of_a_view_is_not_touched():
    wide = torch.full((4, 7), 7.0)
    p = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = BalancedAdamW([p], lr=0.1, beta=0.9)
    p.grad = torch.ones(4, 3)
    optimizer.step()
    p.grad, p.data = None, wide[:, 1::2]
    p.grad = torch.ones(4, 3)
    optimizer.step()
    assert (wide[:, ::2] == 7).all()
    assert (wide[:, 1::2] < 7).all()
    assert optimizer.param_groups[0]["fused"] is False  # torch's loop from here on


def stepped(shape=(3, 4), dtype=torch.float32):
    p = torch.nn.Parameter(torch.ones(shape, dtype=dtype))
    optimizer = BalancedAdamW([p], lr=0.1, beta=0.9)
    p.grad = torch.ones_like(p)
    optimizer.step()
    return p, optimizer


@pytest.mark.parametrize("replacement", [torch.ones(5, 4), torch.ones(4, 3), torch.ones(3), torch.ones(1000, 1000)])
def test_a_parameter_replaced_by_another_shape_is_refused(replacement):
    p, optimizer = stepped()
    p.grad, p.data = None, replacement.clone()
    p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match=r"exp_avg.* has shape \(3, 4\), its parameter"):
        optimizer.step()
    assert torch.equal(p, replacement)


def test_another_dtype_or_device_is_refused():
    p, optimizer = stepped()
    p.grad, p.data = None, p.data.double()
    p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match="Double"):
        optimizer.step()
    p, optimizer = stepped()
    optimizer.state[p]["exp_avg"] = optimizer.state[p]["exp_avg"].double().T.contiguous().T
    with pytest.raises(RuntimeError, match=r"exp_avg is torch.float64 on cpu, its parameter torch.float32 on cpu"):
        optimizer.step()
    p, optimizer = stepped()
    optimizer.state[p]["exp_avg_sq"] = torch.ones(4, 3, device="meta").T
    with pytest.raises(RuntimeError, match=r"exp_avg_sq is torch.float32 on meta, its parameter"):
        optimizer.step()


def test_a_checkpoint_of_parameters_in_another_order_is_refused_and_nothing_is_loaded():
    shapes = [(7, 5), (5,)]
    params = [torch.nn.Parameter(torch.ones(shape)) for shape in shapes]
    saved = BalancedAdamW(params[::-1], beta=0.9)
    for p in params:
        p.grad = torch.ones_like(p)
    saved.step()
    optimizer = BalancedAdamW(params, beta=0.9)
    with pytest.raises(ValueError, match=r"parameter 0: exp_avg.* has shape \(5,\), its parameter \(7, 5\)"):
        optimizer.load_state_dict(saved.state_dict())
    assert not optimizer.state
    optimizer.step()


def test_a_compiled_step_is_right_too():
    """Also for the second shape in a process, whose sizes torch compiles as variables."""
    for rows, columns in ((4, 3), (5, 7)):
        ours, plain = (torch.nn.Parameter(torch.ones(rows, columns)) for _ in range(2))
        optimizer = BalancedAdamW([ours], lr=0.1, beta=0.9)
        reference = torch.optim.AdamW([plain], lr=0.1, betas=(0.9, 0.9), foreach=False)
        compiled = torch.compile(optimizer.step, backend="eager")
        for step in range(5):
            plain.grad = torch.randn(columns, rows).T.contiguous()
            ours.grad = plain.grad.T.contiguous().T if step >= 2 else plain.grad.clone()
            compiled()
            reference.step()
            torch.testing.assert_close(ours, plain)


def test_the_scaler_loses_one_step_in_words_when_a_parameter_becomes_a_view():
    p, optimizer = stepped()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    p.grad, p.data = None, torch.ones(3, 9)[:, ::2][:, :4]
    for attempt in range(2):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        if attempt == 0:
            with pytest.raises(RuntimeError, match="has become a view with gaps"):
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scaler.update()
    assert (p < 1).all()


@pytest.fixture
def sharded():
    """Puts a tensor on a mesh of one process, with torch's stand-in for the group."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    yield lambda tensor: DTensor.from_local(tensor, mesh, [Shard(0)])
    torch.distributed.destroy_process_group()


def specs():
    gc.collect()
    return sum(type(kept).__name__ == "DTensorSpec" for kept in gc.get_objects())


def test_sharded_parameters_are_stepped_as_in_torchs_loop_and_leave_nothing_behind(sharded):
    """One new DTensorSpec per parameter and step is what the fused kernel left behind in some versions of torch."""
    params = [torch.nn.Parameter(sharded(torch.ones(6, 4))) for _ in range(3)]
    plain = [torch.nn.Parameter(torch.ones(6, 4)) for _ in range(3)]
    optimizer = BalancedAdamW(params, lr=torch.tensor(0.1), beta=0.9)
    reference = torch.optim.AdamW(plain, lr=0.1, betas=(0.9, 0.9), foreach=False)
    assert optimizer.param_groups[0]["fused"]
    counts = []
    for step in range(12):
        for p, q in zip(params, plain, strict=True):
            q.grad = torch.randn(4, 6).T if step % 2 else torch.randn(1, 4).expand(6, 4)
            p.grad = sharded(q.grad)
        if step == 6:
            odd = optimizer.state[params[0]]["exp_avg"].to_local().T.contiguous().T
            optimizer.state[params[0]]["exp_avg"] = sharded(odd)
        optimizer.step()
        reference.step()
        if step in (8, 11):
            counts.append(specs())
    assert counts[0] == counts[1]
    for p, q in zip(params, plain, strict=True):
        torch.testing.assert_close(p.to_local(), q.detach())  # type: ignore[attr-defined]
