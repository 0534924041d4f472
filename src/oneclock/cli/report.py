"""`oneclock report`: tables, figures and one interactive page of a study, or of the paper's data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def command(
    study: Annotated[
        Path | None, typer.Argument(help="A study's folder, or a CSV or Parquet table of runs.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write the report to.")] = Path("report"),
    paper: Annotated[bool, typer.Option("--paper", help="Report on the paper's published data instead.")] = False,
    refreshes: Annotated[float, typer.Option(help="R0 of the rule that selects beta.")] = 1000,
    watch: Annotated[bool, typer.Option("--watch", help="Write it again and again until the sweep is done.")] = False,
    every: Annotated[int, typer.Option(help="Seconds between two of these.", min=1)] = 10,
) -> None:
    """Write tables, figures and report.html, a page to look at and to send to others.

    oneclock report STUDY --out DIR

    oneclock report STUDY --out DIR --watch

    oneclock report --paper --out DIR
    """
    from oneclock.report import folder, subject

    if paper == (study is not None):
        raise ValueError("give a study, or --paper, and not both")
    if study is None:
        if watch:
            raise ValueError("--watch goes with a study: the paper's data do not change")
        page = folder.write(subject.published(), out, f"oneclock report --paper --out {out.name}")
    else:
        typed = f"oneclock report {study.name} --out {out.name}"
        typed += "" if refreshes == 1000 else f" --refreshes {refreshes:g}"
        if watch:
            page = folder.watch(
                lambda: subject.subject_of(study, refreshes), _is_done(study), study.name, out, typed, every
            )
        else:
            page = folder.write(subject.subject_of(study, refreshes), out, typed)
    print(page)


def _is_done(study: Path) -> Callable[[], bool]:
    """Whether nothing is left to do: by the study's protocol, or, without one, when no run is unfinished."""
    from oneclock import records
    from oneclock.sweep import Study

    def done() -> bool:
        if (study / "study.json").exists():
            found = Study.read(study)
            return not any(found.step(target).runs for target in found.targets)
        runs = list(records.runs_of(study))
        return bool(runs) and all(run.result is not None for run in runs)

    return done
