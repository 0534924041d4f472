"""Five minutes on a GPU: does the compact step work there, and is it worth it? Prints a verdict.

    python benchmarks/gpu_check.py                  # on a machine with a CUDA or ROCm device
    python benchmarks/gpu_check.py --compile-only   # anywhere: code for known devices, its traffic, the expected time

Checked on the device: the kernel, the definition and the CPU loop leave the same bits; the time of a step against
torch's fused AdamW and, where installed, the 8-bit AdamW of torchao and bitsandbytes; the peak memory of a step.
Needed: `pip install 'oneclock[compact]'`, and for the comparison `pip install torchao bitsandbytes`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import re
import statistics
from collections.abc import Callable
from typing import Any

import torch

from oneclock import BalancedAdamW

WIDTH, LAYERS = 768, 12
BLOCK = [(WIDTH,)] * 4 + [(WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
BLOCK += [(WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH), (WIDTH,)]
CASES: dict[str, list[tuple[int, ...]]] = {
    "GPT-2 small, 124 M": [(50_304, WIDTH), (1024, WIDTH), *BLOCK * LAYERS, (WIDTH,), (WIDTH,)],
    "two tensors of 64 M": [(8192, 8192)] * 2,
    "a thousand of 64": [(64,)] * 1000,
}
SETTINGS: dict[str, Any] = {"lr": 1e-4, "weight_decay": 0.1}
TIED = {**SETTINGS, "betas": (0.95, 0.95)}
TARGETS = {  # bandwidth in GB/s, by the makers' data sheets
    "NVIDIA A100": (("cuda", 80, 32), 1_555),
    "NVIDIA H100": (("cuda", 90, 32), 3_350),
    "AMD MI300X": (("hip", "gfx942", 64), 5_300),
}
WIDTHS = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "ubyte": 1, "byte": 1, "ushort": 2, "short": 2, "dword": 4}


def contenders() -> dict[str, Callable[[Any], torch.optim.Optimizer]]:
    made: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
        "compact": lambda params: BalancedAdamW(params, beta=0.95, state="compact", fused=True, **SETTINGS),
        "AdamW fused": lambda params: torch.optim.AdamW(params, fused=True, **TIED),
        "AdamW foreach": lambda params: torch.optim.AdamW(params, foreach=True, **TIED),
    }
    for name in ("torchao", "bitsandbytes"):
        if importlib.util.find_spec(name):
            made[f"{name} 8-bit"] = lambda params, name=name: importlib.import_module(f"{name}.optim").AdamW8bit(
                params, **TIED
            )
        else:
            print(f"not compared: {name} (pip install {name})")
    return made


def parameters(shapes: list[tuple[int, ...]], device: str, dtype: torch.dtype = torch.float32) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(device, dtype)) for shape in shapes]
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator).to(device, dtype)
    return params


def same_bits(dtype: torch.dtype, stochastic: bool) -> bool:
    """Whether kernel, definition on the device and the path on the CPU leave the same bits after five steps."""
    shapes = [(300, 77), (1,), (1025,), (64, 64)]
    runs = []
    for device, fused in (("cuda", True), ("cuda", False), ("cpu", None)):
        params = parameters(shapes, device, dtype)
        optimizer = BalancedAdamW(
            params, beta=0.95, state="compact", stochastic_rounding=stochastic, fused=fused, **SETTINGS
        )
        for _ in range(5):
            optimizer.step()
        kept = [(p.detach(), optimizer.state[p]["ratio"], optimizer.state[p]["scale"]) for p in params]
        runs.append([tensor.cpu() for row in kept for tensor in row])
    return all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(*runs, strict=True))


def measure(make: Callable[[Any], torch.optim.Optimizer], shapes: list[tuple[int, ...]]) -> tuple[float, float, float]:
    """Milliseconds of a step; bytes per weight of the state, and of a step above that."""
    params = parameters(shapes, "cuda")
    weights = sum(p.numel() for p in params)
    before = torch.cuda.memory_allocated()
    optimizer = make(params)
    for _ in range(3):
        optimizer.step()
    kept = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(20):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        optimizer.step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    extra = torch.cuda.max_memory_allocated() - kept
    return statistics.median(times), (kept - before) / weights, extra / weights


def check_device() -> None:
    print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {versions()}")
    equal = {}
    for dtype, stochastic in ((torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True)):
        name = f"{str(dtype).removeprefix('torch.')}{', stochastic rounding' if stochastic else ''}"
        equal[name] = same_bits(dtype, stochastic)
        print(f"same bits on kernel, definition and CPU, {name}: {'yes' if equal[name] else 'NO'}")
    ratios, extras = {}, {}
    for case, shapes in CASES.items():
        found = {}
        for name, make in contenders().items():
            try:
                found[name] = measure(make, shapes)
            except Exception as error:
                print(f"{case:<22}{name:<20}failed: {str(error).splitlines()[0][:80]}")
                continue
            time, state, extra = found[name]
            print(f"{case:<22}{name:<20}{time:9.3f} ms{state:7.2f} bytes of state{extra:7.2f} more during a step")
        ratios[case] = found["compact"][0] / found["AdamW fused"][0]
        extras[case] = found["compact"][2]
    large = [case for case in CASES if "thousand" not in case]
    good = all(equal.values()) and all(ratios[case] < 1 and extras[case] < 0.5 for case in large)
    print("time of compact / fused: " + ", ".join(f"{case} {ratio:.2f}" for case, ratio in ratios.items()))
    print(f"verdict: {'good' if good else 'NOT good'} (same bits, faster than fused on large tensors, bounded memory)")


def versions() -> str:
    names = [name for name in ("triton", "torchao", "bitsandbytes") if importlib.util.find_spec(name)]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def compile_for(target: tuple[str, Any, int], bfloat16: bool) -> str:
    """The kernel as assembly for a device that need not be here."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from oneclock.optim import compact_triton

    constants = {
        "P_IS_BF16": bfloat16, "G_IS_BF16": bfloat16, "STOCHASTIC": bfloat16, "L2": False, "MAXIMIZE": False,
        "ALIGNED": True, "BLOCK": compact_triton.BLOCK,
    }  # fmt: skip
    floats = dict.fromkeys(("a", "keep", "unit", "lr", "shrink", "eps", "coupled"), "fp32")
    signature = {"table": "*i64", "programs": "*i64", **floats, "key": "i32", "p_key": "i32"}
    signature |= dict.fromkeys(constants, "constexpr")
    aligned = {(number,): [["tt.divisibility", 16]] for number in range(2)}
    source = ASTSource(compact_triton._update, signature, constants, aligned)
    options = {"num_warps": compact_triton.WARPS, "enable_fp_fusion": False}
    made = triton.compile(source, target=GPUTarget(*target), options=options)
    return made.asm["ptx" if target[0] == "cuda" else "amdgcn"]


