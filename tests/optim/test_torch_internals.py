"""The parts of torch that are not public and that the optimizers use. Each has a test that says so by name.

`make oldest` runs these with the oldest torch that is supported, the test command with the newest.
"""

import inspect
import re
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from oneclock import BalancedAdamW
from oneclock.optim import balanced

OPTIM = Path(balanced.__file__).parent


def test_init_group_takes_these_lists_in_this_order():
    """`Optimizer._init_group`: overridden, to give the fused kernel only tensors that it can walk."""
    names = list(inspect.signature(torch.optim.Adam._init_group).parameters)
    assert names[1:] == [
        "group",
        "params_with_grad",
        "grads",
        "exp_avgs",
        "exp_avg_sqs",
        "max_exp_avg_sqs",
        "state_steps",
    ]


def test_a_grad_scaler_asks_for_step_supports_amp_scaling():
    """`_step_supports_amp_scaling`: set, so that a GradScaler passes its scale to the fused kernel only."""
    source = inspect.getsource(torch.amp.GradScaler.step)
    assert "_step_supports_amp_scaling" in source
    assert BalancedAdamW([torch.nn.Parameter(torch.ones(2))], beta=0.9)._step_supports_amp_scaling


def test_the_wrapped_step_carries_hooked():
    """`step.hooked` and `step.__wrapped__`: read, so that hooks run once although our `step` calls Adam's."""
    torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    assert torch.optim.Adam.step.hooked  # type: ignore[attr-defined]
    assert not getattr(balanced._TORCHS_STEP, "hooked", False)


def test_a_distributed_tensor_lists_its_chunk():
    """`DTensor.__create_chunk_list__`: the protocol of distributed checkpoints; it gives the offsets of a shard."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    try:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("chunks",))
        whole = {"shape": torch.Size((5, 3)), "stride": (3, 1)}
        (chunk,) = DTensor.from_local(
            torch.ones(2, 3), mesh, [Shard(0)], run_check=False, **whole
        ).__create_chunk_list__()
        assert (tuple(chunk.offsets), tuple(chunk.sizes)) == ((3, 0), (2, 3))
    finally:
        torch.distributed.destroy_process_group()


def test_the_listed_devices_have_a_fused_kernel():
    """`_get_fused_kernels_supported_devices`: not used; only compared with our own list."""
    from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

    assert set(balanced.FUSED_DEVICES) <= set(_get_fused_kernels_supported_devices())


def test_nothing_else_that_is_private_is_used():
    """Underscored names that are read from torch, in all modules of the optimizers."""
    private = re.compile(r"(?:from|import) torch[\w.]*\._\w+|\btorch(?:\.\w+)*\._\w+")
    assert [found for path in OPTIM.glob("*.py") for found in private.findall(path.read_text())] == []
