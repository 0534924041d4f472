"""`oneclock lab data check`: check the data of the experiments before any training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from oneclock.lab.data.survey import Part

app = typer.Typer(help="Look at the data of the experiments.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    """Look at the data of the experiments."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("check")
def check(
    name: Annotated[str | None, typer.Argument(help="Of this experiment alone.", show_default=False)] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data lies; else ONECLOCK_DATA or caches.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What is here, what would be downloaded from where, and whether it fits; exit code 1 if it does not.

    oneclock lab data check

    oneclock lab data check vitb16-cifar100 --data-dir DIR
    """
    from oneclock.lab.data.survey import survey
    from oneclock.lab.experiments import EXPERIMENTS, find

    chosen = [find(name)] if name else list(EXPERIMENTS.values())
    parts_by_experiment = {experiment.name: survey(experiment, data_dir) for experiment in chosen}
    if as_json:
        import dataclasses
        import json

        plain = {one: [dataclasses.asdict(part) for part in parts] for one, parts in parts_by_experiment.items()}
        print(json.dumps(plain, indent=1))
    else:
        for one, parts in parts_by_experiment.items():
            print(one)
            for part in parts:
                print(f"  {_in_words(part)}")
    if not all(part.fits for parts in parts_by_experiment.values() for part in parts):
        raise typer.Exit(1)


def _in_words(part: Part) -> str:
    where = f"here, {part.place}" if part.place else f"not here; would come from {part.origin}"
    counts = ", ".join(_count(split, rows, expected, part.place) for split, rows, expected in part.counts)
    listed = f"; rows: {counts}" if counts else ""
    columns = f"; columns: {', '.join(part.columns)}" if part.columns else ""
    wrong = f"; WRONG: {part.problem}" if part.problem else ""
    return f"{part.what}: {where}{listed}{columns}{wrong}"


def _count(split: str, rows: int | None, expected: int | None, path: str | None) -> str:
    """`train 120 (1,801,350 expected)`; for missing data, only the expected count."""
    wanted = "" if expected is None else f"{expected:,} expected"
    if path is None:
        return f"{split} {wanted or 'the others'}"
    counted = "not counted" if rows is None else f"{rows:,}"
    return f"{split} {counted}" + (f" ({wanted})" if wanted else "")
