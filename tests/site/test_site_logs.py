"""A log given to the calculator's page: read in the browser, with the network off, and answered as the command does."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from opened_page import ARTIFACTS, Opened

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import page_python
from logs_corpus import CORPUS, POINTS

from oneclock import advise, recommend
from oneclock.cli import main

needs_python = pytest.mark.skipif(
    not page_python.ARCHIVE.exists(), reason="no Pyodide, which npm brings: python scripts/page_python.py"
)
FIELDS = ("budget", "next_steps", "metric", "step", "columns", "steps_per_epoch", "tokens_per_step")


class Page(Opened):
    """The calculator, to which logs are given."""

    def give(self, *paths, **options):
        """What it says of a log with the options of `advise`: its answer, or its one line of complaint."""
        for name in FIELDS:
            self.page.locator(f"[data-option={name}]").evaluate(
                "(field, text) => (field.value = text)", typed(options, name)
            )
        place = "#log-folder" if paths[0].is_dir() else "#log-files"
        self.page.set_input_files(place, paths[0] if paths[0].is_dir() else list(paths))
        return self.said_of_it()

    def said_of_it(self):
        said = "document.getElementById('log-{}').textContent"
        self.page.wait_for_function(
            f"({said.format('answer')} + {said.format('problem')}).match(/[^.]$|[^.]\\.$/)", timeout=180_000
        )
        return self.text("#log-answer") or self.text("#log-problem")


def typed(options, name):
    value = options.get(name, "")
    return ",".join(value) if isinstance(value, list) else str(value)


@pytest.fixture(scope="module")
def page(browser, site):
    opened = Page(browser, site / "calculator" / "index.html")
    yield opened
    opened.close()


def commanded(capsys, monkeypatch, *paths, **options):
    """What the command prints of the same logs, called in their folder."""
    monkeypatch.chdir(paths[0].parent)
    flags = [part for name in options for part in (f"--{name.replace('_', '-')}", typed(options, name))]
    with pytest.raises(SystemExit):
        main(["advise", *(path.name for path in paths), *flags])
    said = capsys.readouterr()
    return (said.out or said.err.removeprefix("oneclock: ")).rstrip("\n")


@needs_python
@pytest.mark.parametrize("name", CORPUS)
def test_the_page_answers_as_the_command(name, page, tmp_path, capsys, monkeypatch):
    form = CORPUS[name]
    path = form.written(tmp_path)
    expected = commanded(capsys, monkeypatch, path, **form.options)
    assert {"log", "curve", "horizon"} <= {line.split(" ")[0] for line in expected.splitlines()}
    assert page.give(path, **form.options) == expected


@needs_python
def test_what_cannot_be_read_is_said_as_the_command_says_it(page, tmp_path, capsys, monkeypatch):
    for name, content in (("model.pt", b"PK\x03\x04" + bytes(40)), ("a.csv", b"a,b\nc,d\n"), ("runs.parquet", b"PAR1")):
        (tmp_path / name).write_bytes(content)
        said = page.give(tmp_path / name)
        assert said == commanded(capsys, monkeypatch, tmp_path / name)
        assert "it seems to be" in said
    assert page.give(tmp_path / "a.csv", budget="many").startswith("'many' is not a number")


@needs_python
def test_several_files_are_seeds_and_options_are_the_command_s(page, tmp_path, capsys, monkeypatch):
    for seed in (1, 2):
        rows = "".join(f"{step},{loss + 0.01 * seed * step % 7}\n" for step, loss in POINTS)
        (tmp_path / f"seed{seed}.csv").write_text("step,val_loss\n" + rows)
    paths, options = (tmp_path / "seed1.csv", tmp_path / "seed2.csv"), {"budget": "20k", "next_steps": "40,000"}
    said = page.give(*paths, **options)
    assert said == commanded(capsys, monkeypatch, *paths, **options)
    assert "2 runs are taken as seeds" in said


@needs_python
def test_a_dropped_log_gives_the_calculator_its_horizon(page, tmp_path):
    drop = """text => {
        const given = new DataTransfer();
        given.items.add(new File([text], "nanogpt.log"));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
    }"""
    log = CORPUS["CSV"].written(tmp_path)
    page.give(log)
    page.page.fill("#steps", "20k")
    page.page.evaluate(drop, CORPUS["nanoGPT"].content)
    assert "nanogpt.log: terminal output, nanoGPT" in page.said_of_it()
    horizon = advise(log).horizon  # every log of the corpus holds the same curve
    assert int(page.text("#horizon").replace(",", "")) == horizon
    assert float(page.text("#beta")) == pytest.approx(recommend(horizon).beta, abs=1e-6)
    page.page.screenshot(path=ARTIFACTS / "site" / "calculator-log.png", full_page=True)


@needs_python
def test_nothing_is_asked_of_anyone(page, site, tmp_path):
    page.give(CORPUS["CSV"].written(tmp_path))
    assert page.said == []
    assert [url for url in page.asked if not url.startswith((site.as_uri(), "data:", "blob:"))] == []


def test_a_site_built_without_python_says_what_is_left_out(site, open_page, tmp_path):
    shutil.copytree(site / "calculator", tmp_path / "calculator")
    rules = tmp_path / "calculator" / "rule.js"
    rules.write_text(rules.read_text(encoding="utf-8").replace('"readsLogs": true', '"readsLogs": false'))
    opened = open_page(tmp_path / "calculator" / "index.html")
    assert "the command reads them: oneclock advise LOG" in opened.text("#log")
    assert opened.text("#beta") == "0.952837"


def test_what_the_page_imports_needs_python_s_own_library_alone(tmp_path):
    (tmp_path / "package.zip").write_bytes(page_python.package())
    shutil.unpack_archive(tmp_path / "package.zip", tmp_path / "package")
    path = CORPUS["CSV"].written(tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import oneclock; print(oneclock.advise(sys.argv[2]).best_step)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, tmp_path / "package", path], capture_output=True, text=True
    )
    assert done.stdout.strip() == "7500", done.stderr
