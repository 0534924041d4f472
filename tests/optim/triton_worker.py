"""Compares the Triton kernel with the definition, on the CPU, under Triton's interpreter. Not a test itself.

Usage: TRITON_INTERPRET=1 triton_worker.py CASE ..: prints one line for each comparison that has the same bits.
"""

import itertools
import sys

import torch

from oneclock import BalancedAdam, BalancedAdamW
from oneclock.optim import compact_group, compact_triton

compact_triton.BLOCK = 128  # the interpreter is slow; several programs per tensor all the same
SHAPES = ((7, 5), (1,), (128,), (129,), (3, 43), (0,), (2, 3, 50), (301,))
DTYPES = (torch.float32, torch.bfloat16)
LAUNCHES: list[int] = []
HARD = [0.0, -0.0, 1e-30, 1e30, -3e38, 1e-45, float("nan"), float("inf"), -float("inf")]


def use_kernel():
    """Let the Triton kernel update tensors on the CPU, and count its launches."""
    compact_group.kernel_for.cache_clear()
    compact_group.KERNELS["cpu"] = ("triton", "compact_triton", "")
    LAUNCHES.clear()


def run(make, dtype, grad_dtype, kernel, wrap=lambda x: x, shapes=SHAPES, steps=3, **options):
    use_kernel()
    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(wrap(torch.randn(shape, generator=generator).to(dtype))) for shape in shapes]
    if grad_dtype is not dtype:
        for p in params:
            p.grad_dtype = grad_dtype
    groups = [{"params": params[:3]}, {"params": params[3:], "beta": 0.99}] if len(params) > 3 else params
    optimizer = make(groups, lr=1e-2, beta=0.9, state="compact", fused=kernel, **options)
    for step in range(steps):
        for number, p in enumerate(params):
            g = torch.randn(shapes[number], generator=generator) * 10.0 ** (step - 1)
            if number == 7 and step == 2:
                g[: len(HARD)] = torch.tensor(HARD)
            p.grad = None if number == 4 and step == 1 else wrap(g.to(grad_dtype))  # so steps differ between tensors
        optimizer.step()
    assert bool(LAUNCHES) is kernel
    return [[p.detach(), *(optimizer.state[p][name] for name in ("ratio", "scale", "step"))] for p in params]


def same_bits(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            x, y = (t.to_local() if hasattr(t, "to_local") else t for t in (x, y))
            assert x.dtype == y.dtype
            assert torch.equal(x.isnan(), y.isnan())
            assert torch.equal(x.nan_to_num(), y.nan_to_num())


def dtypes_and_options():
    pairs = [(p, g) for p, g in itertools.product(DTYPES, DTYPES) if p is g or hasattr(torch.Tensor, "grad_dtype")]
    for dtype, grad_dtype in pairs:
        for make, stochastic, options in itertools.product(
            (BalancedAdam, BalancedAdamW), (False, True), ({"weight_decay": 0.1}, {"maximize": True, "eps": 0.0})
        ):
            if stochastic and dtype is torch.float32:
                continue
            runs = [
                run(make, dtype, grad_dtype, kernel, stochastic_rounding=stochastic, **options)
                for kernel in (False, True)
            ]
            same_bits(*runs)
            print(make.__name__, dtype, grad_dtype, "stochastic" if stochastic else "nearest", *options)


def shards():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    shapes = ((6, 5, 21),)
    (whole,) = run(BalancedAdamW, torch.float32, torch.float32, False, shapes=shapes)
    for axis, rank in itertools.product(range(3), range(3)):
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=3)
        mesh = init_device_mesh("cpu", (3,), mesh_dim_names=(f"axis{axis}rank{rank}",))

        def part(x, axis=axis, rank=rank):
            return x.chunk(3, axis)[rank].contiguous()

        def placed(x, mesh=mesh, axis=axis, part=part):
            return DTensor.from_local(part(x), mesh, [Shard(axis)], run_check=False, shape=x.shape, stride=x.stride())

        (shard,) = run(BalancedAdamW, torch.float32, torch.float32, True, placed, shapes)
        for mine, all_of_it in zip(shard[:3], whole[:3], strict=True):
            assert torch.equal(mine.to_local(), part(all_of_it))
        torch.distributed.destroy_process_group()
    print("shards")


def misaligned():
    """Views that start in the middle of a larger tensor, as in one flat buffer for all parameters."""

    def shifted(x):
        return torch.cat([x.new_zeros(3), x.reshape(-1)])[3:].view(x.shape)

    same_bits(
        *(
            run(BalancedAdamW, torch.bfloat16, torch.bfloat16, k, shifted, stochastic_rounding=True)
            for k in (False, True)
        )
    )
    print("misaligned")


def count_launches():
    """One launch for many small tensors."""
    run(BalancedAdamW, torch.float32, torch.float32, True, shapes=((8,),) * 3, steps=2)
    assert len(LAUNCHES) == 2
    print("one launch per step")


def table_bytes():
    """The bytes per weight of all tables that may be cached, for sets of tensors that nearly cover 16 M weights."""
    compact_triton.BLOCK = 1024
    compact_triton._programs.cache_clear()
    weights, device = 2**24, torch.device("cpu")
    tables = [compact_triton._programs((weights - number,), device) for number in range(100)]
    kept = compact_triton._programs.cache_info().currsize
    print(sum(table.nbytes for table in tables[-kept:]) / weights)


launch = compact_triton._launch


def counted(*arguments):
    LAUNCHES.append(1)
    launch(*arguments)


compact_triton._launch = counted

if __name__ == "__main__":
    for case in sys.argv[1:]:
        globals()[case]()
