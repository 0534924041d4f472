"""DeepSpeed's ZeRO-Offload with compact state, on the CPU, where DeepSpeed is installed.

FSDP2's offload is in test_distributed.py.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("offload_worker.py")


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="deepspeed is not installed")
def test_zero_offload_trains_with_three_bytes_of_state():
    done = subprocess.run([sys.executable, str(WORKER)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("bytes of state per weight, on the CPU") == 3
