"""One table value, the same cells in every rendering; anybody's text is text in each of them."""

import csv
import tempfile
from pathlib import Path

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


def test_the_terminal_holds_the_same_cells(subject: Subject) -> None:
    for table in tables_of(subject.analysis):
        text = "\n".join(table_lines(table, 80))
        assert all(cell in text for row in tables.shown_cells(table) for cell in row if cell != "-")
        assert table.name != "rules" or all(column.group in text for column in table.columns)
        assert max(map(len, text.splitlines())) <= 80


@given(st.text(max_size=40))
def test_any_text_stays_in_its_cell(text: str) -> None:
    table = Table("t", text, (Column("name"), Column("x", form=".1f")), ((text, 1.0), ("other", 2.0)), notes=(text,))
    with tempfile.TemporaryDirectory() as folder:
        written = csv.reader(tables.save_table(table, Path(folder)).read_text(encoding="utf-8").splitlines())
        assert [[cell_as_it_was(cell) for cell in row] for row in written] == [
            ["name", "x"],
            [" ".join(text.split()), "1.0"],
            ["other", "2.0"],
        ]


def test_published_tables_are_the_papers() -> None:
    selected, main, stability, *_ = (make(analyse_protocol(losses_study(), draws=10, repeats=2)) for make in FIVE)
    assert [row[4] for row in tables.shown_cells(selected)] == [
        "0.515", "0.205", "0.202", "0.299", "0.000", "0.738", "0.885", "0.408", "0.000", "0.124", "0.000"
    ]  # fmt: skip
    assert tables.shown_cells(main)[1][1:] == [
        "0.406", "0.885", "0.811", "0.041", "0.124", "0.124", "0.307", "0.885", "0.713", "11/11"
    ]  # fmt: skip
    assert tables.shown_cells(stability)[7][1:] == ["0.968", "40000", "22766", "40486"]
