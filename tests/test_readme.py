"""The README's figures are what a command prints, and its links and extras exist. `test_docs.py` runs its blocks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from docs_pages import blocks

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def gains():
    """The rows of the table of gains: (steps, source, law, default betas, (0.9, 0.95))."""
    table = README.partition("| steps | law |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        steps, *numbers, models = (cell.strip() for cell in line.strip("|").split("|"))
        yield int(steps.replace(",", "")), re.search(r"\(([a-z0-9-]+)\)", models)[1], numbers


@pytest.mark.parametrize(("steps", "source", "numbers"), gains())
def test_the_table_of_gains_is_what_the_command_prints(steps, source, numbers):
    line = [sys.executable, "-m", "oneclock", "beta", str(steps), "--json"]
    near = json.loads(subprocess.run(line, capture_output=True, text=True).stdout)["evidence"]["near"]
    (row,) = (row for row in near if row["source"] == source and row["steps_low"] <= steps <= row["steps_high"])
    values = (row["loses"], row["default_betas"], row["language_betas"])
    assert numbers == ["not run" if value is None else f"{value:.1f}" for value in values]


@pytest.mark.parametrize("page", ["README.md", "docs/which-beta.md"])
def test_what_tying_costs_is_what_the_command_prints(page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for steps, begins in (("4k", "{} % (95 % CI {} to {}) at 4,000 steps"), ("20k", "{} % ({} to {}) at 20,000")):
        done = subprocess.run([sys.executable, "-m", "oneclock", "beta", steps], capture_output=True, text=True)
        assert begins.format(*re.search(r"tying costs (\S+) % \((\S+) to (\S+);", done.stdout).groups()) in text


def test_no_line_of_code_is_too_long_for_the_forge():
    assert max(len(line) for block in blocks("README") for line in block.text.splitlines()) <= 88


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_extra_that_is_named_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), *EXAMPLES.glob("*.py")]
    for path in texts:
        for names in re.findall(r"(?:oneclock|'\.)\[([a-z,]+)\]", path.read_text(encoding="utf-8")):
            assert set(names.split(",")) <= set(extras), (path, names)
