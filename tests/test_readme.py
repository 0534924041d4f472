"""The README's claims that a command can show."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
import torch

import oneclock

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_lines_of_the_console_block_are_what_the_command_prints():
    command, *expected = blocks("console")[0].splitlines()
    done = subprocess.run([sys.executable, "-m", *command[2:].split()], capture_output=True, text=True)
    printed = iter(done.stdout.splitlines())
    assert all(line in printed for line in expected if line != "..."), "in this order"


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
    assert (
        max(len(line) for language in ("console", "python") for block in blocks(language) for line in block.split("\n"))
        <= 88
    )


def test_the_python_block_runs(tmp_path, monkeypatch, capsys):
    def train(beta, seed, run):
        run.log(run.budget, val_loss=1 + (beta - 0.9) ** 2 + 0.01 * seed)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    rows = "".join(f"{step},{2 + abs(step - 9000) / 9000}\n" for step in range(1000, 20_001, 1000))
    (tmp_path / "runs" / "log.csv").write_text("step,val_loss\n" + rows)
    names: dict[str, Any] = {"model": torch.nn.Linear(3, 2), "train": train}
    exec(blocks("python")[0], names)
    assert names["answer"].beta == names["optimizer"].beta == oneclock.recommend(20_000).beta
    assert names["advice"].best_step == 9000
    assert names["study"].best().beta == 0.9
    assert "Best(beta=0.9" in capsys.readouterr().out
    assert (tmp_path / "study" / "report" / "report.html").exists()


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
