"""Tables on a terminal of any width: nothing is cut.

Columns that do not fit follow below, after the first column again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from oneclock.plain_text import printable
from oneclock.report.tables import headings, numeric_columns, shown_cells
from oneclock.stats.tables import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

_FRAME = 3  # a line and two blanks for every column; one more line ends the row


def to_rich(table: Table, width: int = 80) -> list[RichTable]:
    """The table in as many parts as the width requires.

    >>> from oneclock.stats.tables import Column
    >>> table = Table("t", "Losses", (Column("Beta"), Column("Loss")), ((0.9, 1.5),))
    >>> [part.title.plain for part in to_rich(table)]
    ['Losses']
    """
    from rich.text import Text

    rows = [
        [
            Text(printable(text), "bold green" if (row, column) in table.best else "")
            for column, text in enumerate(texts)
        ]
        for row, texts in enumerate(shown_cells(table))
    ]
    drawn = parts(table.title, headings(table), rows, width, numeric_columns(table), table.rules_after)
    if table.notes:
        drawn[-1].caption = Text("\n".join(table.notes))
    return drawn


def parts(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Text]],
    width: int,
    right: Sequence[bool] = (),
    rules_after: Sequence[int] | frozenset[int] = (),
) -> list[RichTable]:
    """Rows of text under their heads, in tables that fit the width; only the first column may be folded."""
    from rich.table import Table as RichTable
    from rich.text import Text

    wide = _widths(heads, rows, width)
    drawn = []
    for number, chosen in enumerate(_side_by_side(wide, width)):
        name = f"{title}, continued" if number else title
        part = RichTable(title=Text(name), title_justify="left", title_style="bold", caption_justify="left")
        for column in chosen:
            part.add_column(Text(heads[column]), width=wide[column], overflow="fold")
            part.columns[-1].justify = "right" if right and right[column] else "left"
        for row, texts in enumerate(rows):
            part.add_row(*(texts[column] for column in chosen), end_section=row in rules_after)
        drawn.append(part)
    return drawn


def _widths(heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """Each column's width: that of its cells; heads are on one line only if all columns then fit."""
    held = [
        max((cell.cell_len for row in rows for cell in row[column].split()), default=0) for column in range(len(heads))
    ]
    roomy = [max(need, len(head)) for need, head in zip(held, heads, strict=True)]
    if sum(roomy) + _FRAME * len(roomy) + 1 <= width:
        return roomy
    words = [max(map(len, head.split()), default=0) for head in heads]
    tight = [max(need, word, 1) for need, word in zip(held, words, strict=True)]
    room = max(width - 2 * _FRAME - 1 - max(tight[1:], default=0), 8)
    return [min(tight[0], room), *tight[1:]]


def _side_by_side(wide: Sequence[int], width: int) -> Iterator[list[int]]:
    """Which columns form a part: the first one is in every part, the others are in one.

    >>> list(_side_by_side([10, 8, 8, 8], 40)), list(_side_by_side([10], 40))
    ([[0, 1, 2], [0, 3]], [[0]])
    """
    chosen = [0]
    for column in range(1, len(wide)):
        if len(chosen) > 1 and sum(wide[one] + _FRAME for one in [*chosen, column]) + 1 > width:
            yield chosen
            chosen = [0]
        chosen.append(column)
    yield chosen
