"""`oneclock paper`: every printed figure of the paper, recomputed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from oneclock.paper.check import CheckedCell, CheckedTable, PaperCheck

_WIDE = 160
_MARKS = {"given": "[dim].[/]", "slip": "[yellow]slip[/]"}
_AGREES = {True: "[green]=[/]", False: "[bold red]X[/]"}


def command(
    curves: Annotated[
        Path | None,
        typer.Option(help="Losses of the eleven experiments: beta_sweep_curves.tsv, or a long table (CSV, Parquet)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute the paper's five tables beside the printed figures; exit code 1 if any differs.

    oneclock paper

    oneclock paper --curves beta_sweep_curves.tsv
    """
    from oneclock.paper import check, read_curves

    result = check(None if curves is None else read_curves(curves))
    if as_json:
        import json

        from oneclock.analysis import as_json as plain

        data = plain(result)
        data["tables"] = {table["name"]: table for table in data["tables"]}
        print(json.dumps(data, indent=1))
    else:
        _show(result)
    if not result.agrees:
        raise typer.Exit(1)


def _show(result: PaperCheck) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    for table in result.tables:
        console.print(_drawn(table))
        random = f"; {table.in_range} of {table.random} random figures in range" if table.random else ""
        slips = f"; {table.slips} are slips of the paper's" if table.slips else ""
        console.print(f"{table.matched} of {table.cells} agree{random}{slips}\n")
    for note in result.notes:
        console.print(f"- {note}")
    console.print(
        f"\n[bold]{result.matched} of {result.cells}[/] figures agree to the printed digit "
        f"({' + '.join(str(table.cells) for table in result.tables)}); "
        f"{result.in_range} of {result.random} random figures lie in their sampling range; "
        f"{result.slips} are the paper's own slips."
    )


def _drawn(table: CheckedTable) -> Table:
    from rich.table import Table

    drawn = Table(title=f"{table.title}: as printed, and recomputed below", title_justify="left")
    for column in ("", *table.columns):
        drawn.add_column(column.replace("_", " "), overflow="fold")
    for row in table.rows:
        drawn.add_row(row.label, *map(_cell, row.cells))
    return drawn


def _cell(cell: CheckedCell) -> str:
    """The printed figure, and below it the recomputed one with its mark."""
    mark = _MARKS[cell.kind] if cell.agrees is None else _AGREES[cell.agrees]
    return f"[dim]{cell.printed}[/]\n{cell.computed} {mark}"
