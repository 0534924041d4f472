"""Inputs that once gave wrong values with compact state. Each test failed before its fault was fixed."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_map_only

from oneclock import BalancedAdam, BalancedAdamW
from oneclock.optim import compact_group

PATHS = [pytest.param(False, id="definition"), pytest.param(None, id="fastest path")]


def negative_view(tensor):
    """The same values as `tensor`, stored with the opposite sign and torch's lazy negation bit set."""
    view = torch.complex(torch.zeros_like(tensor), -tensor.detach()).conj().imag
    assert view.is_neg()
    return view


@pytest.mark.parametrize("state", ["full", "compact"])
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("fused", PATHS)
def test_a_gradient_with_the_lazy_negation_bit_is_read_with_its_sign(state, contiguous, fused):
    torch.manual_seed(0)
    start, grads = torch.randn(6, 5), [torch.randn(6, 5) for _ in range(4)]
    plain, lazy = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimizers = [BalancedAdamW([p], lr=0.1, beta=0.9, state=state, fused=fused) for p in (plain, lazy)]
    for g in grads:
        plain.grad = g
        lazy.grad = negative_view(g)
        if contiguous:  # a contiguous tensor that still has the bit
            lazy.grad = torch._neg_view(-g)
            assert lazy.grad.is_contiguous()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(plain, lazy)


@pytest.mark.parametrize("state", ["full", "compact"])
def test_a_parameter_with_the_lazy_negation_bit_is_stepped_with_its_sign(state):
    torch.manual_seed(0)
    start, g = torch.randn(4, 3), torch.randn(4, 3)
    plain, lazy = torch.nn.Parameter(start.clone()), torch.nn.Parameter(torch._neg_view(-start))
    for p in (plain, lazy):
        optimizer = BalancedAdamW([p], lr=0.1, beta=0.9, state=state)
        for _ in range(3):
            p.grad = g.clone()
            optimizer.step()
    torch.testing.assert_close(plain.detach(), lazy.detach().resolve_neg())


@pytest.mark.parametrize("state", ["full", "compact"])
def test_training_through_complex_arithmetic_converges(state):
    """Autograd itself makes gradients with the bit, for a parameter of one element behind `conj`."""
    p = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = BalancedAdamW([p], lr=0.05, beta=0.9, weight_decay=0.0, state=state)
    for _ in range(300):
        optimizer.zero_grad()
        loss = ((torch.complex(torch.zeros(1), p).conj() + 0).imag + 1.0).square().sum()
        loss.backward()
        assert p.grad.is_neg()
        optimizer.step()
    assert loss < 1e-3


@pytest.mark.parametrize("fused", PATHS)
@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0x7FC00000, 0x7F800001, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_nan_stays_nan_under_random_rounding(fused, bits, dtype):
    """0x7fffffff is the usual NaN of GPUs. Adding a dither to its bits made it -0.0."""
    p = torch.nn.Parameter(torch.ones(64, dtype=dtype))
    optimizer = BalancedAdamW([p], lr=0.1, beta=0.9, state="compact", stochastic_rounding=True, fused=fused)
    if dtype is torch.bfloat16:
        if not hasattr(p, "grad_dtype"):
            pytest.skip("this torch has no float32 gradients for bfloat16 parameters")
        p.grad_dtype = torch.float32
    p.grad = torch.tensor([bits], dtype=torch.int32).view(torch.float32).repeat(64)
    assert p.grad.isnan().all()
    for _ in range(2):
        optimizer.step()
        assert p.isnan().all()
        assert optimizer.state[p]["scale"].isnan().all()
        p.grad = torch.ones(64)


@pytest.mark.parametrize("fused", PATHS)
@pytest.mark.parametrize("step", [2**24, 2**24 + 1, 2**31, 2**40 + 3])
def test_the_step_counter_counts_every_step(fused, step):
    p = torch.nn.Parameter(torch.ones(100))
    optimizer = BalancedAdamW([p], lr=1e-3, beta=0.9, state="compact", fused=fused)
    p.grad = torch.full_like(p, 0.37)
    optimizer.step()
    optimizer.state[p]["step"].fill_(step)
    ratios = []
    for _ in range(4):
        p.grad = torch.randn(100)
        optimizer.step()
        ratios.append(optimizer.state[p]["ratio"].clone())
    assert optimizer.state[p]["step"].item() == step + 4
    state = optimizer.state_dict()
    again = BalancedAdamW([p], lr=1e-3, beta=0.9, state="compact", fused=fused)
    again.load_state_dict(state)
    assert again.state[p]["step"].item() == step + 4