def traffic(code: str, target: tuple[str, Any, int]) -> float:
    """Bytes per weight that the wide loads and stores move: those of a block that needs no mask."""
    from oneclock.optim import compact_triton

    if target[0] == "cuda":
        moves = re.findall(r"(?:ld|st)\.global\.v(\d)\.(b\d+)", code)
        moved = sum(int(count) * WIDTHS[width] for count, width in moves)
    else:
        moves = re.findall(r"^\s+global_(?:load|store)_(dword)(?:x(\d))? v", code, re.M)
        moved = sum(WIDTHS[width] * int(count or 1) for width, count in moves)
        moved -= 4 * masked_words(code)
    return moved / (compact_triton.BLOCK / compact_triton.WARPS / target[2])


def masked_words(code: str) -> int:
    """Single words that belong to the masked path: there one load or store per element of a thread."""
    words = len(re.findall(r"^\s+global_(?:load|store)_dword v", code, re.M))
    bytes_ = len(re.findall(r"^\s+global_load_ubyte", code, re.M))  # one per element, only in the masked path
    return words - words % bytes_ if bytes_ else 0


def is_exact(code: str, target: tuple[str, Any, int]) -> bool:
    """Whether roots and quotients are correctly rounded, and nothing is fused or flushed to zero."""
    if target[0] == "cuda":
        bad = re.search(r"\bfma\.|\.ftz|\.approx|div\.full", code)
        return not bad and "sqrt.rn.f32" in code and "div.rn.f32" in code
    # AMD divides and takes roots by sequences of fused operations; each ends in an exact correction.
    return "v_div_fixup_f32" in code and "v_mac_f32" not in code


def compile_only() -> None:
    import triton

    print(f"triton {triton.__version__}; nothing is run")
    for device, (target, bandwidth) in TARGETS.items():
        for bfloat16 in (False, True):
            code = compile_for(target, bfloat16)
            moved, exact = traffic(code, target), is_exact(code, target)
            dtype = "bfloat16" if bfloat16 else "float32"
            full = 28 if not bfloat16 else 14
            print(
                f"{device:<12}{target[1]!s:<8}{dtype:<9}{moved:5.1f} bytes per weight (full state {full}); "
                f"exact arithmetic: {'yes' if exact else 'NO'}; "
                f"a billion weights at {bandwidth:,} GB/s: {moved / bandwidth * 1e3:.1f} ms"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile-only", action="store_true", help="needs no device")
    if parser.parse_args().compile_only:
        compile_only()
    elif torch.cuda.is_available():
        check_device()
    else:
        raise SystemExit("there is no CUDA or ROCm device here; --compile-only needs none")


if __name__ == "__main__":
    main()
