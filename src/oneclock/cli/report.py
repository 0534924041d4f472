"""`oneclock report`: tables, figures and one page of a study, or of the paper's data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from oneclock.cli.analyse import Rules
from oneclock.rule import resolve_rule


def command(
    study: Annotated[
        Path | None, typer.Argument(help="A study's folder, or a CSV or Parquet table of runs.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write. Default: STUDY/report, where a sweep writes it too.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Report on the paper's published data instead.")] = False,
    rules: Rules = None,
) -> None:
    """Write tables, figures and report.html, one page to read and to share.

    oneclock report STUDY --out DIR

    oneclock report --paper --out DIR
    """
    from rich.console import Console

    from oneclock.lab.paper.subject import published
    from oneclock.report import folder

    if paper == (study is not None):
        raise ValueError("give a study, or --paper, and not both")
    others = [resolve_rule(text) for text in rules or ()]
    out = out or (Path("report") if study is None else folder.default_folder(study))
    # The page shows names instead of paths, so that it can be shared.
    typed = ["oneclock", "report", "--paper" if study is None else study.resolve().name, "--out", out.resolve().name]
    typed += [word for text in rules or () for word in ("--rule", text)]
    with Console(stderr=True).status("analysing and drawing"):
        folder.check_installed()
        subject = published(others) if study is None else folder.subject_of(study, others)
        page = folder.write_subject(subject, out, shlex.join(typed))
    print(page)
