"""The peak memory of a step, not only what is kept: at most half a byte per weight beyond the state, on every path."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("memory_worker.py")
WEIGHTS, BUFFER = 2**23, 8e6
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")


def measured(path):
    command = [sys.executable, "-W", "ignore", str(WORKER), path]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # memory used twice would not be counted
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return [float(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "path",
    [
        "definition",
        "stochastic",
        "loop",
        "transposed",
        "negated",
        "expanded",
        "full",
        pytest.param("triton", marks=pytest.mark.slow),
        pytest.param("compiled", marks=pytest.mark.slow),
    ],
)
def test_a_step_needs_little_more_than_it_keeps(path):
    """The definition once needed 57 bytes per weight."""
    if path in ("loop", "negated"):
        pytest.importorskip("numba")
    if path == "triton" and not importlib.util.find_spec("triton"):
        pytest.skip("triton is not installed")
    assert all(taken < 0.5 * WEIGHTS + BUFFER for taken in measured(path))


def test_loading_a_checkpoint_takes_little_more_than_the_state():
    """Torch's loading makes float32 of ratios and scales: eight bytes per weight more."""
    assert all(taken < 3.5 * WEIGHTS + BUFFER for taken in measured("load"))
