"""Every console and Python block of README and the pages runs, in order, as a reader would run it.

A page gets a temporary folder with what it takes for granted (`docs_pages.py`). A command that cannot run here is in
`NOT_RUN`, with the reason. The names and options of every command are checked, also of those within sentences.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docs_pages import PAGES, PREPARED, ROOT, blocks

import oneclock
from oneclock.cli import main

sys.path.insert(0, str(ROOT / "scripts"))

import command_page

COMMANDS = dict(command_page.commands())

NOT_RUN = {
    "make demo": "it sets up an environment first, which needs the network and minutes",
    "make test": "it is what runs this",
    "python3 -m venv": "an environment needs the network and minutes; `make test` sets one up",
    "pip install": "the same",
    "cd examples/tutorial": "the page's folder has a copy of that folder's script",
    "oneclock sweep train.py:train --budget 20k --out /shared/mystudy --cluster slurm": "it needs a cluster; "
    "tests/sweep/test_sweep_slurm.py submits to a real Slurm",
    "dask ": "a scheduler and its workers run until someone stops them; tests/sweep/test_sweep_processes.py does",
    "oneclock sweep train.py:train --budget 20k --out /shared/mystudy --cluster tcp://": "it needs that scheduler",
    "oneclock sweep train.py:train --budget 20k --processes 4": "torchrun starts 4 processes for each of 23 runs: "
    "minutes; tests/sweep/test_sweep_ranks.py runs shorter ones",
    "oneclock report --paper": "it draws for 6 seconds; tests/report/test_report_command.py runs it",
    "oneclock lab experiments vitb16-cifar100 --rehearse": "it needs 17 GB of memory; "
    "tests/lab/training/test_training_rehearse.py runs smaller ones",
    "oneclock sweep vitb16-cifar100": "it needs a GPU for days, and the data; "
    "tests/lab/training/test_training_eleven.py trains each at reduced width",
    "oneclock lab train": "the same",
    "accelerate launch": "it needs two GPUs; tests/lab/training/test_training_processes.py trains on two processes",
    "oneclock lab study laptop": "it times or trains eleven models; tests/lab/studies/test_study_command.py does both",
}
"""How a command line begins -> why no test runs it from the page."""

SHORTER = {"tutorial": [(r"\b400\b", "20")]}
"""Page -> what is replaced in the commands that train."""

FRESH = {"sweeps": ("import oneclock", "$ oneclock sweep --command")}
"""Page -> how blocks begin that show another way to make the same study: they start without it."""

HOLDS = {
    "README": [
        "answer.beta == optimizer.beta == oneclock.recommend(20_000).beta",
        "advice.best_step == 9000",
        "study.best().beta == 0.9",
        "Path('study/report/report.html').exists()",
    ],
    "clusters": ["len(list(Path('shared/mystudy').glob('*/workers.yaml'))) == 2"],
    "integrations": [
        "args.adam_beta1 == args.adam_beta2 == oneclock.recommend(20_000).beta",
        "{group['betas'] for group in optimizer.param_groups} == {(oneclock.recommend(20_000).beta,) * 2}",
    ],
    "report": ["all(Path('report', name).exists() for name in ('report.html', 'data/runs.csv', 'data/analysis.json'))"],
    "sweeps": ["Path('mystudy/report/report.html').exists()"],
    "tutorial": [
        "len(Path('log.csv').read_text().splitlines()) == 11",
        "len(list(Path('study/runs').rglob('result.json'))) >= 6",
        "Path('report/report.html').exists()",
    ],
}
"""Page -> what is true after its last block."""


def commands(block):
    """(command line, the lines that it prints) of a console block; without prompts each line is a command."""
    lines = re.sub(r"\s*\\\n\s*", " ", block.text).splitlines()
    if not any(line.startswith("$ ") for line in lines):
        lines = [f"$ {line}" for line in lines]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((re.sub(r"\s+# .*", "", line[2:]), []))
        elif line != "...":
            found[-1][1].append(line)
    return found


LINES = [
    (page, line)
    for page in PAGES
    for block in blocks(page)
    if block.language == "console"
    for line, _ in commands(block)
]


def why_not(line):
    """Why a command line is not run here, or None."""
    return next((why for start, why in NOT_RUN.items() if line.startswith(start)), None)


def typed(page, line, folder):
    """A command line of a page as it is run here: its folders are below the page's, and trainings are shorter."""
    if line.startswith(("oneclock sweep", "python train.py")):
        for long, short in SHORTER.get(page, ()):
            line = re.sub(long, short, line)
    return re.sub(r"(/mnt)?/shared\b", str(folder / "shared"), line).replace("FOLDER", str(folder / "data"))


