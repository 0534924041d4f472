"""One table value, the same cells in every rendering; anybody's text is text in each of them."""

import csv
import io
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneclock.lab.paper.published import losses_study
from oneclock.lab.protocol import analyse_protocol
from oneclock.lab.protocol.tables import FIVE
from oneclock.plain_text import cell_as_it_was
from oneclock.report import tables
from oneclock.report.brief import table_lines
from oneclock.report.folder import Subject, tables_of
from oneclock.stats.tables import Column, Table

HOSTILE = r"a_b & 50 % #1 {x} $y$ ^ ~ \input{x} <b>|`*é β 中 " + "\u2028\n end"
_UNDONE = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"\{": "{", r"\}": "}", r"\$": "$", r"\&": "&", r"\#": "#", r"\%": "%",
    r"\_": "_",
}  # fmt: skip


def every_table(subject: Subject) -> list[Table]:
    found = tables_of(subject.analysis)
    return [
        *found,
        replace(found[0], name="hostile", title=HOSTILE, notes=(HOSTILE,), rows=((HOSTILE, *found[0].rows[0][1:]),)),
    ]


def from_latex(text: str) -> list[list[str]]:
    """The cells of a rendered table, as they were before escaping."""
    lines = [line for line in text.splitlines() if line.endswith(r" \\") and r"\multicolumn" not in line]
    rows = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in lines]
    return [[_plain(re.sub(r"^\\textbf\{(.*)\}$", r"\1", cell)) for cell in row] for row in rows]


def _plain(cell: str) -> str:
    return re.sub("|".join(map(re.escape, _UNDONE)), lambda match: _UNDONE[match[0]], cell)


def test_latex_cells_equal_the_csv(subject: Subject) -> None:
    for table in tables_of(subject.analysis):
        heading, *expected = list(csv.reader(io.StringIO(tables.to_csv(table))))
        titles, *found = from_latex(tables.to_latex(table))
        assert found == expected
        assert [full.endswith(title) for full, title in zip(heading, titles, strict=True)] == [True] * len(titles)
        bold = tables.to_latex(table).count(r"\textbf{")
        assert bold == len(table.best)


def test_the_terminal_holds_the_same_cells(subject: Subject) -> None:
    for table in every_table(subject)[:-1]:
        text = "\n".join(table_lines(table, 80))
        assert all(cell in text for row in tables.shown_cells(table) for cell in row)


@pytest.mark.skipif(not (shutil.which("pdflatex") or shutil.which("tectonic")), reason="no TeX engine on this machine")
def test_latex_compiles(subject: Subject, tmp_path: Path) -> None:
    found = every_table(subject)
    for table in found:
        (tmp_path / f"{table.name}.tex").write_text(tables.to_latex(table), encoding="utf-8")
    inputs = "\n".join(rf"\input{{{table.name}}}\clearpage" for table in found)
    (tmp_path / "main.tex").write_text(
        rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{inputs}\end{{document}}", encoding="utf-8"
    )
    engine = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode"] if shutil.which("pdflatex") else ["tectonic"]
    done = subprocess.run(
        [*engine, "main.tex"], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "main.pdf").read_bytes().startswith(b"%PDF")


@given(st.text(max_size=40))
def test_any_text_stays_in_its_cell(text: str) -> None:
    table = Table("t", text, (Column("name"), Column("x", form=".1f")), ((text, 1.0), ("other", 2.0)), notes=(text,))
    written = csv.reader(io.StringIO(tables.to_csv(table), newline=""))
    assert [[cell_as_it_was(cell) for cell in row] for row in written] == [
        ["name", "x"],
        [" ".join(text.split()), "1.0"],
        ["other", "2.0"],
    ]
    latex = tables.latex_escaped(text)
    assert all(character < "\u0180" for character in latex)
    assert not re.search(
        r"(?<!\\)[&%$#_{}^~](?<!\{\})", re.sub(r"\\[a-z'`^~\"]+ ?\{[A-Za-z0-9]?\}", "", latex.replace(r"\\", ""))
    )


def test_published_tables_are_the_papers() -> None:
    selected, main, stability, *_ = (make(analyse_protocol(losses_study(), draws=10, repeats=2)) for make in FIVE)
    assert [row[4] for row in tables.shown_cells(selected)] == [
        "0.515", "0.205", "0.202", "0.299", "0.000", "0.738", "0.885", "0.408", "0.000", "0.124", "0.000"
    ]  # fmt: skip
    assert tables.shown_cells(main)[1][1:] == [
        "0.406", "0.885", "0.811", "0.041", "0.124", "0.124", "0.307", "0.885", "0.713", "11/11"
    ]  # fmt: skip
    assert tables.shown_cells(stability)[7][1:] == ["0.968", "40000", "22766", "40486"]
