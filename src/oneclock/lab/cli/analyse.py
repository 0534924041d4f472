"""`oneclock lab analyse`: a study by the paper's own protocol, with R0 calibrated on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from oneclock.rule import REFRESHES, resolve_rule


def command(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE_OR_STUDY]",
            help="A long table (CSV, TSV, Parquet) or a study's folder.",
            show_default=False,
        ),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Analyse the paper's published data instead.")] = False,
    refreshes: Annotated[float, typer.Option(help="R0 of the rule that selects beta.")] = REFRESHES,
    rules: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="RULE", help="One more rule, as in `oneclock analyse`. May be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap and the noise study.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A folder for the tables and figures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The paper's tables for your sweeps: rules at T_ES, R0 calibrated, noise in T_ES, training loss, time to target.

    oneclock lab analyse study/

    oneclock lab analyse --paper --out paper-tables
    """
    from oneclock.lab.paper.published import losses_study
    from oneclock.lab.protocol import analyse_protocol, read_protocol
    from oneclock.stats import as_json as plain

    if paper == (source is not None):
        raise ValueError("give a table or a study, or --paper, and not both")
    study = losses_study() if source is None else read_protocol(source)
    analysis = analyse_protocol(study, refreshes, rules=[resolve_rule(text) for text in rules or ()], seed=seed)
    if out is not None:
        from oneclock.lab.protocol.figures import paper_figures
        from oneclock.lab.protocol.tables import EVERY
        from oneclock.report.folder import check_installed
        from oneclock.report.plot import save_figure
        from oneclock.report.tables import save_table

        check_installed()
        for table in (make(analysis) for make in EVERY):
            save_table(table, out / "tables")
        for figure in paper_figures(study, analysis):
            save_figure(figure, out / "figures")
    if as_json:
        import json

        print(json.dumps(plain(analysis), indent=1, allow_nan=False))
    else:
        from oneclock.lab.protocol.tables import in_words

        print("\n".join(in_words(analysis, shutil.get_terminal_size().columns)))