def run(line, capsys):
    """(exit code, standard output, standard error) of a command line. What needs no process of its own is run here."""
    words = shlex.split(line)
    if words[0] == "oneclock" and words[1] not in ("sweep", "work"):
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        return ended.value.code or 0, *capsys.readouterr()
    places = [str(ROOT / "src"), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    environment["PATH"] = os.pathsep.join(
        [str(Path("bin").resolve()), str(Path(sys.executable).parent), environment["PATH"]]
    )
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=900)
    return done.returncode, done.stdout, done.stderr


def run_console(page, block, folder, capsys):
    for line, expected in commands(block):
        if why_not(line) is None:
            code, out, err = run(typed(page, line, folder), capsys)
            assert code == 0, (line, out[-2000:], err[-2000:])
            printed = iter(out.splitlines())
            assert all(one in printed for one in expected), (line, "prints these lines, in this order", expected)


def run_python(block, names):
    """Run a Python block; an expression with a number behind it must have that value."""
    code = re.sub(r"(?<=[({])\.\.\., ", "", block.text)  # what the reader fills in
    exec(compile(code, "block", "exec"), names)
    for expression, number in re.findall(r"^(oneclock\.\S.*?)  # (\d[\d.]*)(?![\d.])", code, flags=re.MULTILINE):
        decimals = len(number.partition(".")[2])
        assert eval(expression, names) == pytest.approx(float(number), abs=0.5 * 10**-decimals), expression


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "train", raising=False)
    names: dict[str, Any] = {"oneclock": oneclock, "Path": Path}
    if page in PREPARED:
        PREPARED[page](tmp_path, names)
    (tmp_path / "data").mkdir()
    for block in blocks(page):
        if block.text.startswith(FRESH.get(page, "-")):
            shutil.rmtree("mystudy", ignore_errors=True)
        if block.text.startswith("# train.py"):
            monkeypatch.syspath_prepend(tmp_path)
            exec("from train import train", names)
        elif block.language == "python":
            run_python(block, names)
        else:
            run_console(page, block, tmp_path, capsys)
    for claim in HOLDS.get(page, ()):
        assert eval(claim, names), claim


def test_what_is_not_run_is_on_a_page_and_names_tests_that_exist():
    assert [start for start in NOT_RUN if not any(line.startswith(start) for _, line in LINES)] == []
    files = [file for why in NOT_RUN.values() for file in re.findall(r"tests/\S+\.py", why)]
    assert [file for file in files if not (ROOT / file).exists()] == []


def within_sentences(page):
    """The commands of oneclock and make that a page shows as code within a sentence."""
    text = re.sub(r"```.*?```", "", PAGES[page].read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"`((?:oneclock|make) [a-z][^`\n]*)`", text)


def unknown(line):
    """What a command line asks for that its program does not have, or None."""
    words = shlex.split(line.partition(" | ")[0])
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        return None if words[1] in targets else f"there is no target {words[1]!r}"
    if words[0] == "dask":
        return unknown_option(words[2:], dask_options(words[1]))
    if words[0] == "accelerate":
        from accelerate.commands.launch import launch_command_parser

        own = words[2 : words.index("-m")]
        rest = shlex.join(words[words.index("-m") + 1 :])
        return unknown_option(own, launch_command_parser()._option_string_actions) or unknown(rest)
    if words[0] != "oneclock":
        return None
    depth = next(count for count in (4, 3, 2, 1) if " ".join(words[:count]) in {*COMMANDS, "oneclock"})
    command = COMMANDS.get(" ".join(words[:depth]))
    if command is None:
        return None if words[1:] == ["--version"] else f"there is no command {' '.join(words[:2])!r}"
    options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return unknown_option(words[depth:], {*options, "--help"})


def unknown_option(words, options):
    found = [word for word in words if re.match(r"--\S+$", word) and word.partition("=")[0] not in options]
    return f"there is no {', '.join(found)}" if found else None


def dask_options(program):
    from importlib import import_module

    main = import_module(f"distributed.cli.dask_{program}").main
    return {option for one in main.params for option in one.opts}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_and_options_of_a_page_exist(page):
    lines = [line for one, line in LINES if one == page] + within_sentences(page)
    assert {line: why for line in lines if (why := unknown(line)) is not None} == {}


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
