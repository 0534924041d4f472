"""The GPU kernel without a GPU: Triton's interpreter runs it on the CPU, and its compiler makes code for real devices.

Both need a process of their own: Triton reads TRITON_INTERPRET when the kernel is imported.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="triton is not installed")
WORKER = Path(__file__).with_name("triton_worker.py")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"


def printed(command, tmp_path, **environment):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), **environment}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("case", "lines"), [("dtypes_and_options", 24), ("shards", 1), ("misaligned", 1), ("count_launches", 1)]
)
def test_the_kernel_equals_the_definition_to_the_last_bit(case, lines, tmp_path):
    assert len(printed(["-W", "ignore", WORKER, case], tmp_path, TRITON_INTERPRET="1")) == lines


def test_the_code_for_real_gpus_moves_18_bytes_per_weight_and_rounds_correctly(tmp_path):
    """Compiled ahead of time, for NVIDIA and AMD. Fused multiply-add or approximate roots would change bits."""
    lines = [line for line in printed([SCRIPT, "--compile-only"], tmp_path) if "bytes per weight" in line]
    assert len(lines) == 6
    for line in lines:
        expected = "18.0" if "float32" in line else "12.0" if "bfloat16" in line else None
        assert re.search(r"([\d.]+) bytes per weight", line)[1] == expected
        assert "exact arithmetic: yes" in line


def test_the_script_for_a_gpu_runs_in_the_interpreter(tmp_path):
    """All of it but the device: equality, the comparison with torch, and a verdict."""
    lines = printed(["-W", "ignore", SCRIPT, "--interpret"], tmp_path)
    assert [line.rsplit(": ", 1)[1] for line in lines if line.startswith("same bits")] == ["yes"] * 3
    assert sum(" compact " in line and line.endswith("ran") for line in lines) == 2
    assert lines[-1].startswith("verdict: good")


def test_the_tables_on_a_gpu_take_little_memory(tmp_path):
    """Also where the tensors that have a gradient change from step to step, so that all cached tables are in use."""
    (line,) = printed(["-W", "ignore", WORKER, "table_bytes"], tmp_path, TRITON_INTERPRET="1")
    assert float(line) < 0.5
