"""`oneclock analyse`: the full analysis of a sweep, one's own or another's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneclock.rule import REFRESHES

if TYPE_CHECKING:
    from rich.console import Console

    from oneclock.analysis import Analysis
    from oneclock.analysis.tables import Table

_WIDE = 160


def command(
    source: Annotated[
        Path, typer.Argument(metavar="FILE_OR_STUDY", help="A long table (CSV, TSV, Parquet) or a study's folder.")
    ],
    refreshes: Annotated[float, typer.Option(help="R0 of the rule that selects beta.")] = REFRESHES,
    seed: Annotated[int, typer.Option(help="Of the bootstrap and the noise study.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Oracle, T_ES both ways, selected beta, gaps, calibration, robustness, rules side by side.

    oneclock analyse study/

    oneclock analyse sweep.csv --json
    """
    from oneclock.analysis import analyse, read
    from oneclock.analysis import as_json as plain

    analysis = analyse(read(source), refreshes=refreshes, seed=seed)
    if as_json:
        import json

        print(json.dumps(plain(analysis), indent=1, allow_nan=False))
    else:
        _show(analysis)


def _show(analysis: Analysis) -> None:
    from rich.console import Console

    from oneclock.analysis import tables

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    for make in (*tables.FIVE, tables.horizons, tables.baselines, tables.rules_side_by_side):
        table = make(analysis)
        if table.rows:
            _draw(console, table)
    for title, sentences in (
        ("Summary", analysis.summary.verdict),
        ("Calibration", analysis.calibration.verdict),
        ("Missing", analysis.missing),
    ):
        console.print(f"[bold]{title}[/]")
        for sentence in sentences or ("nothing",):
            console.print(f"- {sentence}", markup=False)


def _draw(console: Console, table: Table) -> None:
    from rich.markup import escape
    from rich.table import Table as Drawn

    drawn = Drawn(title=table.title, title_justify="left", caption="\n".join(table.notes) or None)
    for column in table.columns:
        drawn.add_column(f"{column.group} {column.title}".strip(), overflow="fold")
    for row in range(len(table.rows)):
        cells = [escape(table.shown(row, column)) for column in range(len(table.columns))]
        drawn.add_row(
            *(f"[bold]{cell}[/]" if (row, place) in table.best else cell for place, cell in enumerate(cells)),
            end_section=row in table.rules_after,
        )
    console.print(drawn)
