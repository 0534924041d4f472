"""Every example runs offline as a person runs it, shortened, and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("name", "length", "promised"),
    [
        ("plain_loop", "1500", [r"1,500 steps: beta 0\.8469,", r" 230 refreshes so far", r"\nuseful (for|to)"]),
        (
            "transformers_trainer",
            "1200",
            [r"oneclock: [A-Z]\w+ ", r"step 1200: loss \d\.\d+, beta 0\.8319, 202 refreshes so far"],
        ),
        (
            "lightning_fit",
            "28",
            [
                r"oneclock: [A-Z]\w+ ",
                r"28 epochs of 38 batches are 1,064 steps: beta 0\.8233",
                r"refresh_count +188",
            ],
        ),
        ("optax_loop", "1200", [r"step 1,200  validation loss 0\.\d+", r"beta 0\.8319 for 1,200 steps"]),
        ("advice_from_tensorboard", "1500", [r"\$ oneclock advise", r"TensorBoard", r"loss/val", r"horizon +"]),
        (
            "sweep_own_function",
            "1100",
            [r"0\.96838 +0\.\d+ +0\.\d+ +0\.\d+", r"best of these: beta 0\.\d+", r"beta 0\.8257"],
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


def test_the_notebook_runs(tmp_path, monkeypatch):
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    notebook = nbformat.read(EXAMPLES / "first_ten_minutes.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output for output in shown if output.get("name") == "stderr"] == []
    said = "\n".join(str(output) for output in shown)
    for promised in (
        r"20,000 steps: beta 0\.9528, a memory of 21 steps",
        r"<pre>.*horizon   plan",  # the advice shows itself
        r"6 of 6 runs",  # the live table, as it was last
        r"Best\(beta=0\.\d+, interval=",  # the best measured beta, with its uncertainty
        r"0\.82217",
        r"<iframe srcdoc=.{0,200}doctype html",  # the report, inline
    ):
        assert re.search(promised, said, flags=re.IGNORECASE | re.DOTALL), promised
    live = [output for output in shown if "6 of 6 runs" in str(output)]
    assert len(live) == 1, "the table is drawn anew in its place"
