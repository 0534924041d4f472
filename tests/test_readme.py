"""The README's claims that a command can show."""

import re
import subprocess
import sys
from pathlib import Path

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
    assert command == "$ oneclock beta 20000"
    done = subprocess.run([sys.executable, "-m", *command[2:].split()], capture_output=True, text=True)
    assert done.stdout == expected


def test_the_python_block_runs():
    names = {"model": torch.nn.Linear(3, 2)}
    exec(blocks("python")[0], names)
    assert names["beta"] == names["optimizer"].beta == 0.95
    assert names["useful"] == 300
    assert len(names["groups"]) == 2


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
