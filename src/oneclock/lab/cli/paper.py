"""`oneclock lab paper`: every printed figure of the paper, recomputed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from oneclock.lab.paper.check import CheckedCell, CheckedTable, PaperCheck

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

    oneclock lab paper

    oneclock lab paper --curves beta_sweep_curves.tsv
    """
    from oneclock.lab.paper import check_paper, read_curves

    result = check_paper(None if curves is None else read_curves(curves))
    if as_json:
        import json

        from oneclock.stats import as_json as plain

        data = plain(result)
        data["tables"] = {table["name"]: table for table in data["tables"]}
        print(json.dumps(data, indent=1))
    else:
        _show(result)
    if not result.agrees:
        raise typer.Exit(1)


def _show(result: PaperCheck) -> None:
    from rich.console import Console

    width = shutil.get_terminal_size().columns  # of the terminal, or what COLUMNS says, or 80
    console = Console(highlight=False, width=width)
    for table in result.tables:
        console.print(*_drawn(table, width))
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


def _drawn(table: CheckedTable, width: int) -> list[Table]:
    from rich.text import Text

    from oneclock.report.terminal import parts

    heads = [column.replace("_", " ") for column in ("", *table.columns)]
    rows = [[Text(row.label), *map(_cell, row.cells)] for row in table.rows]
    return parts(f"{table.title}: as printed, and recomputed below", heads, rows, width)


def _cell(cell: CheckedCell) -> Text:
    """The printed figure, and below it the recomputed one with its mark."""
    from rich.text import Text

    mark = _MARKS[cell.kind] if cell.agrees is None else _AGREES[cell.agrees]
    return Text.from_markup(f"[dim]{cell.printed}[/]\n{cell.computed} {mark}")
