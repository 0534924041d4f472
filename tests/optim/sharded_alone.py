"""One gloo process with sharded parameters: what steps leave behind, and odd layouts. Not a test itself."""

import gc
import socket

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from oneclock import BalancedAdamW


def specs():
    gc.collect()
    return sum(type(kept).__name__ == "DTensorSpec" for kept in gc.get_objects())


def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))

    def sharded(tensor):
        return DTensor.from_local(tensor, mesh, [Shard(0)])

    params = [torch.nn.Parameter(distribute_tensor(torch.ones(6, 4), mesh, [Shard(0)])) for _ in range(3)]
    plain = [torch.nn.Parameter(torch.ones(6, 4)) for _ in range(3)]
    optimizer = BalancedAdamW(params, lr=torch.tensor(0.1), beta=0.9)
    reference = torch.optim.AdamW(plain, lr=0.1, betas=(0.9, 0.9), foreach=False)
    assert optimizer.param_groups[0]["fused"]
    counts = []
    for step in range(12):
        for p, q in zip(params, plain, strict=True):
            q.grad = torch.randn(4, 6).T
            p.grad = sharded(q.grad)
        optimizer.step()
        reference.step()
        if step >= 4:
            counts.append(specs())
    assert len(set(counts)) == 1, counts
    print("nothing left behind")

    optimizer.state[params[0]]["exp_avg"] = sharded(optimizer.state[params[0]]["exp_avg"].to_local().T.contiguous().T)
    for p, q in zip(params, plain, strict=True):
        p.grad, q.grad = sharded(torch.full((1, 4), 0.5).expand(6, 4)), torch.full((6, 4), 0.5)
    optimizer.step()
    reference.step()
    for p, q in zip(params, plain, strict=True):
        torch.testing.assert_close(p.to_local(), q.detach())
    print("odd layouts as in torch's loop")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
