"""Every `oneclock` command that README and pages show has the options that they give it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import command_page  # noqa: E402

PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "research")]
COMMANDS = dict(command_page.commands())


def shown(text):
    """What a page shows as typed: lines of console blocks, and code within a sentence."""
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(oneclock [^`\n]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [found for line in [*lines, *inline] for found in re.findall(r"(?:^|[\s$])(oneclock [a-z].*)", line)]


def problem(line):
    """What is wrong with a command line, or None."""
    words = re.sub(r"\"[^\"]*\"|\s#.*", "", line).split()
    name = " ".join(words[: 3 if words[1] == "lab" else 2])
    name = "oneclock lab data check" if name == "oneclock lab data" else name
    command = COMMANDS.get(name)
    if command is None:
        return f"there is no command {name!r}"
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
    return f"{line!r} has {unknown}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist(page):
    found = [why for line in shown(page.read_text(encoding="utf-8")) if (why := problem(line))]
    assert found == []


def test_the_pages_show_commands():
    assert sum(len(shown(page.read_text(encoding="utf-8"))) for page in PAGES) > 50


@pytest.mark.parametrize("name", ["beta", "advise", "status", "analyse", "evidence"])
def test_the_json_keys_of_the_page_are_those_of_the_schema(name):
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    keys = {
        key for row in re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE) for key in re.findall(r"`(\w+)`", row)
    }
    line = [sys.executable, "-m", "oneclock", "schema", name]
    schema = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    assert keys == set(schema["properties"])
