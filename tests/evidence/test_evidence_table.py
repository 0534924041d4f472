"""The evidence base: the table follows from the records, and says what each source did."""

import csv
import importlib.util
import json
from pathlib import Path

import pytest

from oneclock.evidence.excess import baseline, curve
from oneclock.evidence.table import COLUMNS, read_sweeps, sources, sweeps
from oneclock.recommend import MEASURED

ROOT = Path(__file__).parents[2]
DATA = ROOT / "src" / "oneclock" / "evidence" / "data"


def script(name):
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def made():
    return script("evidence")


def test_the_tables_of_the_pages_are_those_of_the_model():
    pages = script("evidence_pages")
    for page in pages.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- evidence: " in text
        assert pages.filled(text) == text


def test_the_table_follows_from_the_records_and_the_published_figures(made):
    assert made.text() == (DATA / "sweeps.csv").read_text(encoding="utf-8")


def test_the_table_is_small_and_every_source_is_described():
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 1_000_000
    assert {sweep.source for sweep in sweeps()} <= set(sources())
    assert {name for name, source in sources().items() if source.chose} == {
        *("paper", "joint", "series", "laptop", "fashion", "short", "brief"),
    }
    lengths = [sweep.steps for sweep in sweeps() if sweep.varied != "beta2"]
    assert (min(lengths), max(lengths)) == MEASURED


def test_the_71_sweeps_of_ours_and_the_papers_are_there():
    chose = [sweep for sweep in sweeps() if sources()[sweep.source].chose]
    assert len(chose) == 71
    assert all(curve(sweep) is not None for sweep in chose)


def test_a_new_study_enters_with_what_is_there_of_it(made, tmp_path):
    """The fine-tuning study, and half of its runs."""
    whole = list(made._tests("finetune", ROOT / "studies" / "finetune"))
    assert {row["sweep"] for row in whole} == {sweep.name for sweep in sweeps() if sweep.source == "finetune"}
    assert not any("growing" in row["sweep"] for row in whole)
    assert {(row["varied"], row["tokens_per_batch"], row["lr_tuned"]) for row in whole} == {("pairs", 128, "yes")}
    _, *runs = (ROOT / "studies" / "finetune" / "runs.jsonl").read_text().splitlines()
    part = tmp_path / "finetune"
    for line in runs[::2]:
        run = json.loads(line)
        folder = part / "runs" / run["run"]
        folder.mkdir(parents=True)
        for name, text in run["files"].items():
            (folder / name).write_text(text)
    (part / "study.json").write_text((ROOT / "studies" / "finetune" / "study.json").read_text())
    half = list(made._tests("finetune", part))
    assert 0 < sum(row["seeds"] for row in half) < sum(row["seeds"] for row in whole)


def test_a_published_sweep_by_hand():
    (gpt2,) = [one for one in sweeps() if one.name == "gpt2-beta1-4748"]
    found = curve(gpt2)
    assert found.best.loss == 3.4296
    assert found.at(0.89814).percent == 0
    assert found.at(0.81873).percent == pytest.approx(100 * (3.4673 / 3.4296 - 1))
    halfway = 1 - ((1 - 0.81873) * (1 - 0.89814)) ** 0.5
    assert found.at(halfway).percent == pytest.approx(100 * ((3.4673 + 3.4296) / 2 / 3.4296 - 1))
    assert found.at(0.999).at_least
    assert not found.at(0.9).at_least


def test_a_baseline_is_held_against_the_best_tied_beta():
    (llama,) = [one for one in sweeps() if one.name == "joint-llama-250"]
    assert baseline(llama, 0.9, 0.999).percent > 2
    assert baseline(llama, 0.9, 0.98) is None


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("steps,beta,lr,loss\n4000,0.8,1,3.1\n4000,0.9,1,3.0\n4000,0.95,1,\n900,0.8,1,4\n")
    mine = read_sweeps(path)
    assert [(one.steps, one.varied, one.source, len(one.cells)) for one in mine] == [
        (4000, "tied", "yours", 3),
        (900, "tied", "yours", 1),
    ]
    assert curve(mine[0]).best.loss == 3.0
    assert curve(mine[1]) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs steps, beta1 and loss"),
        ("steps,loss\n1,2\n", "no column beta1"),
        ("steps,beta1,loss\nmany,0.9,2\n", "steps must be a number"),
        ("steps,beta1,loss\n10,1.2,2\n", r"beta1 must be a number in \[0, 1\)"),
        ("steps,beta1,loss,varied\n10,0.2,2,lr\n", "varied must be one of"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as refused:
        read_sweeps(path)
    assert "\n" not in str(refused.value)


def test_the_columns_are_the_documented_ones():
    with open(DATA / "sweeps.csv", newline="") as file:
        assert tuple(csv.DictReader(file).fieldnames) == COLUMNS