@pytest.mark.parametrize("fused", PATHS)
def test_late_in_a_long_training_the_rounding_still_changes_from_step_to_step(fused):
    """With a counter that stands still the same elements were rounded up at every step, and weights drifted."""
    p = torch.nn.Parameter(torch.zeros(1000))
    optimizer = BalancedAdamW([p], lr=1e-3, beta=0.99, weight_decay=0.0, state="compact", fused=fused)
    p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.state[p]["step"].fill_(2**24)
    optimizer.state[p]["ratio"].fill_(1)
    levels = []
    for _ in range(200):
        p.grad = torch.zeros_like(p)
        optimizer.step()
        levels.append(optimizer.state[p]["ratio"].float().mean().item())
    assert levels[-1] == pytest.approx(0.99**100, abs=0.06)  # the average decays by 0.99, the scale by its root


@pytest.mark.parametrize("make", [BalancedAdam, BalancedAdamW])
@pytest.mark.parametrize("fused", PATHS)
@pytest.mark.parametrize("weight_decay", [0.1, 10.0])
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_finite_inputs_of_any_size_leave_finite_parameters(make, fused, weight_decay, eps):
    """All exponents of bfloat16 and both signs. L2 decay times a parameter overflowed, and gave NaN."""
    exponents = torch.arange(1, 255, dtype=torch.int32)
    values = ((exponents << 23) | (0x550000 & (exponents << 16))).view(torch.float32)
    values = torch.cat([values, -values, torch.tensor([0.0, 1e-40, -1e-40])])
    moderate = values[values.abs() < 1e38]
    p = torch.nn.Parameter(moderate.to(torch.bfloat16)[:, None].repeat(1, len(values)))
    optimizer = make(
        [p], lr=1e-2, beta=0.9, eps=eps, weight_decay=weight_decay, state="compact", stochastic_rounding=True,
        fused=fused,
    )  # fmt: skip
    for shift in (0, 1, 100, 300):
        p.grad = values.roll(shift).to(torch.bfloat16)[None].repeat(len(moderate), 1)
        optimizer.step()
        assert p.isfinite().all()
        assert optimizer.state[p]["scale"].isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.99, 0.999, 0.9999])
def test_opposite_gradients_leave_opposite_weights_on_average(beta):
    """The mean of (moved by g) + (moved by -g) is zero. It was about -2e-4 lr per step at beta 0.9999."""
    count, steps, start = 200_000, 3_000, 1_000
    p = torch.nn.Parameter(torch.zeros(2 * count))
    optimizer = BalancedAdamW([p], lr=1.0, beta=beta, weight_decay=0.0, state="compact")
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        if step == start:
            before = p.detach().clone()
        g = torch.randn(count, generator=generator)
        p.grad = torch.cat([g, -g])
        optimizer.step()
    moved = (p.detach() - before).double() / (steps - start)
    sums = (moved[:count] + moved[count:]) / 2
    assert abs(sums.mean()) < 3.5 * sums.std() / math.sqrt(count)


@pytest.mark.parametrize("size", [0.3 / 127, 1.4 / 127, 5.123456 / 127, 0.777])
def test_a_ratio_and_its_negative_are_rounded_to_opposite_means(size):
    """The cause of the drift: between -1 and 0 a finer grid was rounded down, so negative ratios were biased."""
    count = 2**18
    means = []
    for sign in (1, -1):
        p = torch.nn.Parameter(torch.zeros(count))
        optimizer = BalancedAdamW([p], lr=0.0, beta=0.5, weight_decay=0.0, eps=0.0, state="compact", fused=False)
        p.grad = torch.ones(count)
        optimizer.step()
        optimizer.state[p]["step"].fill_(2**20)
        optimizer.state[p]["ratio"].fill_(0)
        p.grad = torch.full((count,), sign * size)  # a = 1/2: the scale is known, so is the ratio
        optimizer.step()
        means.append(optimizer.state[p]["ratio"].double().mean().item())
    scale = math.sqrt(0.5 + 0.5 * size**2)
    expected = 127 * 0.5 * size / scale
    noise = 0.5 / math.sqrt(count)
    assert means[0] == pytest.approx(expected, abs=4 * noise)
    assert means[1] == pytest.approx(-expected, abs=4 * noise)


class Quantized(torch.Tensor):
    """A parameter without memory of its own: it keeps another tensor, and sends all operations there."""

    @staticmethod
    def __new__(cls, kept):
        return torch.Tensor._make_wrapper_subclass(cls, kept.shape, dtype=kept.dtype)

    def __init__(self, kept):
        self.kept = kept

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):  # type: ignore[override]
        if operation is torch.ops.aten.detach.default:
            return cls(args[0].kept)
        plain = tree_map_only(Quantized, lambda tensor: tensor.kept, (args, kwargs or {}))
        return operation(*plain[0], **plain[1])


