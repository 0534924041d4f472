"""The README's claims that a command can show."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
import torch

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_console_block_is_what_the_command_prints():
    command, _, expected = blocks("console")[0].partition("\n")
    assert command == "$ oneclock beta 20k"
    done = subprocess.run([sys.executable, "-m", *command[2:].split()], capture_output=True, text=True)
    assert done.stdout == expected
    assert blocks("console")[0] in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_the_python_block_runs(tmp_path, monkeypatch, capsys):
    def train(beta, seed, run):
        run.log(run.budget, val_loss=1 + (beta - 0.9) ** 2 + 0.01 * seed)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    rows = "".join(f"{step},{2 + abs(step - 9000) / 9000}\n" for step in range(1000, 20_001, 1000))
    (tmp_path / "runs" / "log.csv").write_text("step,val_loss\n" + rows)
    names: dict[str, Any] = {"model": torch.nn.Linear(3, 2), "train": train}
    exec(blocks("python")[0], names)
    assert names["beta"] == names["optimizer"].beta == 0.95
    assert names["advice"].best == 9000
    assert names["study"].best().beta == 0.9
    assert "Best(beta=0.9" in capsys.readouterr().out
    assert (tmp_path / "report" / "report.html").exists()


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`oneclock ([a-z]+)", README))))
def test_every_command_it_names_has_a_help(command):
    done = subprocess.run([sys.executable, "-m", "oneclock", command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_extra_that_is_named_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), *EXAMPLES.glob("*.py")]
    for path in texts:
        for names in re.findall(r"oneclock\[([a-z,]+)\]", path.read_text(encoding="utf-8")):
            assert set(names.split(",")) <= set(extras), (path, names)
