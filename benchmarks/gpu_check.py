"""Five minutes on a GPU: does the compact step work there, and is it worth it? Prints a verdict.

    python benchmarks/gpu_check.py                  # on a machine with a CUDA or ROCm device
    python benchmarks/gpu_check.py --interpret      # anywhere: the same checks of the kernel in Triton's interpreter
    python benchmarks/gpu_check.py --compile-only   # anywhere: code for known devices, its traffic, the expected time

Checked on the device: the kernel, the definition and the CPU loop leave the same bits; the time of a step against
torch's fused AdamW and, where installed, the 8-bit AdamW of torchao and bitsandbytes; the peak memory of a step.
The interpreter runs the kernel on the CPU with small tensors: the bits count, the times and the memory do not.
Needed: `pip install 'oneclock[compact]'`, and for the comparison `pip install torchao bitsandbytes`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import re
import statistics
import time
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


INTERPRETED: dict[str, list[tuple[int, ...]]] = {
    "three small tensors": [(30, 7), (1,), (129,)],
    "ten of 4": [(4,)] * 10,
}


def use_interpreter() -> None:
    """Let the Triton kernel update tensors on the CPU. Triton reads the variable when it is first imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    from oneclock.optim import compact_group, compact_triton

    compact_triton.BLOCK = 128  # the interpreter is slow
    compact_group.KERNELS["cpu"] = ("triton", "compact_triton", "")
    compact_group.kernel_for.cache_clear()


def use_cpu_loop() -> None:
    from oneclock.optim import compact_group

    compact_group.KERNELS["cpu"] = ("numba", "compact_loop", "")
    compact_group.kernel_for.cache_clear()


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


def same_bits(dtype: torch.dtype, stochastic: bool, device: str) -> bool:
    """Whether kernel, definition on the device and the loop on the CPU leave the same bits after five steps."""
    shapes = [(300, 77), (1,), (1025,), (64, 64)] if device == "cuda" else [(30, 7), (1,), (129,), (16, 16)]
    runs = []
    for where, fused in ((device, True), (device, False), ("cpu", None)):
        if where == device == "cpu" and fused is None:
            use_cpu_loop()
        params = parameters(shapes, where, dtype)
        optimizer = BalancedAdamW(
            params, beta=0.95, state="compact", stochastic_rounding=stochastic, fused=fused, **SETTINGS
        )
        for _ in range(5):
            optimizer.step()
        kept = [(p.detach(), optimizer.state[p]["ratio"], optimizer.state[p]["scale"]) for p in params]
        runs.append([tensor.cpu() for row in kept for tensor in row])
    if device == "cpu":
        use_interpreter()
    return all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(*runs, strict=True))


def allocated(device: str, peak: bool = False) -> int:
    """Bytes that torch holds on the device, now or at most; 0 on the CPU, where torch does not count them."""
    if device == "cpu":
        return 0
    return torch.cuda.max_memory_allocated() if peak else torch.cuda.memory_allocated()


def milliseconds(step: Callable[[], Any], device: str) -> float:
    if device == "cpu":
        began = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - began)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def measure(
    make: Callable[[Any], torch.optim.Optimizer], shapes: list[tuple[int, ...]], device: str
) -> tuple[float, float, float]:
    """Milliseconds of a step; bytes per weight of the state, and of a step above that."""
    params = parameters(shapes, device)
    weights = sum(p.numel() for p in params)
    before = allocated(device)
    optimizer = make(params)
    for _ in range(3):
        optimizer.step()
    kept = allocated(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = [milliseconds(optimizer.step, device) for _ in range(20 if device == "cuda" else 1)]
    extra = allocated(device, peak=True) - kept
    return statistics.median(times), (kept - before) / weights, extra / weights


def check(device: str, cases: dict[str, list[tuple[int, ...]]]) -> bool:
    """Run all checks on "cuda", or in the interpreter on "cpu". Return the verdict."""
    name = torch.cuda.get_device_name() if device == "cuda" else "Triton's interpreter (times mean nothing here)"
    print(f"{name}; torch {torch.__version__}; {versions()}")
    equal = {}
    for dtype, stochastic in ((torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True)):
        name = f"{str(dtype).removeprefix('torch.')}{', stochastic rounding' if stochastic else ''}"
        equal[name] = same_bits(dtype, stochastic, device)
        print(f"same bits on kernel, definition and CPU, {name}: {'yes' if equal[name] else 'NO'}")
    makers, ratios, extras = contenders(), {}, {}
    for case, shapes in cases.items():
        found = {}
        for name, make in makers.items():
            try:
                found[name] = measure(make, shapes, device)
            except Exception as error:
                print(f"{case:<22}{name:<20}failed: {str(error).splitlines()[0][:80]}")
                continue
            took, state, extra = found[name]
            memory = f"{state:7.2f} bytes of state{extra:7.2f} more during a step" if device == "cuda" else "  ran"
            print(f"{case:<22}{name:<20}{took:9.3f} ms{memory}")
        failed = {"compact", "AdamW fused"} - set(found)
        ratios[case] = float("inf") if failed else found["compact"][0] / found["AdamW fused"][0]
        extras[case] = found["compact"][2] if "compact" in found else float("inf")
    print("time of compact / fused: " + ", ".join(f"{case} {ratio:.2f}" for case, ratio in ratios.items()))
    if device == "cpu":
        good = all(equal.values()) and float("inf") not in ratios.values()
        print(f"verdict: {'good' if good else 'NOT good'} (same bits in the interpreter; nothing ran on a GPU)")
        return good
    large = [case for case in cases if "thousand" not in case]
    good = all(equal.values()) and all(ratios[case] < 1 and extras[case] < 0.5 for case in large)
    print(f"verdict: {'good' if good else 'NOT good'} (same bits, faster than fused on large tensors, bounded memory)")
    return good


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
    parser.add_argument("--interpret", action="store_true", help="needs no device")
    asked = parser.parse_args()
    if asked.compile_only:
        compile_only()
        return
    if asked.interpret:
        use_interpreter()
    elif not torch.cuda.is_available():
        raise SystemExit("there is no CUDA or ROCm device here; --interpret and --compile-only need none")
    if not (check("cpu", INTERPRETED) if asked.interpret else check("cuda", CASES)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