@pytest.mark.parametrize("wrap_gradient", [True, False])
def test_a_parameter_without_memory_of_its_own_is_stepped_by_the_definition(wrap_gradient):
    """The loop wrote to address 0, and the process died."""
    p, plain = torch.nn.Parameter(Quantized(torch.ones(4))), torch.nn.Parameter(torch.ones(4))
    for parameter in (p, plain):
        optimizer = BalancedAdamW([parameter], lr=0.1, beta=0.9, state="compact")
        for _ in range(3):
            g = torch.tensor([1.0, 2.0, -1.0, 0.0])
            parameter.grad = Quantized(g) if wrap_gradient and parameter is p else g
            optimizer.step()
    assert torch.equal(getattr(p, "kept"), plain.detach())  # noqa: B009 (a Parameter by its declared type)


def test_torchs_lazy_zeros_are_a_gradient_of_zeros_at_every_step():
    """They have no memory either. Only the first step of a parameter asked for that."""
    lazy, plain = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    for p, zeros in ((lazy, torch._efficientzerotensor(4)), (plain, torch.zeros(4))):
        optimizer = BalancedAdamW([p], lr=0.1, beta=0.9, state="compact")
        for g in (zeros, torch.ones(4), zeros, zeros):
            p.grad = g
            optimizer.step()
    assert torch.equal(lazy, plain)


@pytest.mark.parametrize(("state", "fused"), [("full", None), ("compact", None), ("compact", False)])
def test_a_second_backward_through_an_old_graph_is_an_error(state, fused):
    """As with torch's plain loop. Autograd cannot see what a kernel writes: old and new weights were mixed."""
    w = torch.nn.Parameter(torch.eye(3))
    optimizer = BalancedAdamW([w], beta=0.9, state=state, fused=fused)
    loss = (torch.ones(2, 3) @ w @ w).square().sum()
    for attempt in range(2):
        if attempt:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        else:
            loss.backward(retain_graph=True)
            optimizer.step()


@pytest.mark.parametrize("fused", PATHS)
def test_another_default_device_is_not_where_the_counter_lives(fused):
    with torch.device("meta"):
        p = torch.nn.Parameter(torch.ones(3, device="cpu"))
        optimizer = BalancedAdamW([p], beta=0.9, state="compact", fused=fused)
        p.grad = torch.ones_like(p)
        optimizer.step()
    assert optimizer.state[p]["step"].device.type == "cpu"


def test_a_step_of_fake_tensors_shows_the_memory_of_a_training_without_running_it():
    with FakeTensorMode():
        p = torch.nn.Parameter(torch.ones(1000))
        optimizer = BalancedAdamW([p], beta=0.9, state="compact", stochastic_rounding=True)
        for _ in range(2):
            p.grad = torch.ones(1000)
            optimizer.step()
        assert sum(optimizer.state[p][name].nbytes for name in ("ratio", "scale")) == 3000


def test_a_process_outside_the_mesh_of_a_parameter_has_nothing_to_do():
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=3, world_size=4)
    try:
        mesh = DeviceMesh("cpu", [0, 1])

        def empty():
            placed = {"run_check": False, "shape": torch.Size((6,)), "stride": (1,)}
            return DTensor.from_local(torch.empty(0), mesh, [Shard(0)], **placed)

        p = torch.nn.Parameter(empty())
        p.grad = empty()
        BalancedAdamW([p], beta=0.9, state="compact").step()
    finally:
        torch.distributed.destroy_process_group()


def test_two_optimizers_that_load_one_checkpoint_go_their_own_ways():
    p, q = (torch.nn.Parameter(torch.ones(50)) for _ in range(2))
    first = BalancedAdamW([p], beta=0.9, state="compact")
    p.grad = torch.ones(50)
    first.step()
    second = BalancedAdamW([q], beta=0.9, state="compact")
    second.load_state_dict(first.state_dict())
    before = {name: value.clone() for name, value in first.state[p].items()}
    q.grad = -torch.ones(50)
    second.step()
    assert second.state[q]["step"] == 2
    assert all(torch.equal(value, before[name]) for name, value in first.state[p].items())


def test_a_folder_that_cannot_be_written_only_costs_the_compiled_files(monkeypatch):
    """As root installs a package in a container, and someone without a home runs it."""
    loop = pytest.importorskip("oneclock.optim.compact_loop")
    asked = []

    def njit(**options):
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(loop, "njit", njit)
    assert loop._compiled(len) is len
    assert asked == [True, False]


def test_a_kernel_that_cannot_be_imported_is_a_warning(monkeypatch):
    """Numba refuses a NumPy that is newer than it knows, with an ImportError."""

    def refuse(name):
        raise ImportError("Numba needs NumPy 2.2 or less")

    monkeypatch.setattr(compact_group.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(compact_group.importlib, "import_module", refuse)
    with pytest.warns(UserWarning, match="numba cannot be imported: Numba needs NumPy"):
        assert compact_group.kernel_for.__wrapped__("cpu") is None
