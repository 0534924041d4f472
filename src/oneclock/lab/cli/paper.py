"""`oneclock lab paper`: every printed figure of the paper, recomputed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from oneclock.lab.paper.check import CheckedCell, PaperCheck


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
    from oneclock.report.brief import columns, wrapped

    width = shutil.get_terminal_size().columns  # of the terminal, or what COLUMNS says, or 80
    lines: list[str] = []
    for table in result.tables:
        heads = [column.replace("_", " ") for column in ("", *table.columns)]
        rows = [[row.label, *map(_cell, row.cells)] for row in table.rows]
        lines += [*wrapped([f"{table.title}: as printed and as recomputed"], width), *columns(heads, rows, width)]
        random = f"; {table.in_range} of {table.random} random figures in range" if table.random else ""
        slips = f"; {table.slips} are slips of the paper's" if table.slips else ""
        lines += [*wrapped([f"{table.matched} of {table.cells} agree{random}{slips}"], width), ""]
    lines += wrapped((f"- {note}" for note in result.notes), width)
    counts = " + ".join(str(table.cells) for table in result.tables)
    answer = (
        f"{result.matched} of {result.cells} figures agree to the printed digit ({counts}); {result.in_range} of "
        f"{result.random} random figures lie in their sampling range; {result.slips} are the paper's own slips."
    )
    print("\n".join([*lines, "", *wrapped([answer], width)]))


def _cell(cell: CheckedCell) -> str:
    """The printed figure, and what was recomputed where that is something else."""
    if cell.agrees is None:
        return cell.printed if cell.kind == "given" else f"{cell.printed} slip, {cell.computed}"
    if not cell.agrees:
        return f"{cell.printed} X {cell.computed}"
    return f"{cell.printed} in {cell.computed}" if cell.kind == "range" else f"{cell.printed} ="
