"""The peak memory of a step, not only what is kept: at most half a byte per weight beyond the state, on every path."""

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("memory_worker.py")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")


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
        pytest.param("compiled", marks=pytest.mark.slow),
    ],
)
def test_a_step_needs_little_more_than_it_keeps(path):
    """The definition once needed 57 bytes per weight."""
    if path in ("loop", "negated"):
        pytest.importorskip("numba")
    command = [sys.executable, "-W", "ignore", str(WORKER), path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    weights, buffer = 2**23, 8e6
    for line in done.stdout.splitlines():
        assert float(line) < 0.5 * weights + buffer
