"""Every example runs offline as a person runs it, shortened, and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("name", "length", "promised"),
    [
        ("plain_loop", "1500", [r"1,500 steps: beta 0\.8333,", r" 250 refreshes so far", r"\nuseful (for|to)"]),
        (
            "transformers_trainer",
            "1200",
            [r"oneclock: useful for ", r"step 1200: loss \d\.\d+, beta 0\.8333, 200 refreshes so far"],
        ),
        (
            "lightning_fit",
            "28",
            [
                r"oneclock: useful for ",
                r"28 epochs of 38 batches are 1,064 steps: beta 0\.8333",
                r"refresh_count +177",
            ],
        ),
        ("optax_loop", "1200", [r"step 1,200  validation loss 0\.\d+", r"beta 0\.8333 for 1,200 steps"]),
        ("advice_from_tensorboard", "1500", [r"\$ oneclock advise", r"TensorBoard", r"loss/val", r"horizon +"]),
        (
            "sweep_own_function",
            "1100",
            [r"0\.96838 +0\.\d+ +0\.\d+ +0\.\d+", r"best of these: beta 0\.\d+", r"0\.0909"],
        ),
    ],
)
def test_the_example_runs(name, length, promised, tmp_path):
    offline = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "http_proxy": "http://127.0.0.1:9",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", length],
        cwd=tmp_path,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for pattern in promised:
        assert re.search(pattern, done.stdout), done.stdout
